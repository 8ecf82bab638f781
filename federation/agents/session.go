package agents

import "baton/federation"

// Begin returns a session of the agent with the end of its key, or [federation.ErrSessionEnded] if
// the key is no longer valid. An agent whose keys have all ended cannot begin a session.
func (a Agent) Begin(s federation.Session) (federation.Session, error) {
	if s.Key == "" && (len(a.Keys) == 0 || a.Primary(s.Created).Signs(s.Created)) {
		return s, nil
	}
	for _, key := range a.Keys {
		if s.Key != federation.KeyID(key.Public) || !key.Signs(s.Created) {
			continue
		}
		if s.Ends = key.Revoked; s.Ends.IsZero() || !key.Expires.IsZero() && key.Expires.Before(s.Ends) {
			s.Ends = key.Expires
		}
		return s, nil
	}
	return s, federation.ErrSessionEnded
}

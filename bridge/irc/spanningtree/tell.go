package spanningtree

import (
	"context"

	"baton/bridge"
	"baton/federation"
)

var _ bridge.Teller = (*Link)(nil)

// ruledOut is a step that was refused after it had waited.
type ruledOut struct {
	signer  party
	refused *federation.RefusalError
}

// Tell implements [bridge.Teller]: a NOTICE to the user that signed last as the DID,
// else to the one with the nick that did.
func (l *Link) Tell(ctx context.Context, ev federation.Event, refused *federation.RefusalError) error {
	s := l.live.Load()
	if s == nil {
		return nil
	}
	signer, err := l.party(ctx, ev.Actor(), ev.Arrival.Name)
	if err != nil {
		return err
	}
	select {
	case s.ruledOut <- ruledOut{signer: signer, refused: refused}:
	case <-s.over:
	case <-ctx.Done():
	}
	return nil
}

// tellRuledOut tells a user, if it is there.
func (s *session) tellRuledOut(ctx context.Context, r ruledOut) {
	if user := s.net.find(r.signer.did, r.signer.accounts, r.signer.nick); user != "" {
		s.tell(ctx, user, r.refused)
	}
}

package server

import "baton/bridge"

// snapshot is the links that run at one moment, sorted by what each step asks of them: a
// step costs no more where a thousand homes are known. It does not change once it is made.
type snapshot struct {
	all     []*running // in the order of the configuration
	named   map[string]*running
	placers []bridge.Placer // on which offers can be written
	asked   bridge.Links    // whose Carries says what is delivered to them
}

func newSnapshot(all []*running) *snapshot {
	s := &snapshot{all: all, named: make(map[string]*running, len(all))}
	for _, r := range all {
		s.named[r.Link.Name()] = r
		if placer, ok := r.Link.(bridge.Placer); ok {
			s.placers = append(s.placers, placer)
		}
		if _, ok := r.Link.(bridge.PeerHome); !ok {
			s.asked = append(s.asked, r.Link)
		}
	}
	return s
}

// isHome reports whether a name is that of a link to another home.
func (s *snapshot) isHome(name string) bool {
	r := s.named[name]
	if r == nil {
		return false
	}
	_, ok := r.Link.(bridge.PeerHome)
	return ok
}

package freeq

// maxSeen is how many ids of messages are remembered. A peer repeats itself within
// seconds, and sends at most a hundred messages in one.
const maxSeen = 10_000

// seen is the ids of the messages that a peer has sent on one connection. It is an
// exact set and no high-water mark: the ids of a server step back by one now and
// then, because it hands them out before it queues.
//
// spec: freeq-s2s "event_id and dedup"
type seen struct {
	ids  map[string]bool
	ring []string
	next int
}

func newSeen() *seen { return &seen{ids: map[string]bool{}} }

// add notes an id, and reports whether it is new. An empty one always is.
func (s *seen) add(id string) bool {
	if id == "" {
		return true
	}
	if s.ids[id] {
		return false
	}
	if len(s.ring) < maxSeen {
		s.ring = append(s.ring, id)
	} else {
		delete(s.ids, s.ring[s.next])
		s.ring[s.next] = id
		s.next = (s.next + 1) % maxSeen
	}
	s.ids[id] = true
	return true
}

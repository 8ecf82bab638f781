package irc

// Recent is the set of the last ids that were added. It is not safe for concurrent use.
type Recent struct {
	Most int // ids that it holds; it must be positive

	ids  map[string]bool
	ring []string
	next int
}

// Has reports whether an id is in the set.
func (r *Recent) Has(id string) bool { return r.ids[id] }

// Add adds an id, in place of the oldest where the set is full, and reports whether the
// id is new.
func (r *Recent) Add(id string) bool {
	if r.ids[id] {
		return false
	}
	if r.ids == nil {
		r.ids = map[string]bool{}
	}
	if len(r.ring) < r.Most {
		r.ring = append(r.ring, id)
	} else {
		delete(r.ids, r.ring[r.next])
		r.ring[r.next] = id
		r.next = (r.next + 1) % r.Most
	}
	r.ids[id] = true
	return true
}

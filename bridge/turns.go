package bridge

// Turns lets the senders at one destination take turns: the next one is the sender with the oldest
// last turn. It is not safe for concurrent use.
type Turns struct {
	last  map[string]int // number of the last turn, for each sender in the last call of Next
	count int
}

// Next returns the index of the next item. The argument has the sender of each waiting item, in
// order, and must not be empty.
func (t *Turns) Next(senders []string) int {
	last := make(map[string]int, len(t.last)) // drops senders without waiting items
	next := 0
	for i, sender := range senders {
		if turn, known := t.last[sender]; known {
			last[sender] = turn
		}
		if t.last[sender] < t.last[senders[next]] {
			next = i
		}
	}
	t.last = last
	return next
}

// Took records a turn of a sender.
func (t *Turns) Took(sender string) {
	t.count++
	t.last[sender] = t.count
}

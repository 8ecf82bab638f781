package bridge

// Turns lets the senders at one destination take turns: the next one is the sender whose last turn
// is longest ago. A Turns must not be used concurrently.
type Turns struct {
	last  map[string]int // number of the last turn of each sender that waited at the last choice
	count int
}

// Next returns the index of the item that is next. The argument has the sender of each waiting item,
// in the order of the items, and is not empty.
func (t *Turns) Next(senders []string) int {
	last := make(map[string]int, len(t.last)) // without the senders that have nothing left
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

// Took counts a turn of a sender.
func (t *Turns) Took(sender string) {
	t.count++
	t.last[sender] = t.count
}

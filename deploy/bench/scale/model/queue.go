package model

// micros is simulated time in microseconds since midnight UTC.
type micros int64

const (
	second micros = 1e6
	minute        = 60 * second
	hour          = 60 * minute
	day           = 24 * hour
)

func seconds(s float64) micros { return micros(s * float64(second)) }

type event struct {
	at     micros
	order  uint64 // among events at the same time
	begun  micros // when the sender submitted the step
	from   uint32 // the offerer, or author
	to     uint32 // the offeree, or reader; the home for an arrival
	what   what
	step   step
	riding bool // in the batch of an earlier event
	waited bool // for an absent home
}

// queue returns events in the order of time. Only the events of the current minute are in a heap,
// which keeps the heap small. Later events are in a list per minute.
type queue struct {
	now     nearest
	current int
	later   [][]event
	order   uint64
	waiting int
}

func newQueue(until micros) *queue { return &queue{later: make([][]event, until/minute+2)} }

// An event after the last minute goes to the end of that minute.
func (q *queue) push(e event) {
	q.order++
	e.order = q.order
	q.waiting++
	at := min(int(e.at/minute), len(q.later)-1)
	if at <= q.current {
		q.now.push(e)
		return
	}
	q.later[at] = append(q.later[at], e)
}

func (q *queue) pop() (event, bool) {
	for len(q.now) == 0 && q.current+1 < len(q.later) {
		q.current++
		q.now, q.later[q.current] = q.later[q.current], nil
		q.now.order()
	}
	if len(q.now) == 0 {
		return event{}, false
	}
	q.waiting--
	return q.now.pop(), true
}

// nearest is a binary heap without the interface conversions of container/heap.
type nearest []event

func (e event) before(f event) bool {
	return e.at < f.at || e.at == f.at && e.order < f.order
}

func (n *nearest) push(e event) {
	*n = append(*n, e)
	h := *n
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[i].before(h[parent]) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

func (n *nearest) pop() event {
	h := *n
	first, last := h[0], len(h)-1
	h[0] = h[last]
	*n = h[:last]
	n.sink(0)
	return first
}

func (n *nearest) order() {
	for i := len(*n)/2 - 1; i >= 0; i-- {
		n.sink(i)
	}
}

func (n *nearest) sink(i int) {
	h := *n
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].before(h[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

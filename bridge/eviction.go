package bridge

import (
	"container/heap"
	"container/list"
	"net/netip"
)

// EvictionQueue orders the items of clients at a listener, such as connections, for eviction. The
// oldest item of the address with the most items is evicted first, so a client that opens many
// connections evicts only its own.
//
// Create one with [NewEvictionQueue]. It is not safe for concurrent use. The time of each method is
// at most logarithmic in the number of addresses.
type EvictionQueue[T comparable] struct {
	places  map[T]*list.Element // each of a *queued[T] in the list of its holder
	holders map[netip.Prefix]*holder
	order   heaviest
	added   uint64
}

type queued[T comparable] struct {
	item  T
	of    *holder
	order uint64 // smaller is older
}

type holder struct {
	from   netip.Prefix
	items  *list.List
	oldest uint64
	index  int
}

// NewEvictionQueue returns an empty queue.
func NewEvictionQueue[T comparable]() *EvictionQueue[T] {
	return &EvictionQueue[T]{places: map[T]*list.Element{}, holders: map[netip.Prefix]*holder{}}
}

// Add appends an item as the newest of an address. An item already in the queue keeps its place.
func (q *EvictionQueue[T]) Add(from netip.Prefix, item T) {
	if q.places[item] != nil {
		return
	}
	h := q.holders[from]
	if h == nil {
		h = &holder{from: from, items: list.New(), oldest: q.added}
		q.holders[from] = h
		heap.Push(&q.order, h)
	}
	q.places[item] = h.items.PushBack(&queued[T]{item, h, q.added})
	q.added++
	heap.Fix(&q.order, h.index)
}

// Remove removes an item, if it is in the queue.
func (q *EvictionQueue[T]) Remove(item T) {
	place := q.places[item]
	if place == nil {
		return
	}
	delete(q.places, item)
	h := entry[T](place).of
	h.items.Remove(place)
	if h.items.Len() == 0 {
		heap.Remove(&q.order, h.index)
		delete(q.holders, h.from)
		return
	}
	h.oldest = entry[T](h.items.Front()).order
	heap.Fix(&q.order, h.index)
}

// Has reports whether an item is in the queue.
func (q *EvictionQueue[T]) Has(item T) bool { return q.places[item] != nil }

// Len returns the number of items.
func (q *EvictionQueue[T]) Len() int { return len(q.places) }

// Of returns the number of items of an address.
func (q *EvictionQueue[T]) Of(from netip.Prefix) int {
	if h := q.holders[from]; h != nil {
		return h.items.Len()
	}
	return 0
}

// Next returns the oldest item of the address with the most items, and that address, or false if
// the queue is empty.
func (q *EvictionQueue[T]) Next() (item T, from netip.Prefix, ok bool) {
	if len(q.order) == 0 {
		return item, from, false
	}
	h := q.order[0]
	return entry[T](h.items.Front()).item, h.from, true
}

// NextOf returns the oldest item of an address, or false if there is none.
func (q *EvictionQueue[T]) NextOf(from netip.Prefix) (item T, ok bool) {
	h := q.holders[from]
	if h == nil {
		return item, false
	}
	return entry[T](h.items.Front()).item, true
}

func entry[T comparable](place *list.Element) *queued[T] {
	q, _ := place.Value.(*queued[T]) // the lists have no other values
	return q
}

// heaviest is a heap of addresses by number of items; ties are broken by the oldest item.
type heaviest []*holder

func (h *heaviest) Len() int { return len(*h) }

func (h *heaviest) Less(i, j int) bool {
	a, b := (*h)[i], (*h)[j]
	if a.items.Len() != b.items.Len() {
		return a.items.Len() > b.items.Len()
	}
	return a.oldest < b.oldest
}

func (h *heaviest) Swap(i, j int) {
	all := *h
	all[i], all[j] = all[j], all[i]
	all[i].index, all[j].index = i, j
}

// Push appends an address.
func (h *heaviest) Push(x any) {
	of, _ := x.(*holder) // Add pushes nothing else
	of.index = len(*h)
	*h = append(*h, of)
}

// Pop removes the last address.
func (h *heaviest) Pop() any {
	last := len(*h) - 1
	of := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return of
}

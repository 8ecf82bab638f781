package bridge_test

import (
	"cmp"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/baton-gateway/baton/bridge"
)

// address returns one of the addresses of these tests.
func address(n int) netip.Prefix {
	return bridge.Subnet(netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}))
}

func TestEvictionTakesTheOldestOfTheHeaviestAddress(t *testing.T) {
	t.Parallel()
	q := bridge.NewEvictionQueue[string]()
	q.Add(address(1), "a1")
	q.Add(address(2), "b1")
	q.Add(address(2), "b2")
	q.Add(address(2), "b3")
	q.Add(address(2), "b2") // keeps its place
	q.Add(address(3), "c1")
	var lost []string
	for item, _, ok := q.Next(); ok; item, _, ok = q.Next() {
		lost = append(lost, item)
		q.Remove(item)
		q.Remove(item) // which does nothing
	}
	if want := []string{"b1", "b2", "a1", "b3", "c1"}; !slices.Equal(lost, want) {
		t.Errorf("evicted %v, want %v", lost, want)
	}
	if _, ok := q.NextOf(address(2)); ok || q.Len() != 0 || q.Of(address(2)) != 0 {
		t.Errorf("%d items are left", q.Len())
	}
}

type held struct{ item, from int }

// evicts is the model of Next: no heap and no index.
func evicts(items []held) held {
	count := map[int]int{}
	for _, h := range items {
		count[h.from]++
	}
	return slices.MinFunc(items, func(a, b held) int { // the first of equals is the oldest
		return cmp.Compare(count[b.from], count[a.from])
	})
}

func TestEvictionOrderMatchesALinearSearch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q, model := bridge.NewEvictionQueue[int](), []held{}
		for item := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(model) > 0 && rapid.Bool().Draw(t, "remove") {
				at := rapid.IntRange(0, len(model)-1).Draw(t, "at")
				q.Remove(model[at].item)
				model = slices.Delete(model, at, at+1)
			} else {
				from := rapid.IntRange(1, 4).Draw(t, "from")
				q.Add(address(from), item)
				model = append(model, held{item, from})
			}
			if q.Len() != len(model) {
				t.Fatalf("%d items, want %d", q.Len(), len(model))
			}
			if len(model) == 0 {
				continue
			}
			want := evicts(model)
			if got, from, ok := q.Next(); !ok || got != want.item || from != address(want.from) {
				t.Fatalf("evicts %d of %s, want %d of %d", got, from, want.item, want.from)
			}
			first := slices.IndexFunc(model, func(h held) bool { return h.from == want.from })
			if got, _ := q.NextOf(address(want.from)); got != model[first].item {
				t.Fatalf("the oldest of %d is %d, want %d", want.from, got, model[first].item)
			}
		}
	})
}

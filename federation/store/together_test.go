package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"baton/federation/store"
)

// Nothing overtakes what it may look at: neither in a write, nor about one thing, nor
// beside a statement that adds no row.
func TestWhatIsSentTogetherKeepsTheOrderThatMatters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var put []store.Arranged
		for write := range rapid.IntRange(1, 6).Draw(t, "writes") {
			for range rapid.IntRange(0, 6).Draw(t, "statements") {
				put = append(put, store.Arranged{
					Write: write + 1,
					Query: rapid.SampledFrom([]string{"event", "inbox", "feed"}).Draw(t, "table"),
					About: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "about"),
					Row:   rapid.IntRange(0, 9).Draw(t, "kind") > 0,
				})
			}
		}
		place := store.Arrange(put)
		for later := range put {
			for earlier := range later {
				a, b := put[earlier], put[later]
				same := a.Query == b.Query
				switch before := place[earlier] < place[later]; {
				case before, place[earlier] == place[later] && same && a.Row && b.Row && a.About != b.About:
				case !a.Row || !b.Row, a.Write == b.Write, same && a.About == b.About:
					t.Fatalf("%+v is sent in group %d, and before it %+v in group %d", a, place[earlier], b, place[later])
				}
			}
		}
	})
}

// Whoever is written to by everybody has each step numbered by itself, and costs the other
// tables nothing.
func TestWritesThatWaitForEachOtherAreTogetherAgain(t *testing.T) {
	var put []store.Arranged
	for write, handoff := range []string{"a", "b", "c"} {
		for _, row := range [][2]string{{"event", handoff}, {"inbox", "everybody's"}, {"feed", handoff}} {
			put = append(put, store.Arranged{Write: write, Query: row[0], About: row[1], Row: true})
		}
	}
	want := []int{0, 1, 4, 0, 2, 4, 0, 3, 4}
	if diff := cmp.Diff(want, store.Arrange(put)); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

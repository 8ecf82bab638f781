package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func blob(t *testing.T, n int, owner federation.DID, content string) federation.Blob {
	t.Helper()
	b, err := federation.NewBlob(owner, []byte(content), strings.NewReader(strings.Repeat("abcdefgh"[n:n+1], 16)), federationtest.At(n))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustKeepBlob(t *testing.T, record federation.Blobs, b federation.Blob, of federation.HandoffID) federation.Blob {
	t.Helper()
	kept, err := record.KeepBlob(t.Context(), b, of, 0)
	if err != nil {
		t.Fatalf("KeepBlob: %v", err)
	}
	return kept
}

func blobIsThere(t *testing.T, record federation.Blobs, b federation.Blob, at time.Time) bool {
	t.Helper()
	_, err := record.Blob(t.Context(), b.Capability, at)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		t.Fatalf("Blob: %v", err)
	}
	return err == nil
}

func runBlobs(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open: open}
	t.Run("a blob comes back as it was until it expires", s.testBlobComesBack)
	t.Run("a filed step claims the blob that it refers to, until its handoff is pruned", s.testStepClaimsBlob)
	t.Run("a message claims the blob that it names", s.testMessageClaimsBlob)
	t.Run("the same content for one handoff is kept once", s.testSameBlobOnce)
	t.Run("no more is stored for one owner than may be", s.testBlobsAreBounded)
	t.Run("what expired is pruned, so many at a time", s.testPruneBlobs)
}

func (s suite) testBlobComesBack(t *testing.T) {
	record := s.open(t)
	want := blob(t, 1, ada, "a context\x00\xff")
	if d := diff(want, mustKeepBlob(t, record, want, federation.HandoffID{})); d != "" {
		t.Errorf("KeepBlob (-want +got):\n%s", d)
	}
	got, err := record.Blob(t.Context(), want.Capability, want.Expires.Add(-1))
	if d := diff(want, got); d != "" || err != nil {
		t.Errorf("Blob: %v (-want +got):\n%s", err, d)
	}
	if blobIsThere(t, record, want, want.Expires) {
		t.Error("it is there after its time")
	}
	if blobIsThere(t, record, blob(t, 2, ada, "never kept"), federationtest.At(1)) {
		t.Error("a name that nobody gave out is found")
	}
	empty := blob(t, 3, ada, "")
	mustKeepBlob(t, record, empty, federation.HandoffID{})
	if !blobIsThere(t, record, empty, federationtest.At(3)) {
		t.Error("one without content is not there")
	}
}

func (s suite) testStepClaimsBlob(t *testing.T) {
	record := s.open(t)
	kept := mustKeepBlob(t, record, blob(t, 1, ada, "a context"), federation.HandoffID{})
	later := kept.Expires.Add(time.Hour)
	var last federation.View
	for n := 1; n <= 2; n++ { // two handoffs refer to it
		ev := federationtest.Offer(n, ada, bob)
		ev.Context = kept.URL("https://gw.example")
		opened := federationtest.File(ev, federation.View{})
		mustAppend(t, record, opened)
		ended := federationtest.File(federationtest.Step(10+n, ev, federation.Cancel, ada), opened.View)
		mustAppend(t, record, ended)
		last = ended.View
	}
	mustAppend(t, record, federationtest.File(federationtest.Offer(20, ada, bob), federation.View{})) // the newest is never pruned
	if !blobIsThere(t, record, kept, later) {
		t.Fatal("it went though two steps refer to it")
	}
	for n, want := range []bool{true, false} {
		if pruned, _, err := record.Prune(t.Context(), last.Moved, federationtest.At(100), "", 1); err != nil || pruned != 1 {
			t.Fatalf("Prune = %d, %v, want one", pruned, err)
		}
		if blobIsThere(t, record, kept, later) != want {
			t.Errorf("after %d handoffs were pruned it is there: %v, want %v", n+1, !want, want)
		}
	}
}

func (s suite) testMessageClaimsBlob(t *testing.T) {
	record := s.open(t)
	kept := mustKeepBlob(t, record, blob(t, 1, ada, "a context"), federation.HandoffID{})
	f := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	message := federationtest.Message(1, "ada", "bob")
	message.Handoff = federationtest.ID(1)
	f.Effects = []federation.Effect{agents.Posting{Message: message, Blob: kept.Capability}}
	mustAppend(t, record, f)
	if !blobIsThere(t, record, kept, kept.Expires.Add(time.Hour)) {
		t.Error("it went though a message names it")
	}
}

func (s suite) testSameBlobOnce(t *testing.T) {
	record := s.open(t)
	mustAppend(t, record, federationtest.File(federationtest.Offer(1, ada, bob), federation.View{}))
	first := mustKeepBlob(t, record, blob(t, 1, ada, "a context"), federationtest.ID(1))
	if !first.Expires.IsZero() || !blobIsThere(t, record, first, federationtest.At(1).AddDate(1, 0, 0)) {
		t.Errorf("a blob for a handoff on record expires at %v", first.Expires)
	}
	if d := diff(first, mustKeepBlob(t, record, blob(t, 2, ada, "a context"), federationtest.ID(1))); d != "" {
		t.Errorf("the second time (-first +second):\n%s", d)
	}
	for what, other := range map[string]federation.Blob{
		"of somebody else": mustKeepBlob(t, record, blob(t, 3, bob, "a context"), federationtest.ID(1)),
		"of other content": mustKeepBlob(t, record, blob(t, 4, ada, "another"), federationtest.ID(1)),
		"of no handoff":    mustKeepBlob(t, record, blob(t, 5, ada, "a context"), federation.HandoffID{}),
	} {
		if other.Capability == first.Capability {
			t.Errorf("one %s is taken for the first", what)
		}
	}
}

func (s suite) testBlobsAreBounded(t *testing.T) {
	record := s.open(t)
	for n, tt := range []struct {
		owner   federation.DID
		content string
		full    bool
	}{{ada, "123456", false}, {ada, "12345", true}, {ada, "1234", false}, {ada, "1", true}, {bob, "1234567890", false}} {
		_, err := record.KeepBlob(t.Context(), blob(t, n, tt.owner, tt.content), federation.HandoffID{}, 10)
		if errors.Is(err, federation.ErrBlobQuota) != tt.full || err != nil && !tt.full {
			t.Errorf("blob %d: %v, want no room: %v", n, err, tt.full)
		}
	}
}

func (s suite) testPruneBlobs(t *testing.T) {
	record := s.open(t)
	mustAppend(t, record, federationtest.File(federationtest.Offer(1, ada, bob), federation.View{}))
	claimed := mustKeepBlob(t, record, blob(t, 0, ada, "claimed"), federationtest.ID(1))
	var free []federation.Blob
	for n := 1; n <= 3; n++ {
		free = append(free, mustKeepBlob(t, record, blob(t, n, ada, "free"), federation.HandoffID{}))
	}
	for _, want := range []int{1, 1, 0} {
		if pruned, err := record.PruneBlobs(t.Context(), free[1].Expires, 1); err != nil || pruned != want {
			t.Errorf("PruneBlobs = %d, %v, want %d", pruned, err, want)
		}
	}
	if !blobIsThere(t, record, free[2], federationtest.At(3)) || !blobIsThere(t, record, claimed, free[2].Expires) {
		t.Error("one that did not expire is gone")
	}
	if blobIsThere(t, record, free[0], federationtest.At(0)) {
		t.Error("one that was pruned is there")
	}
}

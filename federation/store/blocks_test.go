package store_test

import (
	"errors"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func runBlocks(t *testing.T, open func(t *testing.T) *registry.Record) {
	t.Helper()
	s := suite{open}
	t.Run("blocks are read in order, a page at a time", s.testBlocks)
	t.Run("a block of the same takes its place, and those that are over go", s.testBlockAgain)
	t.Run("a block that is removed is gone", s.testUnblocked)
}

// block returns a block that begins at a second, and ends at another, or with 0 never.
func block(what string, since, until int) federation.Block {
	b := federation.Block{What: what, Kind: federation.BlockParticipant, Reason: "floods", Since: federationtest.At(since)}
	if until != 0 {
		b.Expires = federationtest.At(until)
	}
	return b
}

func addBlocks(t *testing.T, record *registry.Record, blocks ...federation.Block) {
	t.Helper()
	for _, b := range blocks {
		if err := record.AddBlock(t.Context(), b); err != nil {
			t.Fatalf("AddBlock(%s): %v", b.What, err)
		}
	}
}

func checkBlocks(t *testing.T, record *registry.Record, after string, limit int, want ...federation.Block) {
	t.Helper()
	got, err := record.BlocksAfter(t.Context(), after, limit)
	if d := diff(want, got); d != "" || err != nil {
		t.Errorf("BlocksAfter(%q, %d): %v (-want +got):\n%s", after, limit, err, d)
	}
}

func (s suite) testBlocks(t *testing.T) {
	record := s.open(t)
	ann, ben, upper := block("ann", 1, 0), block("ben", 1, 9), block("Zoe", 1, 0)
	addBlocks(t, record, ben, upper, ann)
	checkBlocks(t, record, "", 10, upper, ann, ben)
	checkBlocks(t, record, "", 2, upper, ann)
	checkBlocks(t, record, "ann", 10, ben)
}

func (s suite) testBlockAgain(t *testing.T) {
	record := s.open(t)
	addBlocks(t, record, block("ann", 1, 5), block("ben", 1, 9), block("cleo", 1, 0))
	again := block("cleo", 5, 50)
	again.Reason = "again"
	addBlocks(t, record, again)
	checkBlocks(t, record, "", 10, block("ben", 1, 9), again)
}

func (s suite) testUnblocked(t *testing.T) {
	record := s.open(t)
	addBlocks(t, record, block("ann", 1, 0), block("ben", 1, 0))
	if err := record.RemoveBlock(t.Context(), "ann"); err != nil {
		t.Errorf("RemoveBlock: %v", err)
	}
	if err := record.RemoveBlock(t.Context(), "ann"); !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("RemoveBlock again: %v, want ErrNotFound", err)
	}
	checkBlocks(t, record, "", 10, block("ben", 1, 0))
}

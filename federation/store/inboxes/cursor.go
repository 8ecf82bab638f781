package inboxes

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"

	"baton/federation"
)

// Positions names one inbox in its cursors, so that a cursor of another inbox is told apart. A
// forged cursor reveals nothing: a reader of an inbox may read it from any position.
type Positions struct {
	owner string  // as the query for its newest number wants it
	tag   [8]byte // of kind and owner
}

func didInbox(did federation.DID) Positions { return PositionsOf("did", string(did)) }

// PositionsOf returns the positions in the inbox of an owner. Owners of another kind have other
// inboxes.
func PositionsOf(kind, owner string) Positions {
	sum := sha256.Sum256([]byte(kind + " " + owner))
	return Positions{owner: owner, tag: [8]byte(sum[:])}
}

// At returns the position after an entry, which one number tells or several.
func (r Positions) At(entry ...uint64) federation.Cursor {
	raw := slices.Clone(r.tag[:])
	for _, n := range entry {
		raw = binary.BigEndian.AppendUint64(raw, n)
	}
	return federation.Cursor(base64.RawURLEncoding.EncodeToString(raw))
}

// Parse reads the numbers that tell the entry before a position into entry, each 0
// for the start.
func (r Positions) Parse(c federation.Cursor, entry ...*uint64) error {
	if c == "" {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(string(c))
	if err != nil || len(raw) != len(r.tag)+8*len(entry) {
		return federation.ErrUnknownCursor
	}
	numbers := make([]uint64, len(entry))
	for i := range numbers {
		numbers[i] = binary.BigEndian.Uint64(raw[len(r.tag)+8*i:])
	}
	// The cursor covers the tag and spellings of our own that base64 lets pass. SQLite
	// has no number above an int64.
	if r.At(numbers...) != c || slices.Contains(numbers, 0) || slices.Max(numbers) > math.MaxInt64 {
		return federation.ErrUnknownCursor
	}
	for i, number := range entry {
		*number = numbers[i]
	}
	return nil
}

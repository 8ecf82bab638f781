package store

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"baton/federation"
)

// inboxRef names one inbox of messages in its cursors, so that a cursor of another
// inbox is told apart. A forged cursor gives nothing away: whoever may read an inbox may
// read it from anywhere.
type inboxRef struct {
	owner string  // as the query for its newest number wants it
	tag   [8]byte // of kind and owner
}

func handleInbox(handle string) inboxRef { return newInboxRef("handle", handle) }

func newInboxRef(kind, owner string) inboxRef {
	sum := sha256.Sum256([]byte(kind + " " + owner))
	return inboxRef{owner: owner, tag: [8]byte(sum[:])}
}

// cursor returns the position after entry n.
func (r inboxRef) cursor(n uint64) federation.Cursor {
	raw := binary.BigEndian.AppendUint64(r.tag[:], n)
	return federation.Cursor(base64.RawURLEncoding.EncodeToString(raw))
}

// parse returns the number of the entry before a position, 0 for the start.
func (r inboxRef) parse(c federation.Cursor) (uint64, error) {
	if c == "" {
		return 0, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(string(c))
	if err != nil || len(raw) != len(r.tag)+8 {
		return 0, federation.ErrUnknownCursor
	}
	n := binary.BigEndian.Uint64(raw[len(r.tag):])
	if n == 0 || r.cursor(n) != c { // covers the tag and spellings of our own that base64 lets pass
		return 0, federation.ErrUnknownCursor
	}
	return n, nil
}

// position is parse for an inbox whose newest number a query tells: what lies
// beyond was never given out.
func (s *SQLite) position(ctx context.Context, r inboxRef, c federation.Cursor, newest string) (uint64, error) {
	n, err := r.parse(c)
	if err != nil || n == 0 {
		return 0, err
	}
	var last uint64
	if err := s.reads.row(ctx, newest, []any{r.owner}, &last); err != nil {
		return 0, err
	}
	if n > last {
		return 0, federation.ErrUnknownCursor
	}
	return n, nil
}

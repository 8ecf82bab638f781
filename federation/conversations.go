package federation

import (
	"context"
	"time"
)

// Conversation is what two handles wrote to each other, as one of them sees it.
type Conversation struct {
	With   string // the other one
	Count  int    // messages, without those that the handle deleted
	Unread int    // of them, to the handle
	Last   Message
}

// Conversations reads messages for clients that keep no cursors. Its promises are
// those of [Store].
type Conversations interface {
	// Fresh returns up to limit messages delivered to a handle that it was not handed
	// yet (see [Registry.Show]), oldest first.
	Fresh(ctx context.Context, to string, limit int) ([]Message, error)
	// Since returns up to limit messages told to a handle after a time, oldest first.
	Since(ctx context.Context, to string, since time.Time, limit int) ([]Message, error)
	// Recent returns the newest messages between two handles, up to limit, in order,
	// without those that the first of them deleted.
	Recent(ctx context.Context, handle, peer string, limit int) ([]Message, error)
	// Conversations returns up to limit conversations of a handle, the one with the
	// newest message first.
	Conversations(ctx context.Context, handle string, limit int) ([]Conversation, error)
	// ReadConversation notes that a handle has read all that another one wrote to it.
	ReadConversation(ctx context.Context, handle, peer string, now time.Time) error
}

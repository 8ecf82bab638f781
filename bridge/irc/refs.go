package irc

import (
	"context"
	"errors"
	"fmt"

	"baton/bridge"
	"baton/federation"
)

// ReplyTags are the tags with which clients name the message that a message answers.
//
// spec: ircv3 reply (draft)
const (
	replyTag      = "+reply"
	draftReplyTag = "+draft/reply"
)

// Refs is what a message says about which handoff it is about.
type Refs struct {
	Handoff string // of the tag [RefTag]; may be empty, or anything
	Reply   string // the ID of the message that it answers; likewise
	Step    string // the ID of the step that has Reply as the ID of its line, if Reply is one
}

// RefsIn reads the tags of a message.
func RefsIn(tags map[string]string) Refs {
	reply := tags[replyTag]
	if reply == "" {
		reply = tags[draftReplyTag]
	}
	return Refs{Handoff: tags[RefTag], Reply: reply}
}

// handoff returns the handoff that a message names: by its ID, or by the message that it
// answers, which brought a step or named a handoff itself. The zero ID is none. It blocks on
// the record, and its error is that of the record.
func (r Refs) handoff(ctx context.Context, p bridge.Ports) (federation.HandoffID, error) {
	if id, err := federation.ParseEventID(r.Handoff); err == nil {
		return id, nil
	}
	if r.Reply == "" {
		return federation.HandoffID{}, nil
	}
	id, err := p.Messages.Answered(ctx, r.Reply)
	if errors.Is(err, federation.ErrNotFound) && r.Step != "" {
		id, err = p.Messages.Answered(ctx, r.Step)
	}
	if errors.Is(err, federation.ErrNotFound) {
		return federation.HandoffID{}, nil
	}
	if err != nil {
		return id, fmt.Errorf("look up message %s: %w", r.Reply, err)
	}
	return id, nil
}

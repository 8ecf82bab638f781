package irc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/dialect"
)

// Render returns a step for a link, in the dialect of its handoff and with its place on the link.
// If the step is signed for both and fits one message, it is returned unchanged. Any other step is
// rewritten with the same event ID and signed with the gateway's key for its signer. The original
// becomes its evidence, which is on disk before Render returns.
//
// A title that is too long is truncated. A context that does not fit is stored and replaced by a
// reference. The losses list the parts that only the evidence contains. The result is
// deterministic. Steps of the home itself need no evidence.
//
// spec: handofftag "Rule of dialects"
func Render(ctx context.Context, p bridge.Ports, d federation.Delivery) (federation.Event, []federation.Loss, error) {
	ev := d.Entry.Event
	if ev.Dialect == d.View.Dialect && ev.Venue == d.View.Venue && translate.TagBytes(ev.Fields) <= MaxTagBytes && len(ev.Title) <= translate.MaxTitleBytes {
		return ev, nil, nil
	}
	return Vouch(ctx, p, d)
}

// Vouch is like [Render], but always rewrites a step.
func Vouch(ctx context.Context, p bridge.Ports, d federation.Delivery) (federation.Event, []federation.Loss, error) {
	signed := d.Entry.Event
	ev := signed
	ev.Dialect, ev.Venue = d.View.Dialect, d.View.Venue
	title, fitted, cut := translate.FitWireTitle(ev.Title, ev.Context)
	if ev.Title, ev.Context = title, fitted; ev.Context != signed.Context {
		ev.ContextHash = "" // hash of the context without the title
	}
	write := func(ev federation.Event) (map[string]string, []federation.Loss) {
		return dialect.Rewrite(ev, signed.Dialect)
	}
	if signed.From == p.Home.DID() {
		ev, losses, err := signing.SealFitted(ctx, p.Signer.Own(), ev, write, p.Evidence.Refer)
		return ev, append(cut, losses...), err
	}
	evidence, err := p.EvidenceOf(ctx, signing.OriginalOf(signed.Signature, signed.Arrival), ev.Venue)
	if err != nil {
		return signed, nil, err
	}
	if err := p.Evidence.Keep(ctx, ev.Handoff, evidence); err != nil {
		return signed, nil, fmt.Errorf("keep evidence of %s: %w", ev.ID, err)
	}
	ev.For, ev.Evidence = signed.Actor(), &evidence
	ev, losses, err := signing.Vouch(ctx, p.Signer.Kept("person:"+string(ev.For)), ev, write, p.Evidence.Refer)
	return ev, append(cut, losses...), err
}

// Decode reads a step from an IRC message.
//
// spec: handofftag "Tags"
func Decode(m translate.Tagged) (federation.Event, error) {
	ev, err := dialect.Decode(m)
	if err == nil && len(ev.Title) > translate.MaxTitleBytes {
		err = federation.Refuse(ev, federation.InvalidTag, fmt.Sprintf("the title has more than %d bytes", translate.MaxTitleBytes))
	}
	return ev, err
}

// Tags returns the tags of a rendered step, with a message ID if it is not empty. It returns an
// error if a server would truncate or drop tags.
func Tags(ev federation.Event, v federation.View, msgid string) (map[string]string, error) {
	m, err := dialect.Encode(translate.Step{Entry: federation.Entry{Event: ev}, View: v})
	if err != nil {
		return nil, err
	}
	if msgid != "" {
		m.Tags["msgid"] = msgid
	}
	if err := CheckTags(m.Tags); err != nil {
		return nil, federation.Refuse(ev, federation.InvalidTag, err.Error())
	}
	return m.Tags, nil
}

// LogLosses logs the fields missing in a rendered step.
func LogLosses(ctx context.Context, log *slog.Logger, ev federation.Event, losses []federation.Loss) {
	for _, loss := range losses {
		log.LogAttrs(ctx, slog.LevelInfo, "field not carried", slog.String("event_id", ev.ID.String()),
			slog.String("field", loss.Field), slog.String("fate", string(loss.Fate)), slog.String("reason", loss.Why))
	}
}

// Bound returns the binding of an account on a link, or the zero value.
func Bound(ctx context.Context, p bridge.Ports, link, account string) (federation.BoundName, error) {
	if account == "" {
		return federation.BoundName{}, nil
	}
	b, err := p.Bindings.Bound(ctx, link, account)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return federation.BoundName{}, nil
	case err != nil:
		return federation.BoundName{}, fmt.Errorf("look up account: %w", err)
	}
	return b, nil
}

// VouchFor returns an unsigned step signed by the gateway for its sender, the DID in From. A step
// without an ID gets one. The received line is the evidence. A context that does not fit is stored.
// Other members that do not fit are only in the evidence. On error, the step is returned unchanged,
// so that the caller can retry.
func VouchFor(ctx context.Context, p bridge.Ports, ev federation.Event, line string) (federation.Event, error) {
	draft := ev
	switch {
	case ev.Stamped:
	case ev.Verb == federation.Offer:
		draft.ID = ev.Handoff
	default:
		id, err := federation.NewEventID(ev.Arrival.Received, rand.Reader)
		if err != nil {
			return ev, err
		}
		draft.ID = id
	}
	original := signing.Original{Network: ev.Arrival.Network, Received: ev.Arrival.Received, Document: line}
	evidence, err := p.EvidenceOf(ctx, original, ev.Venue)
	if err != nil {
		return ev, err
	}
	draft.For, draft.Evidence = ev.From, &evidence
	write := func(ev federation.Event) (map[string]string, []federation.Loss) {
		return dialect.Rewrite(ev, ev.Dialect)
	}
	vouched, _, err := signing.Vouch(ctx, p.Signer.Kept("person:"+string(ev.From)), draft, write, p.Evidence.Refer)
	if err != nil {
		return ev, fmt.Errorf("vouch for %s: %w", ev.From, err)
	}
	return vouched, nil
}

// ReplyTags are the tags that name the answered message.
//
// spec: ircv3 reply (draft)
const (
	replyTag      = "+reply"
	draftReplyTag = "+draft/reply"
)

// Tags of a message without text that adds an emoji to another message, or removes it.
//
// spec: ircv3 react (draft)
const (
	reactTag   = "+draft/react"
	unreactTag = "+draft/unreact"
)

// TypingTag has the typing state of a user.
//
// spec: ircv3 typing
const TypingTag = "+typing"

// Typing returns the typing state of a message without text, or "" for none.
func Typing(tags map[string]string) string {
	switch state := tags[TypingTag]; state {
	case "active", "paused", "done":
		return state
	}
	return ""
}

// Refs contains the references of a message to handoffs and other messages.
type Refs struct {
	Handoff string // unchecked; may be empty
	Reply   string // unchecked; may be empty
	Step    string // ID of the step if Reply is the ID of its line

	React   string // unchecked
	Unreact string // unchecked
}

// RefsIn reads the tags of a message.
func RefsIn(tags map[string]string) Refs {
	reply := tags[replyTag]
	if reply == "" {
		reply = tags[draftReplyTag]
	}
	return Refs{Handoff: tags[RefTag], Reply: reply, React: tags[reactTag], Unreact: tags[unreactTag]}
}

// Answering returns text for a link, with the answered message's ID on the link.
func Answering(ctx context.Context, p bridge.Ports, link string, t federation.Text) (federation.Text, error) {
	reply := t.Fields[federation.Reply]
	if reply == "" {
		return t, nil
	}
	id, err := p.Messages.ShownAs(ctx, link, reply)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		return t, fmt.Errorf("look up message %s: %w", reply, err)
	}
	t.Answers = id
	return t, nil
}

// The zero ID means none. It blocks on the record and returns its errors.
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

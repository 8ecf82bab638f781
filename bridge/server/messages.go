package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

const maxMentions = 200

var _ bridge.Messages = (*Gateway)(nil)

// Say implements [bridge.Messages].
func (g *Gateway) Say(ctx context.Context, t federation.Text, original signing.Original) (bridge.TextResult, error) {
	leave, err := g.links.acquire(ctx, t.Arrival.Link)
	if err != nil {
		return bridge.TextResult{}, err
	}
	defer leave()
	said, err := g.send(ctx, &t, original, time.Now())
	g.noteMessage(ctx, t, said, err)
	if err != nil || said.Known {
		return said, err
	}
	g.deps.PubSub.Wake(bridge.DIDTopic(t.To), bridge.WebhooksTopic)
	return said, nil
}

func (g *Gateway) send(ctx context.Context, t *federation.Text, original signing.Original, now time.Time) (said bridge.TextResult, err error) {
	if t.To, err = g.Owner(ctx, t.To); err != nil {
		return said, err
	}
	t.Order, t.Venue = federation.Conversation(t.Author, t.To), federation.PrivateVenue(t.Author, t.To)
	if t.Arrival.Received.IsZero() {
		t.Arrival.Received = now
	}
	switch {
	case t.Author == t.To:
		return said, t.Refuse(federation.InvalidTarget, "a message needs another recipient than its author")
	case strings.TrimSpace(t.Body) == "":
		return said, t.Refuse(federation.MissingRequirement, "a message needs text")
	case utf8.RuneCountInString(t.Body) > federation.MaxMessageChars:
		return said, t.Refuse(federation.InvalidTag, fmt.Sprintf("a message has at most %d characters", federation.MaxMessageChars))
	}
	repeatable := !t.ID.IsZero()
	if !repeatable {
		if t.ID, err = federation.NewEventID(now, rand.Reader); err != nil {
			return said, err
		}
	}
	if err := g.mayWrite(ctx, *t, now); err != nil {
		return said, err
	}
	if repeatable {
		if said, err = g.saidBefore(ctx, *t); said.Known || err != nil {
			return said, err
		}
	}
	if err := g.answer(ctx, t); err != nil {
		return said, err
	}
	if shown, err := g.mayMention(ctx, *t); err != nil {
		return said, err
	} else if !shown && t.Arrival.ReadsInbox { // the author referred to it without having access
		return said, t.Refuse(federation.UnknownHandoff, "")
	} else if !shown {
		t.About = federation.HandoffID{} // the reply still reaches the author of the line
	}
	way, err := g.reach(ctx, bridge.Recipient{DID: t.To, Place: t.Arrival.Place})
	if err == nil && way.home != "" && t.Arrival.Home != "" {
		err = t.Refuse(federation.InvalidTarget, "the mailbox of the recipient is at another home")
	}
	if err != nil {
		return said, err
	}
	f := federation.TextFiling{Filed: now}
	if g.find(ctx, t, way, &said); said.ToNick && t.Arrival.Home != "" { // the other home cannot notify its sender
		return said, t.Refuse(federation.InvalidTarget, "the recipient is not connected, and has no account")
	}
	if t.Arrival.Place = way.to.Place; way.home == "" {
		if f.Contact, err = g.introduce(ctx, t); err != nil {
			return said, err
		}
	}
	if f.Text, err = g.sealText(ctx, *t, g.deps.Kept("person:"+string(t.Author)), original); err != nil {
		return said, err
	}
	f.Kept = []federation.KeptKey{g.deps.Owners.KeptFor(t.Author)}
	if f.Newcomer, err = g.newcomer(ctx, *t, now); err != nil {
		return said, err
	}
	if err := g.routeMessage(ctx, &f, way); err != nil {
		return said, err
	}
	if said.Text, said.Known, err = g.deps.Record.FileText(ctx, f); err != nil {
		return said, err
	}
	said.Forwarded = said.Forwarded || slices.Contains(f.Topics, bridge.RelayTopic)
	said.Away = said.Away || said.Forwarded
	g.deps.PubSub.Wake(f.Topics...)
	return said, g.answerContact(ctx, *t, now)
}

// A message to a nick goes to its current user. If there is none, it waits for the next one, and
// its sender gets a notice.
func (g *Gateway) find(ctx context.Context, t *federation.Text, way route, said *bridge.TextResult) {
	delete(t.Fields, federation.Holder)
	if way.home != "" || way.messenger == nil {
		said.Forwarded = way.home != ""
		return
	}
	holder, here := way.messenger.Here(ctx, way.to)
	said.Away = !here
	said.ToNick = !here && t.To == g.Guest(way.messenger.Name(), way.to.Place.Venue)
	if here && holder != "" {
		setField(t, federation.Holder, holder)
	}
}

func setField(t *federation.Text, name, value string) {
	if t.Fields = maps.Clone(t.Fields); t.Fields == nil {
		t.Fields = map[string]string{}
	}
	t.Fields[name] = value
}

// answer translates the ID of the answered message from the author's network to our ID. It drops
// the ID of a message between other parties.
func (g *Gateway) answer(ctx context.Context, t *federation.Text) error {
	reply := t.Fields[federation.Reply]
	if reply == "" {
		return nil
	}
	found, err := g.deps.Record.WithMessageID(ctx, reply)
	if errors.Is(err, federation.ErrNotFound) || err == nil && (found.Text == nil || found.Text.Venue != t.Venue) {
		delete(t.Fields, federation.Reply)
		return nil
	}
	if err == nil {
		t.Fields[federation.Reply] = found.Text.ID.String()
	}
	return err
}

// saidBefore returns the result for a message that is already filed. It records the consent of the
// sender again, because this may have failed the first time.
func (g *Gateway) saidBefore(ctx context.Context, t federation.Text) (said bridge.TextResult, err error) {
	found, err := g.deps.Record.WithMessageID(ctx, t.ID.String())
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return said, nil
	case err != nil:
		return said, err
	case found.Text == nil || found.Text.Author != t.Author || found.Text.To != t.To || found.Text.Body != t.Body || found.Text.About != t.About:
		return said, nil // the record refuses an ID reused by its sender
	}
	said.Known, said.Text = true, *found.Text
	return said, g.answerContact(ctx, t, time.Now())
}

func (g *Gateway) mayWrite(ctx context.Context, t federation.Text, now time.Time) error {
	if err := g.refuseAuthor(ctx, t); err != nil {
		return err
	}
	wait := g.deps.Addresses.Wait(bridge.SubnetFrom(ctx), now)
	if home := g.home.Load(); wait == 0 {
		wait = home.Rates.Take(t.Author, home.Limits.EventsPerMinute, now)
	}
	if wait == 0 {
		return nil
	}
	refused := t.Refuse(federation.RateLimited, "")
	refused.RetryAfter = wait
	return refused
}

// mayMention reports whether a message may refer to a handoff, which must be public, unknown or the
// author's.
func (g *Gateway) mayMention(ctx context.Context, t federation.Text) (bool, error) {
	if t.About.IsZero() {
		return true, nil
	}
	view, err := g.deps.Record.View(ctx, t.About)
	if err != nil {
		return false, fmt.Errorf("read handoff %s: %w", t.About, err)
	}
	if !view.Exists() || !federation.Private(view.Venue) || view.Offeree == "" {
		return true, nil
	}
	for _, did := range view.Others("") {
		if same, err := g.Same(ctx, t.Author, did); same || err != nil {
			return same, err
		}
	}
	return false, nil
}

// newcomer returns the sender if this is its first message, or "".
func (g *Gateway) newcomer(ctx context.Context, t federation.Text, now time.Time) (federation.DID, error) {
	isNew, err := g.home.Load().Admit(ctx, t.Author, t.Arrival.Address, now)
	g.countStranger(err)
	if err != nil || !isNew {
		return "", err
	}
	return t.Author, nil
}

func (g *Gateway) sealText(ctx context.Context, t federation.Text, key federation.SigningKey, original signing.Original) (federation.Text, error) {
	evidence, err := original.Evidence(ctx, g.deps.PublicURL, t.Venue, g.deps.Kept(signing.EvidenceSecret))
	if err != nil {
		return t, fmt.Errorf("keep original of %s: %w", t.ID, err)
	}
	t.From, t.Evidence = key.DID, &evidence
	return signing.SealText(ctx, key, t)
}

func (g *Gateway) checkInbox(ctx context.Context, t federation.Text) error {
	limits := g.home.Load().Limits.Inbox
	if limits == (federation.InboxLimits{}) {
		return nil
	}
	use, err := g.deps.Record.Use(ctx, t.To, t.From)
	if err == nil && !limits.Admits(use, int64(len(t.Signature.Document))) {
		err = t.Refuse(federation.InboxFull, "")
	}
	return err
}

// routeMessage sets the destination of a message: the home of its recipient, or the recipient's
// inbox here, the link that shows it, and the tables of networks. A link that replays inboxes takes
// the message from the inbox, unless the user has no DID.
func (g *Gateway) routeMessage(ctx context.Context, f *federation.TextFiling, way route) error {
	if way.home != "" {
		f.Links, f.Topics = []string{way.home}, []string{bridge.OutboxTopic(way.home)}
		return g.checkOutbox(ctx, f.Text, way.home)
	}
	if err := g.checkInbox(ctx, f.Text); err != nil {
		return err
	}
	f.Inboxes = []federation.DID{f.Text.To}
	for recorder := range able[bridge.Recorder](g.links) {
		effects, topics, err := recorder.TextEffects(ctx, f.Text)
		if err != nil {
			return fmt.Errorf("write for %s: %w", recorder.Name(), err)
		}
		f.Effects, f.Topics = append(f.Effects, effects...), append(f.Topics, topics...)
	}
	if way.messenger == nil {
		return nil
	}
	name := way.messenger.Name()
	if _, replays := way.messenger.(bridge.Replayer); replays && f.Text.To != g.Guest(name, way.to.Place.Venue) {
		return nil
	}
	f.Links, f.Topics = []string{name}, append(f.Topics, bridge.OutboxTopic(name))
	return nil
}

func (g *Gateway) checkOutbox(ctx context.Context, t federation.Text, home string) error {
	has, err := g.deps.Record.HasSpace(ctx, home, t.Order, g.home.Load().Limits.Inbox.EventsPerSender)
	if err == nil && !has {
		err = t.Refuse(federation.InboxFull, "")
	}
	return err
}

func (g *Gateway) noteMessage(ctx context.Context, t federation.Text, said bridge.TextResult, err error) {
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	outcome, level := "filed", slog.LevelInfo
	attrs := stepAttrs(t.Row())
	switch {
	case isRefusal:
		outcome = "refused"
		attrs = append(attrs, slog.String("code", string(refused.Code)), slog.String("reason", err.Error()))
	case errors.Is(err, federation.ErrNotFound):
		outcome = "refused"
		attrs = append(attrs, slog.String("reason", err.Error()))
	case err != nil:
		g.deps.Log.LogAttrs(ctx, slog.LevelError, "message could not be filed", append(attrs, slog.Any("err", err))...)
		return
	case said.Known:
		outcome = "duplicate"
	}
	g.deps.Metrics.Events.WithLabelValues(t.Arrival.Network, federation.TextVerb, federation.Valid.String(), outcome).Inc()
	g.deps.Log.LogAttrs(ctx, level, "message judged", append(attrs, slog.String("outcome", outcome))...)
}

// Back implements [bridge.Messages].
func (g *Gateway) Back(ctx context.Context, link string, did federation.DID) error {
	n, err := g.deps.Record.HurryMessages(ctx, link, did)
	if n > 0 {
		g.deps.PubSub.Wake(bridge.OutboxTopic(link))
	}
	return err
}

// About implements [bridge.Messages].
func (g *Gateway) About(ctx context.Context, id federation.HandoffID) ([]federation.Text, error) {
	return g.deps.Record.TextAbout(ctx, id, maxMentions)
}

// Answered implements [bridge.Messages].
func (g *Gateway) Answered(ctx context.Context, messageID string) (federation.HandoffID, error) {
	found, err := g.deps.Record.WithMessageID(ctx, messageID)
	if err != nil {
		return federation.HandoffID{}, err
	}
	id := found.Event.Handoff
	if found.Text != nil {
		id = found.Text.About
	}
	if id.IsZero() {
		return id, federation.ErrNotFound
	}
	return id, nil
}

// ShownAs implements [bridge.Messages].
func (g *Gateway) ShownAs(ctx context.Context, link, id string) (messageID string, err error) {
	found, err := g.deps.Record.WithMessageID(ctx, id)
	switch {
	case err != nil:
		return "", err
	case found.Text == nil:
		return "", federation.ErrNotFound
	case found.Text.Arrival.Link == link:
		return found.Text.Arrival.MessageID, nil
	}
	return found.Text.ID.String(), nil
}

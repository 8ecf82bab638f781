package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"baton/bridge"
	"baton/federation"
	"baton/federation/signing"
)

// maxMentions bounds the messages that are shown beside a handoff.
const maxMentions = 200

var _ bridge.Messages = (*Gateway)(nil)

// Say implements [bridge.Messages].
func (g *Gateway) Say(ctx context.Context, m bridge.Message) (bridge.Said, error) {
	leave, err := g.links.enter(ctx, m.Arrival.Link)
	if err != nil {
		return bridge.Said{}, err
	}
	defer leave()
	said, ev, err := g.say(ctx, m, time.Now())
	err = withoutHandoff(err)
	g.noteMessage(ctx, ev, said, err)
	if err != nil || said.Known {
		return said, err
	}
	g.deps.Wakes.Wake(bridge.DIDTopic(ev.To), bridge.WebhooksTopic)
	return said, nil
}

func (g *Gateway) say(ctx context.Context, m bridge.Message, now time.Time) (said bridge.Said, ev federation.Event, err error) {
	if m.To.DID, err = g.Owner(ctx, m.To.DID); err != nil {
		return said, ev, err
	}
	if ev, err = g.write(m, now); err != nil {
		return said, ev, err
	}
	if err := g.mayWrite(ctx, ev, now); err != nil {
		return said, ev, err
	}
	if said, err = g.saidBefore(ctx, m, ev); said.Known || err != nil {
		return said, ev, err
	}
	if shown, err := g.mayMention(ctx, ev); err != nil {
		return said, ev, err
	} else if !shown && ev.Arrival.ReadsInbox { // the author named it without having access
		return said, ev, federation.Refuse(ev, federation.UnknownHandoff, "")
	} else if !shown {
		ev.ReplyTo = "" // the answer still goes to the author of the line
	}
	way, err := g.reach(ctx, m.To)
	if err == nil && way.home != "" && m.Arrival.Home != "" {
		err = federation.Refuse(ev, federation.InvalidTarget, "the mailbox of the recipient is at another home")
	}
	if err != nil {
		return said, ev, err
	}
	f := federation.MessageFiling{Filing: federation.Filing{Filed: now}}
	said.Away = way.home != "" || way.messenger != nil && !way.messenger.Here(ctx, way.to)
	if ev.Arrival.Place = way.to.Place; way.home == "" {
		if f.Contact, err = g.introduce(ctx, &ev); err != nil {
			return said, ev, err
		}
	}
	if f.Event, err = g.sealMessage(ctx, ev, g.deps.Kept("person:"+string(ev.For)), m.Original); err != nil {
		return said, ev, err
	}
	f.View = federation.MessageView(f.Event)
	f.Kept = []federation.KeptKey{g.deps.Owners.KeptFor(ev.For)}
	if f.Newcomer, err = g.newcomer(ctx, ev, now); err != nil {
		return said, ev, err
	}
	if err := g.routeMessage(ctx, &f, way); err != nil {
		return said, ev, err
	}
	said.Entry, said.Known, err = g.deps.Record.FileMessage(ctx, f)
	if err != nil {
		return said, ev, err
	}
	said.Away = said.Away || slices.Contains(f.Topics, bridge.RelayTopic) // another registry has still to take it
	g.deps.Wakes.Wake(f.Topics...)
	return said, ev, g.answerContact(ctx, ev, now)
}

// saidBefore returns the answer to a message that was filed before, and notes again what its first
// time may not have noted: that the sender takes an answer.
func (g *Gateway) saidBefore(ctx context.Context, m bridge.Message, ev federation.Event) (said bridge.Said, err error) {
	if m.ID.IsZero() {
		return said, nil
	}
	found, err := g.deps.Record.WithMessageID(ctx, m.ID.String())
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return said, nil
	case err != nil:
		return said, err
	case !found.IsMessage() || found.For != ev.For || found.To != ev.To || found.Note != ev.Note || found.ReplyTo != ev.ReplyTo:
		return said, nil // the record refuses an ID that its sender uses again
	}
	said.Known, said.Entry = true, federation.Entry{Event: found, State: federation.MessageState}
	return said, g.answerContact(ctx, ev, time.Now())
}

// write returns a message as an event without a signature.
func (g *Gateway) write(m bridge.Message, now time.Time) (federation.Event, error) {
	ev := federation.Event{
		ID: m.ID, Handoff: federation.Conversation(m.From, m.To.DID), Verb: federation.Message, Kind: federation.Kind(federation.Message),
		For: m.From, To: m.To.DID, Venue: federation.PrivateVenue(m.From, m.To.DID), Note: m.Text, ReplyTo: m.About.String(),
		Provenance: federation.Vouched, Arrival: m.Arrival,
	}
	if ev.Arrival.Received.IsZero() {
		ev.Arrival.Received = now
	}
	switch {
	case m.From == m.To.DID:
		return ev, federation.Refuse(ev, federation.InvalidTarget, "a message needs another recipient than its author")
	case strings.TrimSpace(m.Text) == "":
		return ev, federation.Refuse(ev, federation.MissingRequirement, "a message needs text")
	case utf8.RuneCountInString(m.Text) > federation.MaxMessageChars:
		return ev, federation.Refuse(ev, federation.InvalidTag, fmt.Sprintf("a message has at most %d characters", federation.MaxMessageChars))
	}
	if ev.ID.IsZero() {
		id, err := federation.NewEventID(now, rand.Reader)
		if err != nil {
			return ev, err
		}
		ev.ID = id
	}
	return ev, nil
}

// mayWrite refuses a message of a blocked source, and one beyond the rate of its address or of
// its sender.
func (g *Gateway) mayWrite(ctx context.Context, ev federation.Event, now time.Time) error {
	if err := g.refuseBlocked(ctx, ev); err != nil {
		return err
	}
	wait := g.deps.Addresses.Wait(bridge.SubnetFrom(ctx), now)
	if home := g.home.Load(); wait == 0 {
		wait = home.Rates.Take(ev.For, home.Limits.EventsPerMinute, now)
	}
	if wait == 0 {
		return nil
	}
	refused := federation.Refuse(ev, federation.RateLimited, "")
	refused.RetryAfter = wait
	return refused
}

// mayMention reports whether a message may name its handoff: the handoff is not private, or the
// author is a party. Unknown handoffs count as not private.
func (g *Gateway) mayMention(ctx context.Context, ev federation.Event) (bool, error) {
	about := ev.About()
	if about.IsZero() {
		return true, nil
	}
	view, err := g.deps.Record.View(ctx, about)
	if err != nil {
		return false, fmt.Errorf("read handoff %s: %w", about, err)
	}
	if !view.Exists() || !federation.Private(view.Venue) || view.Offeree == "" {
		return true, nil
	}
	return slices.ContainsFunc(view.Others(""), func(did federation.DID) bool { return g.Same(ctx, ev.For, did) }), nil
}

// newcomer returns the sender where the record meets it with this message, "" for a known one.
func (g *Gateway) newcomer(ctx context.Context, ev federation.Event, now time.Time) (federation.DID, error) {
	isNew, err := g.home.Load().Admit(ctx, ev.For, ev.Arrival.Address, now)
	g.countStranger(err)
	if err != nil || !isNew {
		return "", err
	}
	return ev.For, nil
}

// sealMessage signs a message with a key that the gateway keeps, with the original as evidence.
func (g *Gateway) sealMessage(ctx context.Context, ev federation.Event, key federation.SigningKey, original signing.Original) (federation.Event, error) {
	evidence, err := original.Evidence(ctx, g.deps.PublicURL, ev.Venue, g.deps.Kept(signing.EvidenceSecret))
	if err != nil {
		return ev, fmt.Errorf("keep original of %s: %w", ev.ID, err)
	}
	ev.From, ev.Evidence = key.DID, &evidence
	return signing.SealMessage(ctx, key, ev)
}

// checkInbox refuses a message for which the inbox of its recipient, or its sender's share of
// that, has no space left.
func (g *Gateway) checkInbox(ctx context.Context, ev federation.Event) error {
	limits := g.home.Load().Limits.Inbox
	if limits == (federation.InboxLimits{}) {
		return nil
	}
	use, err := g.deps.Record.Use(ctx, ev.To, ev.From)
	if err == nil && !limits.Admits(use, int64(len(ev.Signature.Document))) {
		err = federation.Refuse(ev, federation.InboxFull, "")
	}
	return err
}

// routeMessage adds to a filing where the message goes: to the home of its recipient, or into the
// recipient's inbox here, to the link that shows it, and into the tables of networks. A link that
// brings its users their inbox has the message from there, unless the user has no DID of its own.
func (g *Gateway) routeMessage(ctx context.Context, f *federation.MessageFiling, way route) error {
	if way.home != "" {
		f.Links, f.Topics = []string{way.home}, []string{bridge.OutboxTopic(way.home)}
		return g.checkOutbox(ctx, f.Event, way.home)
	}
	if err := g.checkInbox(ctx, f.Event); err != nil {
		return err
	}
	f.Inboxes = []federation.DID{f.Event.To}
	d := federation.Delivery{Entry: federation.Entry{Event: f.Event, State: federation.MessageState, Filed: f.Filed}, View: f.View}
	for recorder := range able[bridge.Recorder](g.links) {
		effects, topics, err := recorder.Effects(ctx, d)
		if err != nil {
			return fmt.Errorf("write for %s: %w", recorder.Name(), err)
		}
		f.Effects, f.Topics = append(f.Effects, effects...), append(f.Topics, topics...)
	}
	if way.messenger == nil {
		return nil
	}
	name := way.messenger.Name()
	if _, replays := way.messenger.(bridge.Replayer); replays && f.Event.To != g.Guest(name, way.to.Place.Venue) {
		return nil
	}
	f.Links, f.Topics = []string{name}, append(f.Topics, bridge.OutboxTopic(name))
	return nil
}

// checkOutbox refuses a message where as many of its sender wait for its recipient at another home
// as one sender may have in an inbox.
func (g *Gateway) checkOutbox(ctx context.Context, ev federation.Event, home string) error {
	has, err := g.deps.Record.HasSpace(ctx, home, ev.Handoff, g.home.Load().Limits.Inbox.EventsPerSender)
	if err == nil && !has {
		err = federation.Refuse(ev, federation.InboxFull, "")
	}
	return err
}

// noteMessage counts and logs a message.
func (g *Gateway) noteMessage(ctx context.Context, ev federation.Event, said bridge.Said, err error) {
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	outcome, level := "filed", slog.LevelInfo
	attrs := stepAttrs(ev)
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
	g.deps.Metrics.Events.WithLabelValues(ev.Arrival.Network, string(federation.Message), federation.Valid.String(), outcome).Inc()
	g.deps.Log.LogAttrs(ctx, level, "message judged", append(attrs, slog.String("outcome", outcome))...)
}

// Back implements [bridge.Messages].
func (g *Gateway) Back(ctx context.Context, link string, did federation.DID) error {
	n, err := g.deps.Record.HurryMessages(ctx, link, did)
	if n > 0 {
		g.deps.Wakes.Wake(bridge.OutboxTopic(link))
	}
	return err
}

// About implements [bridge.Messages].
func (g *Gateway) About(ctx context.Context, id federation.HandoffID) ([]federation.Entry, error) {
	return g.deps.Record.MessagesAbout(ctx, id, maxMentions)
}

// Answered implements [bridge.Messages].
func (g *Gateway) Answered(ctx context.Context, messageID string) (federation.HandoffID, error) {
	ev, err := g.deps.Record.WithMessageID(ctx, messageID)
	if err != nil {
		return federation.HandoffID{}, err
	}
	id := ev.Handoff
	if ev.IsMessage() {
		id = ev.About()
	}
	if id.IsZero() {
		return id, federation.ErrNotFound
	}
	return id, nil
}

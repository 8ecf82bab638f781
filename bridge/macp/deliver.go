package macp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/historyv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

func isNotFound(err error) bool { return errors.Is(err, federation.ErrNotFound) }

// Deliver implements [bridge.Link]. It returns nil once the step is in the history of its handoff's
// session.
func (l *Link) Deliver(ctx context.Context, d federation.Delivery) error {
	ev := d.Entry.Event
	found, err := l.index(ctx, ev.Handoff)
	switch {
	case isNotFound(err) && ev.Verb == federation.Offer:
		target, known, err := l.participantOf(ctx, d.View.Offeree)
		if err != nil {
			return err
		}
		if !known || d.View.Over || d.View.State != "offered" {
			return nil
		}
		return l.openSession(ctx, d.Entry.Event, d.View, target, 0)
	case isNotFound(err):
		return nil // the session was removed, or the offer never reached a participant
	case err != nil:
		return fmt.Errorf("look up the session of %s: %w", ev.Handoff, err)
	case ev.Verb == federation.Offer:
		return nil // the session created the offer, or was opened before
	}
	return l.engine.on(ctx, found.Session, func(_ context.Context, t *turn) error {
		offer := t.session.Offer(found.Offer)
		if offer == nil {
			return nil
		}
		id := ev.ID.String()
		switch ev.Verb { //nolint:exhaustive // no other step is shown
		case federation.Accept, federation.Decline:
			return l.showAnswer(t, d, offer)
		case federation.Cancel, federation.Expire:
			if err := l.tellStep(ctx, t, d, offer); err != nil {
				return err
			}
			return t.cancel(string(ev.Verb)+": "+ev.Note, id)
		case federation.Progress, federation.Complete, federation.Fail:
			if err := l.tellStep(ctx, t, d, offer); err != nil {
				return err
			}
			return l.hold(t, d, offer)
		}
		return nil
	})
}

// Sessions opened by the gateway are also committed.
func (l *Link) showAnswer(t *turn, d federation.Delivery, offer *macpmode.Offer) error {
	ev, id := d.Entry.Event, d.Entry.Event.ID.String()
	if !t.session.Open() || offer.Disposition != macpmode.Offered {
		return nil
	}
	ours := !l.participants.has(t.session.Initiator)
	if ev.Verb == federation.Decline {
		err := t.acceptMessage(offer.Target, macpmode.TypeDecline, id, id, &handoffv1.HandoffDeclinePayload{HandoffId: offer.ID, DeclinedBy: offer.Target, Reason: ev.Note})
		if err != nil || !ours {
			return err
		}
		return t.acceptMessage(t.session.Initiator, macpmode.TypeCommitment, "commit:"+offer.ID, id, t.session.Commitment(offer, "handoff.declined", "declined by "+offer.Target, false))
	}
	err := t.acceptMessage(offer.Target, macpmode.TypeAccept, id, id, &handoffv1.HandoffAcceptPayload{HandoffId: offer.ID, AcceptedBy: offer.Target, Reason: ev.Note})
	if err != nil || !ours || l.cfg.Profile == holdOpen {
		return err
	}
	return t.acceptMessage(t.session.Initiator, macpmode.TypeCommitment, "commit:"+offer.ID, id, t.session.Commitment(offer, "handoff.accepted", "transferred to "+offer.Target, true))
}

// The last signal of a session is repeated to connecting participants.
func (l *Link) tellStep(ctx context.Context, t *turn, d federation.Delivery, offer *macpmode.Offer) error {
	ev := d.Entry.Event
	if last, err := envelopeOf(t.session.Signal); err == nil && last.GetMessageId() == ev.ID.String() {
		return nil
	}
	data, err := json.Marshal(macpmode.StepOf(ev, d.View, d.Entry.State, l.cfg.Profile, href(l.ports, d.View.ID)))
	if err != nil {
		return err
	}
	sender, err := l.actor(ctx, t.session, offer, ev, d.View)
	if err != nil {
		return err
	}
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(&macpv1.SignalPayload{
		SignalType: macpmode.SignalEvent, Data: data, Confidence: 1, CorrelationSessionId: t.session.ID,
	})
	if err != nil {
		return err
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(&macpv1.Envelope{
		MacpVersion: macpmode.Version, MessageType: macpmode.TypeSignal, MessageId: ev.ID.String(), Sender: sender,
		TimestampUnixMs: ev.Time().UnixMilli(), Payload: payload,
	})
	if err != nil {
		return err
	}
	return t.accept(&historyv1.Entry{AtUnixMs: t.now.UnixMilli(), Envelope: text, Source: historyv1.Source_SOURCE_SIGNAL, Event: ev.ID.String()})
}

func (l *Link) actor(ctx context.Context, s *live, offer *macpmode.Offer, ev federation.Event, v federation.View) (string, error) {
	if ev.Verb == federation.Expire {
		return macpmode.RuntimeSender, nil
	}
	if same, err := l.ports.Gateway.Same(ctx, ev.Actor(), v.Offerer); same || err != nil {
		return s.Initiator, err
	}
	return offer.Target, nil
}

func (l *Link) hold(t *turn, d federation.Delivery, offer *macpmode.Offer) error {
	ev, id := d.Entry.Event, d.Entry.Event.ID.String()
	if l.cfg.Profile != holdOpen || !t.session.Open() || l.participants.has(t.session.Initiator) {
		return nil
	}
	switch ev.Verb { //nolint:exhaustive // the other steps are sent as context
	case federation.Complete:
		return t.acceptMessage(t.session.Initiator, macpmode.TypeCommitment, "commit:"+offer.ID, id, t.session.Commitment(offer, "handoff.completed", "completed by "+offer.Target, true))
	case federation.Fail:
		return t.acceptMessage(t.session.Initiator, macpmode.TypeCommitment, "commit:"+offer.ID, id, t.session.Commitment(offer, "handoff.failed", "failed by "+offer.Target, false))
	}
	data, err := json.Marshal(macpmode.StepOf(ev, d.View, d.Entry.State, l.cfg.Profile, href(l.ports, d.View.ID)))
	if err != nil {
		return err
	}
	return t.acceptMessage(t.session.Initiator, macpmode.TypeContext, id, id, &handoffv1.HandoffContextPayload{HandoffId: offer.ID, ContentType: macpmode.CarryType, Context: data})
}

// The journal of the handoff names each such session; length is its length.
func (l *Link) openSession(ctx context.Context, ev federation.Event, view federation.View, target participant, length uint64) error {
	names := macpmode.Parties{Owner: string(view.Offerer), Target: target.name}
	owner, local, err := l.participantOf(ctx, view.Offerer)
	if err != nil {
		return err
	}
	if local {
		names.Owner = owner.name
	}
	id, err := newSessionID()
	if err != nil {
		return err
	}
	carry := macpmode.CarryOf(view, l.cfg.Profile, href(l.ports, view.ID))
	return l.engine.on(ctx, id, func(_ context.Context, t *turn) error {
		payloads, err := macpmode.OpenOffer(ev, view, names, carry, t.now)
		if err != nil {
			return err
		}
		if err := l.startOurs(t, id, names.Owner, view.ID, payloads[0]); err != nil {
			return err
		}
		kinds := []string{macpmode.TypeOffer, macpmode.TypeContext}
		for i, payload := range payloads[1:] {
			if err := t.acceptMessage(names.Owner, kinds[i], kinds[i]+":"+view.ID.String(), ev.ID.String(), payload); err != nil {
				return err
			}
		}
		index, err := json.Marshal(indexed{Session: id, Offer: view.ID.String()})
		if err != nil {
			return err
		}
		t.batch.more = append(t.batch.more, federation.JournalWrite{Name: handoffJournal(view.ID), Length: length, Entries: [][]byte{index}})
		return t.accept(&historyv1.Entry{
			AtUnixMs: t.now.UnixMilli(), Source: historyv1.Source_SOURCE_NOTE, Opened: &historyv1.Opened{Offer: view.ID.String(), Handoff: view.ID.String()},
		})
	})
}

func (l *Link) startOurs(t *turn, id, owner string, handoff federation.HandoffID, payload proto.Message) error {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(payload)
	if err != nil {
		return err
	}
	entry, err := macpmode.Start(&macpv1.Envelope{
		MacpVersion: macpmode.Version, Mode: macpmode.Mode, MessageType: macpmode.TypeSessionStart, MessageId: "start:" + handoff.String(), SessionId: id,
		Sender: owner, TimestampUnixMs: t.now.UnixMilli(), Payload: text,
	}, macpmode.BuiltIn(), t.now.UnixMilli(), time.Minute.Milliseconds())
	if err != nil {
		return err
	}
	entry.Event = handoff.String()
	return l.begin(t, id, entry)
}

func newSessionID() (string, error) {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
}

// A session lasts at most a day, so a session may expire before its handoff.
func (l *Link) reopen(ctx context.Context, s wireEntry) error {
	var id federation.HandoffID
	var target string
	err := l.engine.on(ctx, s.session, func(_ context.Context, t *turn) (err error) {
		offer := t.session.Current()
		if l.participants.has(t.session.Initiator) || offer == nil || offer.Disposition != macpmode.Offered {
			return nil
		}
		target = offer.Target
		id, err = federation.ParseEventID(offer.Handoff)
		return err
	})
	if err != nil || id.IsZero() {
		return err
	}
	view, err := l.ports.Gateway.View(ctx, id)
	if err != nil || view.State != "offered" || !view.Deadline.IsZero() && time.Now().After(view.Deadline) {
		return err
	}
	one, known := l.participants.named(target)
	length, err := l.deps.Journals.JournalLength(ctx, handoffJournal(id))
	found, missing := l.index(ctx, id)
	if err = errors.Join(err, missing); err != nil || !known || found.Session != s.session {
		return err
	}
	ev := federation.Event{ID: id}
	_, said, err := firstContext(ctx, l.deps.Journals, sessionJournal(s.session), 0, id.String())
	if err != nil {
		return err
	}
	d, _ := macpmode.Describe(&macpmode.Session{}, &macpmode.Offer{}, said)
	ev.Context = d.Context
	return l.openSession(ctx, ev, view, one, length)
}

package macp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/journals"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/historyv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

type indexed struct {
	Session string `json:"session"`
	Offer   string `json:"offer"`
	Handoff string `json:"handoff,omitempty"` // only under the key of a task
}

func (l *Link) index(ctx context.Context, id federation.HandoffID) (indexed, error) {
	return lastIndex(ctx, l.deps.Journals, handoffJournal(id))
}

func lastIndex(ctx context.Context, record *journals.Journals, name string) (indexed, error) {
	entries, err := record.Journal(ctx, name, 0, pageEntries)
	if err != nil {
		return indexed{}, err
	}
	if len(entries) == 0 {
		return indexed{}, federation.ErrNotFound
	}
	var found indexed
	return found, federation.DecodeJSON(entries[len(entries)-1], &found)
}

// An offer to a name without a DID stays in the session.
func (l *Link) fileOffer(ctx context.Context, s wireEntry) error {
	from, local := l.participants.named(s.env.GetSender())
	offer, description, document, err := l.offered(ctx, s)
	to := l.participants.of(offer.Target)
	if err != nil || !local || to == "" {
		return err
	}
	id, at, err := l.open(ctx, s, offer)
	if err != nil {
		return err
	}
	if view, err := l.ports.Gateway.View(ctx, id); err != nil || view.Exists() {
		return err
	}
	draft := stepbuilder.Draft{
		ID: id, From: from.did, Verb: federation.Offer, Proved: true, Original: document, To: to, Title: description.Title, Context: description.Context,
		Caps: description.Caps, Deadline: description.Deadline, Priority: description.Priority, Replaces: description.Replaces,
	}
	if len(description.Content) > 0 {
		if draft.Context, draft.ContextHash, err = l.steps().store(ctx, from.did, description.Content); err != nil {
			return err
		}
	}
	err = l.steps().vouch(ctx, draft, federation.View{}, at)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		return l.engine.on(ctx, s.session, func(_ context.Context, t *turn) error {
			return t.cancel(refused.Code.Upper()+": "+refused.Sentence(), "")
		})
	}
	return err
}

// open writes the handoff ID of an offer before the handoff is filed, because its first step may
// arrive at once.
func (l *Link) open(ctx context.Context, s wireEntry, offer macpmode.Offer) (federation.HandoffID, time.Time, error) {
	id, at, opened, err := s.handoff(ctx, l.ports.Gateway, offer)
	if err != nil || opened {
		return id, at, err
	}
	index, err := json.Marshal(indexed{Session: s.session, Offer: offer.ID})
	if err != nil {
		return id, at, err
	}
	return id, at, l.engine.on(ctx, s.session, func(_ context.Context, t *turn) error {
		t.batch.more = append(t.batch.more, federation.JournalWrite{Name: handoffJournal(id), Entries: [][]byte{index}})
		return t.accept(&historyv1.Entry{
			AtUnixMs: t.now.UnixMilli(), Source: historyv1.Source_SOURCE_NOTE, Opened: &historyv1.Opened{Offer: offer.ID, Handoff: id.String()},
		})
	})
}

var errNoHistory = errors.New("the session has no history")

func (l *Link) offered(ctx context.Context, s wireEntry) (offer macpmode.Offer, d macpmode.Description, document string, err error) {
	var p handoffv1.HandoffOfferPayload
	if err = proto.Unmarshal(s.env.GetPayload(), &p); err != nil {
		return offer, d, "", err
	}
	entries, err := l.deps.Journals.Journal(ctx, sessionJournal(s.session), 0, 1)
	if err != nil || len(entries) == 0 {
		return offer, d, "", errors.Join(err, errNoHistory)
	}
	begun, _, err := shownEnvelope(entries[0])
	if err != nil {
		return offer, d, "", err
	}
	behind := []*macpv1.Envelope{begun, s.env}
	said, payload, err := firstContext(ctx, l.deps.Journals, sessionJournal(s.session), s.number, p.GetHandoffId())
	if err != nil {
		return offer, d, "", err
	}
	if said != nil {
		behind = append(behind, said)
	}
	err = l.engine.on(ctx, s.session, func(_ context.Context, t *turn) error {
		found := t.session.Offer(p.GetHandoffId())
		if found == nil {
			return errNoHistory
		}
		var losses []federation.Loss
		offer = *found
		d, losses = macpmode.Describe(t.session.Session, found, payload)
		for _, loss := range losses {
			l.log.LogAttrs(ctx, slog.LevelInfo, "member not carried", slog.String("session", s.session), slog.String("reason", loss.Field+": "+loss.Why))
		}
		return nil
	})
	if err != nil {
		return offer, d, "", err
	}
	document, err = original(behind...)
	return offer, d, document, err
}

// firstContext returns nil for none.
func firstContext(ctx context.Context, record *journals.Journals, name string, after uint64, offer string) (*macpv1.Envelope, *handoffv1.HandoffContextPayload, error) {
	page, err := record.Journal(ctx, name, after, pageEntries)
	if err != nil {
		return nil, nil, err
	}
	for _, text := range page {
		env, shown, err := shownEnvelope(text)
		if err != nil {
			return nil, nil, err
		}
		if !shown || env.GetMessageType() != macpmode.TypeContext {
			continue
		}
		p := &handoffv1.HandoffContextPayload{}
		if err := proto.Unmarshal(env.GetPayload(), p); err != nil {
			return nil, nil, err
		}
		if p.GetHandoffId() == offer {
			return env, p, nil
		}
	}
	return nil, nil, nil
}

// The event is "" if no step is behind the end of the session.
func (t *turn) cancel(reason, event string) error {
	if t.session.Over() {
		return nil
	}
	entry, err := t.session.Control(macpmode.TypeSessionCancel, &macpv1.SessionCancelPayload{Reason: reason, CancelledBy: macpmode.RuntimeSender}, t.now.UnixMilli())
	if err != nil {
		return err
	}
	if entry.Event = event; event == "" {
		entry.Event = "-" // canceled by the runtime: no step of a participant
	}
	return t.accept(entry)
}

func (l *Link) fileAnswer(ctx context.Context, s wireEntry) error {
	from, local := l.participants.named(s.env.GetSender())
	name, note, err := answerOf(s.env)
	if err != nil || !local {
		return err
	}
	id, err := l.handoffNamed(ctx, s.session, name)
	if err != nil || id.IsZero() {
		return err
	}
	verb := federation.Accept
	if s.env.GetMessageType() == macpmode.TypeDecline {
		verb = federation.Decline
	}
	err = l.steps().submit(ctx, s, from.did, verb, id, note)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		l.log.LogAttrs(ctx, slog.LevelWarn, "answer refused", slog.String("session", s.session), slog.String("handoff_id", id.String()), slog.Any("err", err))
		return l.conclude(ctx, s.session, id, "handoff.failed", refused.Code.Upper(), false)
	}
	if err != nil {
		return err
	}
	if verb == federation.Decline {
		return l.conclude(ctx, s.session, id, "handoff.declined", "declined by "+from.name, false)
	}
	if l.cfg.Profile == holdOpen {
		return nil
	}
	return l.conclude(ctx, s.session, id, "handoff.accepted", "transferred to "+from.name, true)
}

func answerOf(env *macpv1.Envelope) (offer, reason string, err error) {
	if env.GetMessageType() == macpmode.TypeAccept {
		var p handoffv1.HandoffAcceptPayload
		err = proto.Unmarshal(env.GetPayload(), &p)
		return p.GetHandoffId(), p.GetReason(), err
	}
	var p handoffv1.HandoffDeclinePayload
	err = proto.Unmarshal(env.GetPayload(), &p)
	return p.GetHandoffId(), p.GetReason(), err
}

func (l *Link) handoffNamed(ctx context.Context, session, offer string) (id federation.HandoffID, err error) {
	err = l.engine.on(ctx, session, func(_ context.Context, t *turn) (err error) {
		if found := t.session.Offer(offer); found != nil && found.Handoff != "" {
			id, err = federation.ParseEventID(found.Handoff)
		}
		return err
	})
	return id, err
}

// conclude does nothing for a session not opened by the gateway, or for a closed one.
func (l *Link) conclude(ctx context.Context, session string, id federation.HandoffID, action, reason string, positive bool) error {
	return l.engine.on(ctx, session, func(_ context.Context, t *turn) error {
		offer := t.session.OfferOf(id.String())
		if offer == nil || !t.session.Open() || l.participants.has(t.session.Initiator) {
			return nil
		}
		return t.acceptMessage(t.session.Initiator, macpmode.TypeCommitment, "commit:"+offer.ID, id.String(), t.session.Commitment(offer, action, reason, positive))
	})
}

// The gateway writes the message for a party not connected here.
func (t *turn) acceptMessage(sender, kind, messageID, event string, payload proto.Message) error {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(payload)
	if err != nil {
		return err
	}
	entry, err := t.session.Check(&macpv1.Envelope{
		MacpVersion: macpmode.Version, Mode: macpmode.Mode, MessageType: kind, MessageId: messageID, SessionId: t.session.ID, Sender: sender,
		TimestampUnixMs: t.now.UnixMilli(), Payload: text,
	}, t.now.UnixMilli())
	if err != nil || entry == nil {
		return err
	}
	entry.Event = event
	return t.accept(entry)
}

func (l *Link) fileCancel(ctx context.Context, s wireEntry) error {
	var from participant
	var id federation.HandoffID
	err := l.engine.on(ctx, s.session, func(_ context.Context, t *turn) (err error) {
		owner, local := l.participants.named(t.session.Initiator)
		offer := t.session.Current()
		if !local || offer == nil || offer.Handoff == "" || offer.Disposition != macpmode.Offered {
			return nil
		}
		from = owner
		id, err = federation.ParseEventID(offer.Handoff)
		return err
	})
	if err != nil || id.IsZero() {
		return err
	}
	var p macpv1.SessionCancelPayload
	if err := proto.Unmarshal(s.env.GetPayload(), &p); err != nil {
		return err
	}
	err = l.steps().submit(ctx, s, from.did, federation.Cancel, id, p.GetReason())
	if _, refused := errors.AsType[*federation.RefusalError](err); refused {
		l.log.LogAttrs(ctx, slog.LevelWarn, "cancel refused", slog.String("session", s.session), slog.String("handoff_id", id.String()), slog.Any("err", err))
		return nil
	}
	return err
}

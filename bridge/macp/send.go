package macp

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/historyv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

// The rates of one participant. Buckets start full.
const (
	startsPerMinute   = 60
	messagesPerMinute = 600
)

type rates struct{ starts, messages *rate.Limiter }

func (l *Link) allow(from participant, kind string) error {
	limits, which := l.rates[from.name], "messages"
	bucket := limits.messages
	if kind == macpmode.TypeSessionStart {
		bucket, which = limits.starts, "starts of sessions"
	}
	if !bucket.Allow() {
		l.ports.Metrics.Limited.WithLabelValues(network).Inc()
		return macpmode.Refuse(macpmode.RateLimited, "too many %s a minute", which)
	}
	return nil
}

// An accepted envelope is answered only after it is on disk.
func (l *Link) send(ctx context.Context, from participant, env *macpv1.Envelope) *macpv1.Ack {
	ack, err := l.submit(ctx, from, env)
	if err == nil {
		return ack
	}
	l.logRefused(ctx, env, err)
	return refusedAck(env, ack.GetSessionState(), err)
}

// With an error, the response has only the state of the session.
func (l *Link) submit(ctx context.Context, from participant, env *macpv1.Envelope) (*macpv1.Ack, error) {
	if err := macpmode.CheckShape(env); err != nil {
		return nil, err
	}
	if env.GetSender() != "" && env.GetSender() != from.name {
		return nil, macpmode.Refuse(macpmode.Unauthenticated, "the sender is not the participant of the token")
	}
	if err := l.allow(from, env.GetMessageType()); err != nil {
		return nil, err
	}
	env = proto.CloneOf(env)
	env.Sender = from.name
	switch env.GetMessageType() {
	case macpmode.TypeSignal:
		var p macpv1.SignalPayload
		if err := proto.Unmarshal(env.GetPayload(), &p); err != nil || p.GetSignalType() == "" {
			return nil, macpmode.Refuse(macpmode.InvalidEnvelope, "the payload is not a SignalPayload with a signal_type")
		}
		if p.GetSignalType() == macpmode.SignalStep {
			return l.askStep(ctx, from, env, &p)
		}
		return l.ambient(ctx, from, env, p.GetCorrelationSessionId())
	case macpmode.TypeProgress:
		if err := proto.Unmarshal(env.GetPayload(), &macpv1.ProgressPayload{}); err != nil {
			return nil, macpmode.Refuse(macpmode.InvalidEnvelope, "the payload is not a ProgressPayload")
		}
		return l.ambient(ctx, from, env, env.GetSessionId())
	}
	return l.accept(ctx, env)
}

func (l *Link) accept(ctx context.Context, env *macpv1.Envelope) (*macpv1.Ack, error) {
	ack := &macpv1.Ack{MessageId: env.GetMessageId(), SessionId: env.GetSessionId()}
	err := l.engine.on(ctx, env.GetSessionId(), func(_ context.Context, t *turn) error {
		if !t.session.Exists() && env.GetMessageType() == macpmode.TypeSessionStart {
			return l.start(t, env, ack)
		}
		at, seen := t.session.AcceptedAt(env.GetMessageId())
		entry, err := t.session.Check(env, t.now.UnixMilli())
		if err == nil && entry != nil {
			err = t.accept(entry)
			at = entry.GetAtUnixMs()
		}
		if t.session.Has(env.GetSender()) {
			ack.SessionState = t.session.State
		}
		ack.Ok, ack.Duplicate, ack.AcceptedAtUnixMs = err == nil, seen && err == nil, at
		return err
	})
	return ack, err
}

func (l *Link) start(t *turn, env *macpv1.Envelope, ack *macpv1.Ack) error {
	named, err := macpmode.PolicyNamed(env)
	if err != nil {
		return err
	}
	policy, known := t.engine.policies.byID[named]
	if !known {
		return macpmode.Refuse(macpmode.UnknownPolicyVersion, "there is no policy %s", named)
	}
	entry, err := macpmode.Start(env, policy.PolicyDescriptor, t.now.UnixMilli(), l.deps.Bounds().ClockSkew.Milliseconds())
	if err != nil {
		return err
	}
	if err := l.begin(t, env.GetSessionId(), entry); err != nil {
		return err
	}
	ack.Ok, ack.SessionState, ack.AcceptedAtUnixMs = true, t.session.State, entry.GetAtUnixMs()
	return nil
}

func (l *Link) begin(t *turn, id string, entry *historyv1.Entry) error {
	if err := t.accept(entry); err != nil {
		return err
	}
	t.engine.sessions[id] = t.session
	for _, one := range l.participants.all {
		if t.session.Has(one.name) {
			t.batch.more = append(t.batch.more, federation.JournalWrite{Name: memberJournal(one.name, t.session.Started, id)})
		}
	}
	return nil
}

func (l *Link) read(ctx context.Context, from participant, id string, look func(t *turn) error) error {
	return l.engine.on(ctx, id, func(_ context.Context, t *turn) error {
		switch {
		case !t.session.Exists():
			return macpmode.Refuse(macpmode.SessionNotFound, "there is no session %q", id)
		case !t.session.Has(from.name):
			return macpmode.Refuse(macpmode.Forbidden, "only participants can read a session")
		}
		return look(t)
	})
}

func (l *Link) control(ctx context.Context, from participant, kind, id, reason string) (*macpv1.Ack, error) {
	ack := &macpv1.Ack{SessionId: id}
	err := l.read(ctx, from, id, func(t *turn) error {
		if err := l.mayControl(t.session, from); err != nil {
			return err
		}
		entry, err := t.session.CheckControl(kind, from.name, reason, t.now.UnixMilli())
		if err == nil && entry != nil {
			err = t.accept(entry)
		}
		ack.Ok, ack.SessionState, ack.AcceptedAtUnixMs = err == nil, t.session.State, t.now.UnixMilli()
		if err != nil { // the response reports a state that does not allow it
			refused := refusalOf(err)
			ack.Error = &macpv1.MACPError{Code: string(refused.Code), Message: refused.Message, SessionId: id}
		}
		return nil
	})
	return ack, err
}

func (*Link) mayControl(s *live, from participant) error {
	if s.Initiator != from.name && !s.MayCommit(from.name) {
		return macpmode.Refuse(macpmode.Forbidden, "only the owner and the participants named by the policy can do that")
	}
	return nil
}

// ambient records nothing.
func (l *Link) ambient(ctx context.Context, from participant, env *macpv1.Envelope, session string) (*macpv1.Ack, error) {
	ack := &macpv1.Ack{Ok: true, MessageId: env.GetMessageId(), SessionId: env.GetSessionId()}
	tellTo := func(t *turn, names []string) {
		ack.AcceptedAtUnixMs = t.now.UnixMilli()
		t.batch.events = append(t.batch.events, func() { t.engine.watchers.signal(names, env) })
	}
	if session == "" {
		return ack, l.engine.on(ctx, "", func(_ context.Context, t *turn) error {
			tellTo(t, []string{from.name})
			return nil
		})
	}
	return ack, l.read(ctx, from, session, func(t *turn) error {
		tellTo(t, append([]string{t.session.Initiator}, t.session.Start.GetParticipants()...))
		return nil
	})
}

// If the step is refused, so is the signal.
func (l *Link) askStep(ctx context.Context, from participant, env *macpv1.Envelope, p *macpv1.SignalPayload) (*macpv1.Ack, error) {
	asked, err := macpmode.ReadStep(p.GetData())
	if err != nil {
		return nil, err
	}
	id, err := l.handoffOf(ctx, from, p.GetCorrelationSessionId(), asked.HandoffID)
	if err != nil {
		return nil, err
	}
	view, err := l.ports.Gateway.View(ctx, id)
	if err != nil {
		return nil, err
	}
	now := signalTime(env, time.Now(), l.deps.Bounds().ClockSkew)
	document, err := original(env)
	if err != nil {
		return nil, err
	}
	draft := stepbuilder.Draft{
		ID: stepID(now, "signal", from.name, env.GetMessageId()), From: from.did, Verb: asked.Verb, Proved: true, Original: document, Note: asked.Note, Context: asked.Context(),
	}
	if err := l.steps().vouch(ctx, draft, view, now); err != nil {
		return nil, err
	}
	return &macpv1.Ack{Ok: true, MessageId: env.GetMessageId(), AcceptedAtUnixMs: now.UnixMilli()}, nil
}

// Without a name, the handoff is that of the session's accepted offer.
func (l *Link) handoffOf(ctx context.Context, from participant, session, named string) (federation.HandoffID, error) {
	if session == "" {
		return federation.HandoffID{}, macpmode.Refuse(macpmode.InvalidEnvelope, "correlation_session_id is required")
	}
	var id federation.HandoffID
	err := l.read(ctx, from, session, func(t *turn) error {
		for _, offer := range t.session.Offers {
			if offer.Handoff != "" && (named == "" && offer.Disposition == macpmode.Accepted || named != "" && (named == offer.Handoff || named == offer.ID)) {
				var err error
				id, err = federation.ParseEventID(offer.Handoff)
				return err
			}
		}
		return macpmode.Refuse(macpmode.InvalidEnvelope, "the session has no accepted handoff of that name")
	})
	return id, err
}

// The envelope's time makes a repeated signal request the same step. Without it, the time is now.
func signalTime(env *macpv1.Envelope, now time.Time, skew time.Duration) time.Time {
	at := time.UnixMilli(env.GetTimestampUnixMs())
	if env.GetTimestampUnixMs() <= 0 || at.Before(now.Add(-skew)) || at.After(now.Add(skew)) {
		return now.Truncate(time.Millisecond)
	}
	return at
}

func stepID(at time.Time, parts ...string) federation.EventID {
	hash := sha256.New()
	for _, part := range parts {
		_ = binary.Write(hash, binary.BigEndian, uint64(len(part))) // a hash never fails
		_, _ = hash.Write([]byte(part))
	}
	id, err := federation.NewEventID(at, byteReader(hash.Sum(nil)))
	if err != nil {
		return federation.EventID{} // a step without an ID gets a new one
	}
	return id
}

type byteReader []byte

// Read implements io.Reader.
func (r byteReader) Read(p []byte) (int, error) { return copy(p, r), nil }

// The evidence is canonical JSON, with the bytes of the payloads.
func original(envelopes ...*macpv1.Envelope) (string, error) {
	var text strings.Builder
	text.WriteString(`{"envelopes":[`)
	for i, env := range envelopes {
		one, err := macpmode.JSON(env)
		if err != nil {
			return "", err
		}
		if i > 0 {
			text.WriteByte(',')
		}
		text.Write(one)
	}
	text.WriteString("]}")
	return text.String(), nil
}

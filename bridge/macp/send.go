package macp

import (
	"context"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"baton/federation"
	"baton/translate/macpmode"
	"baton/translate/macpmode/historyv1"
	"baton/translate/macpmode/macpv1"
)

// The rates of one participant. A bucket starts full.
const (
	startsPerMinute   = 60
	messagesPerMinute = 600
)

// rates are the buckets of a participant.
type rates struct{ starts, messages *rate.Limiter }

func newRates() rates {
	return rates{
		starts:   rate.NewLimiter(rate.Every(time.Minute/startsPerMinute), startsPerMinute),
		messages: rate.NewLimiter(rate.Every(time.Minute/messagesPerMinute), messagesPerMinute),
	}
}

// allow counts a message of a participant.
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

// send judges an envelope and answers it. The answer that accepts an envelope is given after the
// envelope is on disk.
func (l *Link) send(ctx context.Context, from participant, env *macpv1.Envelope) *macpv1.Ack {
	ack, err := l.submit(ctx, from, env)
	if err == nil {
		return ack
	}
	l.note(ctx, env, err)
	return refusedAck(env, ack.GetSessionState(), err)
}

// submit judges an envelope. With an error, the answer has the state of the session alone.
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
		return l.signal(ctx, from, env)
	case macpmode.TypeProgress:
		return l.progress(ctx, from, env)
	}
	return l.accept(ctx, env)
}

// accept judges a message of a session.
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

// start judges the message that starts a session.
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

// begin accepts the first entry of a session, and files the session for its participants.
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

// read returns something of a session that a participant may see.
func (l *Link) read(ctx context.Context, from participant, id string, look func(t *turn) error) error {
	return l.engine.on(ctx, id, func(_ context.Context, t *turn) error {
		switch {
		case !t.session.Exists():
			return macpmode.Refuse(macpmode.SessionNotFound, "there is no session %q", id)
		case !t.session.Has(from.name):
			return macpmode.Refuse(macpmode.Forbidden, "only participants see a session")
		}
		return look(t)
	})
}

// control cancels, suspends or resumes a session.
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
		if err != nil { // a state that does not allow it is told in the answer
			refused := refusalOf(err)
			ack.Error = &macpv1.MACPError{Code: string(refused.Code), Message: refused.Message, SessionId: id}
		}
		return nil
	})
	return ack, err
}

// mayControl refuses a participant that may not cancel, suspend or resume a session.
func (*Link) mayControl(s *live, from participant) error {
	if s.Initiator != from.name && !s.MayCommit(from.name) {
		return macpmode.Refuse(macpmode.Forbidden, "only the owner and the participants that the policy names do that")
	}
	return nil
}

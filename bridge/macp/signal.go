package macp

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"baton/bridge/stepbuilder"
	"baton/federation"
	"baton/translate/macpmode"
	"baton/translate/macpmode/macpv1"
)

// signal passes a signal on to the participants of the session that it names, and to its sender
// alone where it names none. A signal that asks for a step is submitted first.
func (l *Link) signal(ctx context.Context, from participant, env *macpv1.Envelope) (*macpv1.Ack, error) {
	var p macpv1.SignalPayload
	if err := proto.Unmarshal(env.GetPayload(), &p); err != nil || p.GetSignalType() == "" {
		return nil, macpmode.Refuse(macpmode.InvalidEnvelope, "the payload is no SignalPayload with a signal_type")
	}
	if p.GetSignalType() == macpmode.SignalStep {
		return l.askStep(ctx, from, env, &p)
	}
	return l.ambient(ctx, from, env, p.GetCorrelationSessionId())
}

// progress passes a report of progress on. It changes no session.
func (l *Link) progress(ctx context.Context, from participant, env *macpv1.Envelope) (*macpv1.Ack, error) {
	if err := proto.Unmarshal(env.GetPayload(), &macpv1.ProgressPayload{}); err != nil {
		return nil, macpmode.Refuse(macpmode.InvalidEnvelope, "the payload is no ProgressPayload")
	}
	return l.ambient(ctx, from, env, env.GetSessionId())
}

// ambient tells watchers an envelope that no history keeps.
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

// askStep submits the step that a signal asks for. The refusal of the step is that of the signal.
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

// handoffOf returns the handoff of a session that a participant means: the one that it names, or
// that of the accepted offer.
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

// signalTime returns the time of a step that a signal asks for: that of the envelope, so that a
// signal that is sent again asks for the same step, or now where the envelope has none.
func signalTime(env *macpv1.Envelope, now time.Time, skew time.Duration) time.Time {
	at := time.UnixMilli(env.GetTimestampUnixMs())
	if env.GetTimestampUnixMs() <= 0 || at.Before(now.Add(-skew)) || at.After(now.Add(skew)) {
		return now.Truncate(time.Millisecond)
	}
	return at
}

// stepID returns the ID of a step that a message is, the same one each time.
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

// byteReader reads fixed bytes.
type byteReader []byte

// Read implements io.Reader.
func (r byteReader) Read(p []byte) (int, error) { return copy(p, r), nil }

// original returns the evidence of a step: the envelopes behind it, in canonical JSON with the
// bytes of their payloads.
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

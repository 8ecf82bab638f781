package macp

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

// Deliver implements [bridge.Link]. It returns nil after the runtime has accepted the message of the
// step. Retries use the same message ID, so that the runtime accepts the message only once.
func (f *Foreign) Deliver(ctx context.Context, d federation.Delivery) error {
	ev, c := d.Entry.Event, f.conn
	found, err := lastIndex(ctx, f.deps.Journals, f.handoffJournal(ev.Handoff))
	switch {
	case isNotFound(err) && ev.Verb == federation.Offer:
		return c.deliverOffer(ctx, d)
	case isNotFound(err):
		return nil
	case err != nil:
		return err
	case ev.Verb == federation.Offer:
		return c.sendOffer(ctx, d, found.Session) // an earlier attempt may have sent a part
	}
	id := ev.ID.String()
	switch ev.Verb { //nolint:exhaustive // the offer was sent, and no other step is reported
	case federation.Accept:
		err = c.send(ctx, found.Session, macpmode.TypeAccept, id, &handoffv1.HandoffAcceptPayload{HandoffId: found.Offer, AcceptedBy: f.cfg.Participant, Reason: ev.Note})
	case federation.Decline:
		err = c.send(ctx, found.Session, macpmode.TypeDecline, id, &handoffv1.HandoffDeclinePayload{HandoffId: found.Offer, DeclinedBy: f.cfg.Participant, Reason: ev.Note})
	case federation.Cancel:
		if err := c.endTask(ctx, d.View, ev.Note); err != nil {
			return err
		}
		return c.cancel(ctx, found.Session, ev.Note)
	case federation.Expire:
		return c.endTask(ctx, d.View, "the handoff has expired")
	case federation.Progress, federation.Complete, federation.Fail:
		return c.report(ctx, d, found.Session)
	}
	return err
}

func (c *foreignConn) send(ctx context.Context, session, kind, id string, payload proto.Message) error {
	return c.tellIn(ctx, macpmode.Mode, session, kind, id, payload)
}

func (c *foreignConn) tellIn(ctx context.Context, mode, session, kind, id string, payload proto.Message) error {
	env, err := c.envelope(mode, session, kind, id, payload)
	if err != nil {
		return err
	}
	answer, err := foreignCall[macpv1.SendRequest, macpv1.SendResponse](ctx, c, "Send", &macpv1.SendRequest{Envelope: env})
	if err != nil {
		return &federation.UnavailableError{What: "runtime " + c.cfg.Name, Err: err}
	}
	if answer.GetAck().GetOk() {
		return nil
	}
	return c.refused(answer.GetAck().GetError())
}

// The session ID is stored before the session starts.
func (c *foreignConn) deliverOffer(ctx context.Context, d federation.Delivery) error {
	if d.View.State != "offered" {
		return nil
	}
	session, err := newSessionID()
	if err != nil {
		return err
	}
	index, err := json.Marshal(indexed{Session: session, Offer: d.View.ID.String()})
	if err != nil {
		return err
	}
	err = c.deps.Journals.WriteJournals(ctx, []federation.JournalWrite{{Name: c.handoffJournal(d.View.ID), Entries: [][]byte{index}}})
	if err != nil {
		return err
	}
	return c.sendOffer(ctx, d, session)
}

// The runtime reports repeated messages as duplicates.
func (c *foreignConn) sendOffer(ctx context.Context, d federation.Delivery, session string) error {
	target := c.sender(d.View.Offeree)
	if target == "" { // the offer came from the runtime
		return nil
	}
	names := macpmode.Parties{Owner: c.cfg.Participant, Target: target}
	payloads, err := macpmode.OpenOffer(d.Entry.Event, d.View, names, macpmode.CarryOf(d.View, c.cfg.Profile, ""), time.Now())
	if err != nil {
		return err
	}
	for i, kind := range []string{macpmode.TypeSessionStart, macpmode.TypeOffer, macpmode.TypeContext}[:len(payloads)] {
		if err := c.send(ctx, session, kind, kind+":"+d.View.ID.String(), payloads[i]); err != nil {
			return err
		}
	}
	return nil
}

// cancel leaves sessions of other owners unchanged. A session unknown to the runtime is over.
func (c *foreignConn) cancel(ctx context.Context, session, reason string) error {
	answer, err := foreignCall[macpv1.CancelSessionRequest, macpv1.CancelSessionResponse](ctx, c, "CancelSession", &macpv1.CancelSessionRequest{SessionId: session, Reason: reason})
	if connect.CodeOf(err) == connect.CodeNotFound {
		return nil
	}
	if err != nil {
		return &federation.UnavailableError{What: "runtime " + c.cfg.Name, Err: err}
	}
	if !answer.GetAck().GetOk() {
		return c.refused(answer.GetAck().GetError())
	}
	return nil
}

func (c *foreignConn) tellStep(ctx context.Context, d federation.Delivery, session string) error {
	data, err := json.Marshal(macpmode.StepOf(d.Entry.Event, d.View, d.Entry.State, c.cfg.Profile, href(c.ports, d.View.ID)))
	if err != nil {
		return err
	}
	return c.send(ctx, "", macpmode.TypeSignal, d.Entry.Event.ID.String(), &macpv1.SignalPayload{
		SignalType: macpmode.SignalEvent, Data: data, Confidence: 1, CorrelationSessionId: session,
	})
}

func (c *foreignConn) signalled(ctx context.Context, env *macpv1.Envelope) error {
	var p macpv1.SignalPayload
	if err := proto.Unmarshal(env.GetPayload(), &p); err != nil {
		return err
	}
	if p.GetSignalType() != macpmode.SignalStep || env.GetSender() == c.cfg.Participant {
		return nil
	}
	asked, err := macpmode.ReadStep(p.GetData())
	if err != nil {
		return err
	}
	m := newMirror(c, p.GetCorrelationSessionId()) // a separate copy, without other readers
	if err := m.load(ctx); err != nil || !m.s.Exists() {
		return errors.Join(err, errNoHistory)
	}
	for _, offer := range m.s.Offers {
		if offer.Handoff == "" || offer.Disposition != macpmode.Accepted || offer.Target != env.GetSender() {
			continue
		}
		id, err := federation.ParseEventID(offer.Handoff)
		if err != nil {
			return err
		}
		view, err := c.ports.Gateway.View(ctx, id)
		if err != nil {
			return err
		}
		document, err := original(env)
		if err != nil {
			return err
		}
		now := signalTime(env, time.Now(), c.deps.Bounds().ClockSkew)
		err = c.steps().vouch(ctx, stepbuilder.Draft{
			ID: stepID(now, "signal", c.cfg.Name, env.GetSender(), env.GetMessageId()), From: c.senderDID(env.GetSender()), Verb: asked.Verb, Proved: true,
			Original: document, Note: asked.Note, Context: asked.Context(),
		}, view, now)
		if err == nil && asked.Verb != federation.Progress {
			err = c.endTask(ctx, view, "the work has ended")
		}
		return err
	}
	return errNoHistory
}

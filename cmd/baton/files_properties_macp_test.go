//go:build interop

package main_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

// answers sends a message to the runtime and checks the code of its answer, ""
// if it is accepted.
func (w *propertyWorld) answers(t *testing.T, c *bridgetest.MACPClient, session, kind, id string, payload proto.Message, code string) {
	t.Helper()
	ack, err := c.Send(t.Context(), session, kind, id, payload)
	if err != nil || ack.GetOk() != (code == "") || ack.GetError().GetCode() != code {
		t.Errorf("%s is answered %v, %v, want %q", id, ack, err, code)
	}
}

// macpOffer has eliza offer work to the participant other in a session that lasts for a time.
func (w *propertyWorld) macpOffer(t *testing.T, session string, ttl time.Duration) (eliza, other *bridgetest.MACPClient) {
	t.Helper()
	eliza, other = w.runtime.participant(t, "eliza"), w.runtime.participant(t, "other")
	w.answers(t, eliza, session, macpmode.TypeSessionStart, "start", &macpv1.SessionStartPayload{
		Intent: "on MACP", Participants: []string{"eliza", "other"}, ModeVersion: "1.0.0", ConfigurationVersion: "test", TtlMs: ttl.Milliseconds(),
	}, "")
	w.answers(t, eliza, session, macpmode.TypeOffer, "offer", &handoffv1.HandoffOfferPayload{HandoffId: "h1", TargetParticipant: "other"}, "")
	return eliza, other
}

func (w *propertyWorld) forgedEnvelope(t *testing.T) {
	t.Helper()
	const session = "00000000-0000-4000-8000-0000000000a1"
	w.macpOffer(t, session, time.Minute)
	accept := &handoffv1.HandoffAcceptPayload{HandoffId: "h1"}
	forger := bridgetest.NewMACPClient(w.runtime.address, "other", macpToken+"mallory")
	t.Cleanup(forger.Close)
	w.answers(t, forger, session, macpmode.TypeAccept, "a bad token", accept, "UNAUTHENTICATED")
	posing := bridgetest.NewMACPClient(w.runtime.address, "other", macpToken+"eliza")
	t.Cleanup(posing.Close)
	w.answers(t, posing, session, macpmode.TypeAccept, "the token of another sender", accept, "UNAUTHENTICATED")
}

func (w *propertyWorld) expiredSession(t *testing.T) {
	t.Helper()
	const session = "00000000-0000-4000-8000-0000000000a2"
	const ttl = 300 * time.Millisecond
	_, other := w.macpOffer(t, session, ttl)
	begun := time.Now()
	await(t, "the session to expire", func() bool { return time.Since(begun) > ttl })
	w.answers(t, other, session, macpmode.TypeAccept, "late", &handoffv1.HandoffAcceptPayload{HandoffId: "h1"}, "SESSION_NOT_OPEN")
}

func (w *propertyWorld) acceptTwice(t *testing.T) {
	t.Helper()
	const session = "00000000-0000-4000-8000-0000000000a3"
	_, other := w.macpOffer(t, session, time.Minute)
	w.answers(t, other, session, macpmode.TypeAccept, "a1", &handoffv1.HandoffAcceptPayload{HandoffId: "h1"}, "")
	w.answers(t, other, session, macpmode.TypeAccept, "a2", &handoffv1.HandoffAcceptPayload{HandoffId: "h1"}, "INVALID_ENVELOPE")
}

func (w *propertyWorld) acceptOfOthers(t *testing.T) {
	t.Helper()
	const session = "00000000-0000-4000-8000-0000000000a4"
	eliza, _ := w.macpOffer(t, session, time.Minute)
	w.answers(t, eliza, session, macpmode.TypeAccept, "of the owner", &handoffv1.HandoffAcceptPayload{HandoffId: "h1"}, "FORBIDDEN")
}

package macp_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

func offerTo(target string) *handoffv1.HandoffOfferPayload {
	return &handoffv1.HandoffOfferPayload{HandoffId: "h1", TargetParticipant: target, Scope: "research"}
}

func TestAcceptIsWonByOneParticipant(t *testing.T) {
	t.Parallel()
	names := []string{"owner"}
	for i := range 50 {
		names = append(names, fmt.Sprintf("agent-%d", i))
	}
	w := newWorld(t, names...)
	w.begin(t, session(1), names...)
	if ack := w.send(t, envelope(t, session(1), macpmode.TypeOffer, "o", "owner", offerTo("agent-7"))); !ack.GetOk() {
		t.Fatal(ack)
	}
	codes := make([]string, len(names))
	var all sync.WaitGroup
	for i, name := range names[1:] {
		all.Go(func() {
			ack := w.send(t, envelope(t, session(1), macpmode.TypeAccept, "a"+name, name, &handoffv1.HandoffAcceptPayload{HandoffId: "h1", AcceptedBy: name}))
			if codes[i] = ack.GetError().GetCode(); ack.GetOk() {
				codes[i] = "ok " + name
			}
		})
	}
	all.Wait()
	slices.Sort(codes)
	if codes = slices.Compact(codes); !slices.Equal(codes, []string{"", "FORBIDDEN", "ok agent-7"}) {
		t.Errorf("the answers are %q", codes)
	}
	await(t, "one accept to be filed", func() bool {
		steps := w.gateway.filed()
		return len(steps) == 2 && steps[1].Verb == federation.Accept && steps[1].Actor() == did("agent-7")
	})
}

// One target that sends many accepts at once accepts once.
func TestAcceptOfOneTargetCountsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "owner", "target")
	w.begin(t, session(1), "owner", "target")
	w.send(t, envelope(t, session(1), macpmode.TypeOffer, "o", "owner", offerTo("target")))
	accepted, all := make(chan bool, 50), sync.WaitGroup{}
	for i := range 50 {
		all.Go(func() {
			accepted <- w.send(t, envelope(t, session(1), macpmode.TypeAccept, fmt.Sprint("a", i), "target", &handoffv1.HandoffAcceptPayload{HandoffId: "h1"})).GetOk()
		})
	}
	all.Wait()
	close(accepted)
	count := 0
	for ok := range accepted {
		if ok {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d accepts are accepted", count)
	}
}

func TestSessionIsHiddenFromStrangers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "owner", "target", "stranger")
	stranger, target := bridgetest.NewMACPClient(w.cfg.Listen, "stranger", token("stranger")), bridgetest.NewMACPClient(w.cfg.Listen, "target", token("target"))
	t.Cleanup(stranger.Close)
	t.Cleanup(target.Close)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	seen := make(chan string, 64)
	for _, c := range []*bridgetest.MACPClient{stranger, target} {
		sessions, signals := make(chan bool), make(chan bool)
		watching.Go(func() {
			_ = bridgetest.MACPWatch[macpv1.WatchSessionsRequest](ctx, c, "WatchSessions", func() { close(sessions) }, func(*macpv1.WatchSessionsResponse) bool {
				seen <- c.Name + " session"
				return true
			})
		})
		watching.Go(func() {
			_ = bridgetest.MACPWatch[macpv1.WatchSignalsRequest](ctx, c, "WatchSignals", func() { close(signals) }, func(*macpv1.WatchSignalsResponse) bool {
				seen <- c.Name + " signal"
				return true
			})
		})
		<-sessions
		<-signals
	}
	w.begin(t, session(1), "owner", "target")
	signal := envelope(t, "", macpmode.TypeSignal, "s", "owner", &macpv1.SignalPayload{SignalType: "mood", CorrelationSessionId: session(1)})
	signal.Mode = ""
	for _, env := range []*macpv1.Envelope{signal} {
		if ack := w.send(t, env); !ack.GetOk() {
			t.Fatal(ack)
		}
	}
	want := map[string]bool{"target session": true, "target signal": true}
	for len(want) > 0 { // the target sees both; a message to the stranger would be there too
		select {
		case what := <-seen:
			if !want[what] {
				t.Errorf("seen: %s", what)
			}
			delete(want, what)
		case <-time.After(patience):
			t.Fatalf("not seen: %v", want)
		}
	}
	list, err := call[macpv1.ListSessionsRequest, macpv1.ListSessionsResponse](t, w, "stranger", "ListSessions", &macpv1.ListSessionsRequest{})
	if err != nil || len(list.GetSessions()) > 0 {
		t.Errorf("the stranger lists %v, %v", list, err)
	}
	if _, err := call[macpv1.GetSessionRequest, macpv1.GetSessionResponse](t, w, "stranger", "GetSession", &macpv1.GetSessionRequest{SessionId: session(1)}); codeOf(err) != "FORBIDDEN" {
		t.Errorf("GetSession: %v", err)
	}
	if _, err := call[macpv1.CancelSessionRequest, macpv1.CancelSessionResponse](t, w, "stranger", "CancelSession", &macpv1.CancelSessionRequest{SessionId: session(1)}); codeOf(err) != "FORBIDDEN" {
		t.Errorf("CancelSession: %v", err)
	}
	if err := stranger.Follow(t.Context(), session(1), 0, func(*macpv1.Envelope) bool { return true }); codeOf(err) != "FORBIDDEN" {
		t.Errorf("StreamSession: %v", err)
	}
	signal.Sender, signal.MessageId = "stranger", "x"
	if ack := w.send(t, signal); ack.GetError().GetCode() != "FORBIDDEN" {
		t.Errorf("a signal about the session: %v", ack)
	}
}

// The runtime accepts for a silent target once the policy says so. The handoff stays offered: the
// target has said nothing.
func TestImplicitAcceptIsNotFiled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "owner", "target")
	policy := &macpv1.PolicyDescriptor{PolicyId: "policy.test.quick", Mode: macpmode.Mode, SchemaVersion: 1, Rules: `{"acceptance":{"implicit_accept_timeout_ms":300}}`}
	if answer, err := call[macpv1.RegisterPolicyRequest, macpv1.RegisterPolicyResponse](t, w, "owner", "RegisterPolicy", &macpv1.RegisterPolicyRequest{PolicyDescriptor: policy}); err != nil || !answer.GetOk() {
		t.Fatal(answer, err)
	}
	if answer, err := call[macpv1.UnregisterPolicyRequest, macpv1.UnregisterPolicyResponse](t, w, "target", "UnregisterPolicy", &macpv1.UnregisterPolicyRequest{PolicyId: policy.GetPolicyId()}); err != nil || answer.GetOk() {
		t.Errorf("another participant removes the policy: %v, %v", answer, err)
	}
	start := &macpv1.SessionStartPayload{Participants: []string{"owner", "target"}, ModeVersion: "1.0.0", ConfigurationVersion: "c", TtlMs: 60_000, PolicyVersion: policy.GetPolicyId()}
	for id, payload := range map[string]proto.Message{"0": start} {
		if ack := w.send(t, envelope(t, session(1), macpmode.TypeSessionStart, id, "owner", payload)); !ack.GetOk() {
			t.Fatal(ack)
		}
	}
	w.send(t, envelope(t, session(1), macpmode.TypeOffer, "o", "owner", offerTo("target")))
	owner := bridgetest.NewMACPClient(w.cfg.Listen, "owner", token("owner"))
	t.Cleanup(owner.Close)
	env := awaits(t, owner, session(1), macpmode.TypeAccept)
	var p handoffv1.HandoffAcceptPayload
	if err := proto.Unmarshal(env.GetPayload(), &p); err != nil || !p.GetImplicit() || env.GetMessageId() != "implicit-accept:h1" || env.GetSender() != "target" {
		t.Errorf("the accept is %v", env)
	}
	if ack := w.send(t, envelope(t, session(1), macpmode.TypeDecline, "d", "target", &handoffv1.HandoffDeclinePayload{HandoffId: "h1"})); ack.GetError().GetCode() != "INVALID_ENVELOPE" {
		t.Errorf("a decline after it: %v", ack)
	}
	await(t, "the offer to be filed", func() bool { return len(w.gateway.filed()) > 0 })
	if ack := w.send(t, envelope(t, session(1), macpmode.TypeCommitment, "c", "owner", &macpv1.CommitmentPayload{
		CommitmentId: "c", Action: "handoff.accepted", AuthorityScope: "s", Reason: "r", ModeVersion: "1.0.0", ConfigurationVersion: "c", OutcomePositive: true,
	})); !ack.GetOk() {
		t.Errorf("the commitment: %v", ack)
	}
	for _, ev := range w.gateway.filed() {
		if ev.Verb == federation.Accept {
			t.Errorf("an accept is filed: %+v", ev)
		}
	}
}

// An outage of the record refuses nothing: the step is filed when the record is back.
func TestSendWaitsForTheGateway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "owner", "target")
	w.gateway.mu.Lock()
	w.gateway.away = true
	w.gateway.mu.Unlock()
	w.begin(t, session(1), "owner", "target")
	w.send(t, envelope(t, session(1), macpmode.TypeOffer, "o", "owner", offerTo("target")))
	w.send(t, envelope(t, session(1), macpmode.TypeContext, "c", "owner", &handoffv1.HandoffContextPayload{HandoffId: "h1", ContentType: "application/json", Context: []byte(`{}`)}))
	w.send(t, envelope(t, session(1), macpmode.TypeDecline, "d", "target", &handoffv1.HandoffDeclinePayload{HandoffId: "h1", Reason: "no"}))
	w.stop()
	w.gateway.mu.Lock()
	w.gateway.away = false
	w.gateway.mu.Unlock()
	w.start(t)
	await(t, "both steps to be filed", func() bool {
		steps := w.gateway.filed()
		return len(steps) == 2 && steps[0].Verb == federation.Offer && steps[0].Context == `{}` && steps[1].Verb == federation.Decline && steps[1].Note == "no"
	})
}

func TestSendRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "owner", "target")
	env := envelope(t, session(1), macpmode.TypeSessionStart, "m", "owner", &macpv1.SessionStartPayload{
		Participants: []string{"owner", "target"}, ModeVersion: "1.0.0", ConfigurationVersion: "c", TtlMs: 1000,
	})
	for name, change := range map[string]struct {
		do   func(env *macpv1.Envelope)
		want string
	}{
		"another version":           {func(e *macpv1.Envelope) { e.MacpVersion = "2.0" }, "UNSUPPORTED_PROTOCOL_VERSION"},
		"another sender":            {func(e *macpv1.Envelope) { e.Sender = "target" }, "UNAUTHENTICATED"},
		"another mode":              {func(e *macpv1.Envelope) { e.Mode = "macp.mode.task.v1" }, "MODE_NOT_SUPPORTED"},
		"a session that is a word":  {func(e *macpv1.Envelope) { e.SessionId = "s1" }, "INVALID_SESSION_ID"},
		"an upper-case UUID":        {func(e *macpv1.Envelope) { e.SessionId = "6F0D2C1E-8A55-4B7E-9D0A-2F6D5F1F7A10" }, "INVALID_SESSION_ID"},
		"a time of yesterday":       {func(e *macpv1.Envelope) { e.TimestampUnixMs -= 86_400_000 }, "INVALID_ENVELOPE"},
		"a large payload":           {func(e *macpv1.Envelope) { e.Payload = make([]byte, macpmode.MaxPayloadBytes+1) }, "PAYLOAD_TOO_LARGE"},
		"bytes that are no payload": {func(e *macpv1.Envelope) { e.Payload = []byte{0xff} }, "INVALID_ENVELOPE"},
	} {
		changed := proto.CloneOf(env)
		change.do(changed)
		answer, err := call[macpv1.SendRequest, macpv1.SendResponse](t, w, "owner", "Send", &macpv1.SendRequest{Envelope: changed})
		if got := answer.GetAck().GetError().GetCode(); err != nil || got != change.want {
			t.Errorf("%s is answered %q, %v; want %s", name, got, err, change.want)
		}
	}
	bad, err := call[macpv1.SendRequest, macpv1.SendResponse](t, w, "nobody", "Send", &macpv1.SendRequest{Envelope: env})
	if err != nil || bad.GetAck().GetOk() || bad.GetAck().GetError().GetCode() != "UNAUTHENTICATED" {
		t.Errorf("a bad token: %v, %v", bad, err)
	}
	if _, err := call[macpv1.ListSessionsRequest, macpv1.ListSessionsResponse](t, w, "nobody", "ListSessions", &macpv1.ListSessionsRequest{}); codeOf(err) != "UNAUTHENTICATED" {
		t.Errorf("a list with a bad token: %v", err)
	}
	if _, err := call[macpv1.InitializeRequest, macpv1.InitializeResponse](t, w, "", "Initialize", &macpv1.InitializeRequest{SupportedProtocolVersions: []string{"2.0"}}); codeOf(err) != "UNSUPPORTED_PROTOCOL_VERSION" {
		t.Errorf("another version: %v", err)
	}
}

package macp_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

const outsider = federation.DID("did:plc:cccccccccccccccccccccccc")

// take files a step of another network, and delivers it.
func (w *world) take(t *testing.T, ev federation.Event) {
	t.Helper()
	judged, err := w.gateway.Submit(t.Context(), ev)
	if err != nil {
		t.Fatal(err)
	}
	w.deliver(t, judged)
}

// deliver delivers a step twice, as an outbox may.
func (w *world) deliver(t *testing.T, judged federation.Judgement) {
	t.Helper()
	if carries, err := w.link.Carries(t.Context(), judged.Entry.Event, judged.View); !carries || err != nil {
		t.Fatalf("%s is carried: %t, %v", judged.Entry.Event.Verb, carries, err)
	}
	for range 2 {
		if err := w.link.Deliver(t.Context(), federation.Delivery{Entry: judged.Entry, View: judged.View}); err != nil {
			t.Fatalf("deliver %s: %v", judged.Entry.Event.Verb, err)
		}
	}
}

// offered has the outsider offer work to the target, and returns the session of the offer.
func (w *world) offered(t *testing.T, id federation.EventID) string {
	t.Helper()
	w.take(t, federation.Event{ID: id, Handoff: id, Kind: federation.Handoff, Verb: federation.Offer, From: outsider, To: did("target"), Title: "Cite", Venue: "dm:x"})
	list, err := call[macpv1.ListSessionsRequest, macpv1.ListSessionsResponse](t, w, "target", "ListSessions", &macpv1.ListSessionsRequest{})
	if err != nil || len(list.GetSessions()) == 0 {
		t.Fatalf("the sessions are %v, %v", list, err)
	}
	return list.GetSessions()[len(list.GetSessions())-1].GetSessionId()
}

// last returns the newest filed step as the home has judged it.
func (w *world) last(t *testing.T) federation.Judgement {
	t.Helper()
	steps := w.gateway.filed()
	ev := steps[len(steps)-1]
	view, err := w.gateway.View(t.Context(), ev.Handoff)
	if err != nil {
		t.Fatal(err)
	}
	return federation.Judgement{View: view, Entry: federation.Entry{Event: ev, Version: view.Version, State: view.State}}
}

// report has the target report on its work by a signal.
func (w *world) report(t *testing.T, session, verb string) {
	t.Helper()
	before := len(w.gateway.filed())
	env := envelope(t, "", macpmode.TypeSignal, verb, "target", &macpv1.SignalPayload{
		SignalType: macpmode.SignalStep, Data: []byte(`{"verb":"` + verb + `"}`), CorrelationSessionId: session,
	})
	env.Mode = ""
	if ack := w.send(t, env); !ack.GetOk() {
		t.Fatalf("%s: %v", verb, ack)
	}
	await(t, "the step to be filed", func() bool { return len(w.gateway.filed()) == before+1 })
	w.deliver(t, w.last(t))
}

// A session with the profile hold-open stays open until the work is over, and its commitment says
// how the work ended.
func TestSessionStaysOpenUntilTheWorkIsOver(t *testing.T) {
	t.Parallel()
	for verb, want := range map[string]string{"complete": "handoff.completed", "fail": "handoff.failed"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, func(w *world) { w.cfg.Profile = "hold-open" }, "target")
			id := w.offered(t, federation.EventID{1})
			if ack := w.send(t, envelope(t, id, macpmode.TypeAccept, "a", "target", &handoffv1.HandoffAcceptPayload{HandoffId: federation.EventID{1}.String()})); !ack.GetOk() {
				t.Fatal(ack)
			}
			await(t, "the accept to be filed", func() bool { return len(w.gateway.filed()) == 2 })
			w.report(t, id, "progress")
			if state := metadata(t, w, "target", id).GetState(); state != macpv1.SessionState_SESSION_STATE_OPEN {
				t.Errorf("after the progress the session is %s", state)
			}
			w.report(t, id, verb)
			if state := metadata(t, w, "target", id).GetState(); state != macpv1.SessionState_SESSION_STATE_RESOLVED {
				t.Fatalf("after the end of the work the session is %s", state)
			}
			var kinds []string
			var commitment macpv1.CommitmentPayload
			for _, text := range follow(t, w, "target", id, 0) {
				var env macpv1.Envelope
				if err := proto.Unmarshal([]byte(text), &env); err != nil {
					t.Fatal(err)
				}
				if kinds = append(kinds, env.GetMessageType()); env.GetMessageType() == macpmode.TypeCommitment {
					if err := proto.Unmarshal(env.GetPayload(), &commitment); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := strings.Join(kinds, " "); got != "SessionStart HandoffOffer HandoffAccept HandoffContext Commitment" {
				t.Errorf("the session has %s", got)
			}
			if commitment.GetAction() != want || commitment.GetOutcomePositive() != (verb == "complete") {
				t.Errorf("the commitment is %v", &commitment)
			}
		})
	}
}

// The owner of a session is told the work of the target, which reports by signals.
func TestSessionShowsTheWorkOfTheTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "owner", "target")
	w.begin(t, session(1), "owner", "target")
	w.send(t, envelope(t, session(1), macpmode.TypeOffer, "o", "owner", offerTo("target")))
	w.send(t, envelope(t, session(1), macpmode.TypeAccept, "a", "target", &handoffv1.HandoffAcceptPayload{HandoffId: "h1"}))
	await(t, "the accept to be filed", func() bool { return len(w.gateway.filed()) == 2 })
	w.report(t, session(1), "complete")
	owner := bridgetest.NewMACPClient(w.cfg.Listen, "owner", token("owner"))
	t.Cleanup(owner.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var signal *macpv1.Envelope
	err := bridgetest.MACPWatch[macpv1.WatchSignalsRequest](ctx, owner, "WatchSignals", func() {}, func(m *macpv1.WatchSignalsResponse) bool {
		signal = m.GetEnvelope()
		return false
	})
	if signal.GetSender() != "target" || !strings.Contains(string(signal.GetPayload()), `"verb":"complete"`) {
		t.Errorf("the owner is told %v, %v", signal, err)
	}
}

// A watcher of policies gets all of them at once, and again after each change.
func TestWatchPoliciesSeesEachChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "owner", "watcher")
	watcher := bridgetest.NewMACPClient(w.cfg.Listen, "watcher", token("watcher"))
	t.Cleanup(watcher.Close)
	seen := make(chan string, 8)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = bridgetest.MACPWatch[macpv1.WatchPoliciesRequest](ctx, watcher, "WatchPolicies", func() {}, func(m *macpv1.WatchPoliciesResponse) bool {
			var names []string
			for _, d := range m.GetDescriptors() {
				names = append(names, d.GetPolicyId())
			}
			seen <- strings.Join(names, " ")
			return true
		})
	}()
	defer func() { cancel(); <-ended }()
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-seen:
			if got != want {
				t.Errorf("the watcher sees %q, want %q", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("the watcher does not see %q", want)
		}
	}
	expect("policy.default")
	policy := &macpv1.PolicyDescriptor{PolicyId: "policy.test.any", Mode: macpmode.Mode, SchemaVersion: 1, Rules: `{"commitment":{"authority":"any_participant"}}`}
	if answer, err := call[macpv1.RegisterPolicyRequest, macpv1.RegisterPolicyResponse](t, w, "owner", "RegisterPolicy", &macpv1.RegisterPolicyRequest{PolicyDescriptor: policy}); err != nil || !answer.GetOk() {
		t.Fatal(answer, err)
	}
	expect("policy.default policy.test.any")
	if answer, err := call[macpv1.UnregisterPolicyRequest, macpv1.UnregisterPolicyResponse](t, w, "owner", "UnregisterPolicy", &macpv1.UnregisterPolicyRequest{PolicyId: "policy.test.any"}); err != nil || !answer.GetOk() {
		t.Fatal(answer, err)
	}
	expect("policy.default")
}

// The history of a closed session is kept for the retention of finished handoffs, and then
// removed with its name in the lists.
func TestSessionIsRemovedIfOld(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(w *world) { w.deps.Bounds = bounds(time.Second) }, "owner", "target")
	for n, end := range map[int]federation.Verb{1: federation.Decline, 2: federation.Accept} {
		w.begin(t, session(n), "owner", "target")
		w.send(t, envelope(t, session(n), macpmode.TypeOffer, "o", "owner", offerTo("target")))
		var answer proto.Message = &handoffv1.HandoffDeclinePayload{HandoffId: "h1"}
		kind := macpmode.TypeDecline
		if end == federation.Accept {
			answer, kind = &handoffv1.HandoffAcceptPayload{HandoffId: "h1"}, macpmode.TypeAccept
		}
		w.send(t, envelope(t, session(n), kind, "a", "target", answer))
		if ack := w.send(t, envelope(t, session(n), macpmode.TypeCommitment, "c", "owner", &macpv1.CommitmentPayload{
			CommitmentId: "c", Action: "handoff." + string(end), AuthorityScope: "s", Reason: "r", ModeVersion: "1.0.0", ConfigurationVersion: "test", OutcomePositive: end == federation.Accept,
		})); !ack.GetOk() {
			t.Fatal(ack)
		}
	}
	list := func() (names []string) {
		answer, err := call[macpv1.ListSessionsRequest, macpv1.ListSessionsResponse](t, w, "owner", "ListSessions", &macpv1.ListSessionsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range answer.GetSessions() {
			names = append(names, s.GetSessionId())
		}
		return names
	}
	if names := list(); len(names) != 2 {
		t.Errorf("before the retention the list has %v", names)
	}
	await(t, "the declined session to be removed", func() bool { return slices.Equal(list(), []string{session(2)}) })
	if _, err := call[macpv1.GetSessionRequest, macpv1.GetSessionResponse](t, w, "owner", "GetSession", &macpv1.GetSessionRequest{SessionId: session(1)}); codeOf(err) != "SESSION_NOT_FOUND" {
		t.Errorf("the removed session: %v", err)
	}
	if length, err := w.deps.Journals.JournalLength(t.Context(), "macp/session/"+session(1)); length != 0 || err != nil && !errors.Is(err, federation.ErrNotFound) {
		t.Errorf("its journal has %d entries, %v", length, err)
	}
	// The work of the other session goes on: its history is kept until the end of
	// the work.
	w.report(t, session(2), "complete")
	await(t, "the other session to be removed", func() bool { return len(list()) == 0 })
}

// A listener with TLS serves gRPC with the certificate of the gateway, and no plain text.
func TestListenerWithTLS(t *testing.T) {
	t.Parallel()
	cert, err := bridgetest.NewCertificate("runtime.example")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, func(w *world) { w.cfg.TLS, w.cert = true, &cert }, "owner")
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	for name, config := range map[string]*tls.Config{
		"1.3": {RootCAs: pool, ServerName: "runtime.example"},
		"1.2": {RootCAs: pool, ServerName: "runtime.example", MaxVersion: tls.VersionTLS12},
		"1.1": {RootCAs: pool, ServerName: "runtime.example", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
	} {
		transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
		client := connect.NewClient[macpv1.ListSessionsRequest, macpv1.ListSessionsResponse](
			&http.Client{Transport: transport}, "https://"+w.cfg.Listen+"/macp.v1.MACPRuntimeService/ListSessions", connect.WithGRPC())
		request := connect.NewRequest(&macpv1.ListSessionsRequest{})
		request.Header().Set("Authorization", "Bearer "+token("owner"))
		_, err := client.CallUnary(t.Context(), request)
		if (err == nil) != (name != "1.1") {
			t.Errorf("over TLS %s: %v", name, err)
		}
		transport.CloseIdleConnections()
	}
	if _, err := call[macpv1.ListSessionsRequest, macpv1.ListSessionsResponse](t, w, "owner", "ListSessions", &macpv1.ListSessionsRequest{}); err == nil {
		t.Error("the listener serves plain text")
	}
}

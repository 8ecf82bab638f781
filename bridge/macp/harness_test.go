package macp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/macp"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/storetest"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

func TestMain(m *testing.M) {
	federationtest.RunParallel(8)
	goleak.VerifyTestMain(m)
}

// patience is the longest wait of a test for an event.
const patience = time.Minute

type table macp.Config

// Decode implements [bridge.Table].
func (t table) Decode(into any) {
	if cfg, ok := into.(*macp.Config); ok {
		*cfg = macp.Config(t)
	}
}

// bounds returns the limits of sessions.
func bounds(finished time.Duration) func() macp.Bounds {
	return func() macp.Bounds { return macp.Bounds{Finished: finished, ClockSkew: 2 * time.Minute} }
}

// gateway files each step that the rules of a handoff allow, and keeps it.
type gateway struct {
	bridge.Gateway

	mu    sync.Mutex
	views map[federation.HandoffID]federation.View
	steps []federation.Event
	away  bool                          // nothing can be filed now
	late  func(federation.EventID) bool // whether an ID is too old; nil for none
}

// Submit implements [bridge.Gateway].
func (g *gateway) Submit(_ context.Context, ev federation.Event) (federation.Judgement, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.away {
		return federation.Judgement{}, &federation.UnavailableError{What: "record"}
	}
	v := g.views[ev.Handoff]
	for _, step := range g.steps {
		if step.ID == ev.ID {
			return federation.Judgement{View: v, Entry: federation.Entry{Event: step, Version: v.Version, State: v.State}, Duplicate: true}, nil
		}
	}
	if g.late != nil && g.late(ev.ID) {
		return federation.Judgement{}, federation.Refuse(ev, federation.EventIDClockSkew, "")
	}
	next, ok := map[string]federation.State{
		" offer": "offered", "offered accept": "assigned", "offered decline": "declined", "offered cancel": "cancelled",
		"assigned progress": "assigned", "assigned complete": "completed", "assigned fail": "failed", "assigned expire": "expired",
	}[string(v.State)+" "+string(ev.Verb)]
	if !ok {
		return federation.Judgement{}, federation.Refuse(ev, federation.IllegalStep, "")
	}
	v.State, v.Version = next, v.Version+1
	switch ev.Verb { //nolint:exhaustive // the others set nothing but the state
	case federation.Offer:
		v.ID, v.Kind, v.Offerer, v.Offeree, v.Title, v.Venue, v.Dialect, v.Deadline = ev.ID, ev.Kind, ev.Actor(), ev.To, ev.Title, ev.Venue, ev.Dialect, ev.Deadline
	case federation.Accept:
		v.Assignee = ev.Actor()
	default:
		v.Over = next != "assigned"
	}
	g.views[ev.Handoff] = v
	g.steps = append(g.steps, ev)
	return federation.Judgement{View: v, Entry: federation.Entry{Event: ev, Version: v.Version, State: v.State}}, nil
}

// View implements [bridge.Gateway].
func (g *gateway) View(_ context.Context, id federation.HandoffID) (federation.View, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.views[id], nil
}

// Owner implements [bridge.Gateway]. No keys are kept.
func (*gateway) Owner(_ context.Context, did federation.DID) (federation.DID, error) {
	return did, nil
}

// Same implements [bridge.Gateway].
func (*gateway) Same(_ context.Context, a, b federation.DID) (bool, error) { return a == b, nil }

// Name implements [bridge.Gateway].
func (*gateway) Name(_ context.Context, did federation.DID) string { return did.Short() }

// Place implements [bridge.Gateway].
func (*gateway) Place(context.Context, federation.DID, federation.DID, string) (federation.ChannelRef, federation.Dialect, error) {
	return federation.ChannelRef{}, federation.HandoffTags, nil
}

// filed returns the steps so far.
func (g *gateway) filed() []federation.Event {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.steps)
}

// world is a runtime with participants, which can be stopped and started.
type world struct {
	gateway *gateway
	cfg     macp.Config
	deps    macp.Deps
	secrets bridgetest.Secrets
	cert    *tls.Certificate // of the listener; nil for one without TLS
	link    bridge.Link
	client  *http.Client
	stop    func()
}

func did(name string) federation.DID {
	if parsed, err := federation.ParseDID(name); err == nil {
		return parsed
	}
	return federation.DID("did:web:" + strings.NewReplacer("/", "", ":", "").Replace(name) + ".example")
}

// newWorld starts a runtime.
func newWorld(tb testing.TB, names ...string) *world {
	tb.Helper()
	return newWorldWith(tb, func(*world) {}, names...)
}

// newWorldWith starts a runtime after a change of its configuration.
func newWorldWith(tb testing.TB, change func(w *world), names ...string) *world {
	tb.Helper()
	w := &world{gateway: &gateway{views: map[federation.HandoffID]federation.View{}}, secrets: bridgetest.Secrets{}}
	record := storetest.Open(tb)
	w.deps = macp.Deps{Journals: record.Journals, Steps: storetest.Bound(record), Bounds: bounds(time.Hour), Version: "test"}
	w.cfg = macp.DefaultConfig()
	w.cfg.Listen = federationtest.FreeAddr(tb)
	for _, name := range names {
		w.secrets[name] = token(name)
		w.cfg.Participants = append(w.cfg.Participants, macp.Participant{Name: name, DID: string(did(name)), TokenFile: name})
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	w.client = &http.Client{Transport: transport}
	change(w)
	w.start(tb)
	tb.Cleanup(func() { w.stop(); transport.CloseIdleConnections() })
	return w
}

func token(name string) string { return "the token of " + name }

// start runs the runtime.
func (w *world) start(tb testing.TB) {
	tb.Helper()
	ports := bridgetest.Ports(w.gateway)
	ports.Secrets = w.secrets
	if w.cert != nil {
		ports.Certificate = bridge.NewCertificate(w.cert, nil)
	}
	link, err := macp.Network(w.deps).Open(table(w.cfg), ports)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	up, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- link.Run(ctx, func() { close(up) }) }()
	select {
	case <-up:
	case err := <-ended:
		tb.Fatal(err)
	}
	w.link = link
	w.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
}

func call[Req, Res any](tb testing.TB, w *world, as, method string, req *Req) (*Res, error) {
	tb.Helper()
	client := connect.NewClient[Req, Res](w.client, "http://"+w.cfg.Listen+"/macp.v1.MACPRuntimeService/"+method, connect.WithGRPC())
	request := connect.NewRequest(req)
	if as != "" {
		request.Header().Set("Authorization", "Bearer "+token(as))
	}
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	answer, err := client.CallUnary(ctx, request)
	if err != nil {
		return nil, err
	}
	return answer.Msg, nil
}

func (w *world) send(tb testing.TB, env *macpv1.Envelope) *macpv1.Ack {
	tb.Helper()
	answer, err := call[macpv1.SendRequest, macpv1.SendResponse](tb, w, env.GetSender(), "Send", &macpv1.SendRequest{Envelope: env})
	if err != nil {
		tb.Fatal(err)
	}
	return answer.GetAck()
}

func envelope(tb testing.TB, session, kind, id, sender string, payload proto.Message) *macpv1.Envelope {
	tb.Helper()
	text, err := proto.Marshal(payload)
	if err != nil {
		tb.Fatal(err)
	}
	return &macpv1.Envelope{
		MacpVersion: "1.0", Mode: macpmode.Mode, MessageType: kind, MessageId: id, SessionId: session, Sender: sender, TimestampUnixMs: time.Now().UnixMilli(), Payload: text,
	}
}

// session returns the ID of a session of a test.
func session(n int) string {
	digits := strconv.Itoa(n)
	return "00000000-0000-4000-8000-" + strings.Repeat("0", 12-len(digits)) + digits
}

// begin starts a session with the first participant as its owner.
func (w *world) begin(tb testing.TB, id string, names ...string) {
	tb.Helper()
	ack := w.send(tb, envelope(tb, id, macpmode.TypeSessionStart, "start", names[0], &macpv1.SessionStartPayload{
		Intent: "Cite three sources", Participants: names, ModeVersion: "1.0.0", ConfigurationVersion: "test", TtlMs: 600_000,
	}))
	if !ack.GetOk() {
		tb.Fatalf("start: %v", ack)
	}
}

// await waits for a condition.
func await(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// codeOf returns the error code in the metadata of an error.
func codeOf(err error) string {
	if failed, ok := errors.AsType[*connect.Error](err); ok {
		return failed.Meta().Get("Macp-Error-Code")
	}
	return ""
}

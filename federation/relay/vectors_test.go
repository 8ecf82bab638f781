package relay_test

import (
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/relay"
)

//go:generate go test -run ^TestWireFormatMatchesItsGoldenFiles$ -update .

// update is set by go generate: the vectors are made anew from fixed seeds.
var update = flag.Bool("update", false, "write the vectors anew")

// vector is one exchange, byte for byte as it is on the wire. Seeds of keys are the SHA-256 of the
// names, of homes and of people.
type vector struct {
	Name            string `json:"name"`
	Body            string `json:"body,omitempty"`
	Signature       string `json:"signature,omitempty"`
	Answer          string `json:"answer"`
	AnswerSignature string `json:"answer_signature"`
}

type recorder struct {
	*gate
	taping    sync.Mutex
	exchanges []vector
}

func (r *recorder) keep(v vector) {
	r.taping.Lock()
	defer r.taping.Unlock()
	r.exchanges = append(r.exchanges, v)
}

// steps takes the exchanges off the tape and returns them without the comparison at the start of a
// connection, which comes before or after them.
func (r *recorder) steps() []vector {
	r.taping.Lock()
	defer r.taping.Unlock()
	taken := slices.DeleteFunc(r.exchanges, func(v vector) bool { return strings.Contains(v.Body, `"type":"digest"`) })
	r.exchanges = nil
	return taken
}

func (r *recorder) Post(ctx context.Context, address string, e relay.Envelope) (relay.Envelope, error) {
	answer, err := exchange(ctx, http.MethodPost, address, e)
	r.keep(vector{Body: string(e.Body), Signature: e.Signature, Answer: string(answer.Body), AnswerSignature: answer.Signature})
	return answer, err
}

func (r *recorder) Get(ctx context.Context, address string) (relay.Envelope, error) {
	answer, err := exchange(ctx, http.MethodGet, address, relay.Envelope{})
	r.keep(vector{Answer: string(answer.Body), AnswerSignature: answer.Signature})
	return answer, err
}

// tap returns a peer whose exchanges are kept, at a home whose clock stands still.
func (g *gate) tap(to *gate) (*relay.Peer, *recorder) {
	tape := &recorder{gate: g}
	deps := g.deps
	deps.Poster = tape
	return relay.NewPeer(relay.PeerConfig{Home: to.id, URL: to.server.URL, Mode: relay.Allow}, deps), tape
}

func TestWireFormatMatchesItsGoldenFiles(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	noon := federationtest.At(0)
	a.stopped, b.stopped = noon, noon
	opens := func(ev *federation.Event) {
		ev.ID, ev.Handoff, ev.Title = federationtest.ID(1), federationtest.ID(1), "Cite three sources on X"
		ev.Arrival.Name, ev.Arrival.Received = "alice", noon
	}
	follows := func(ev *federation.Event) { ev.ID, ev.Arrival.Received = federationtest.ID(2), noon }
	peer, told := a.tap(b)
	a.take("alice", federation.Offer, to("bob"), opens)
	rows, err := a.record.Outbox(t.Context(), "b.test", federation.Delivery{}, 10)
	if err != nil || len(rows) != 1 {
		t.Fatal(len(rows), err)
	}
	stop := a.keepUp(peer)
	for range 2 { // stored, and then known
		if err := peer.Deliver(t.Context(), rows[0]); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if err := a.record.Rows().Settle(t.Context(), "b.test", []int64{rows[0].Row}, federation.Settlement{At: noon}); err != nil {
		t.Fatal(err)
	}
	offers := told.steps()
	if done, err := peer.Compare(t.Context()); err != nil || done.Sent > 0 {
		t.Fatalf("%d handoffs were sent again, %v", done.Sent, err)
	}
	asker, asked := b.tap(a)
	if _, err := b.Submit(t.Context(), b.speaks("bob", federation.Accept, in(federationtest.ID(1)), follows)); err != nil {
		t.Fatal(err)
	}
	stop = b.keepUp(asker)
	b.comes(federationtest.ID(1), "offer accept")
	stop()
	rulings := asked.steps()[1:]
	if _, err := asker.Compare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Houses(t.Context(), keyOf("bob").DID); err != nil {
		t.Fatal(err)
	}
	if err := peer.Move(t.Context(), keyOf("alice").DID); err != nil {
		t.Fatal(err)
	}
	compareVectors(t, slices.Concat(offers, told.exchanges[:1], rulings, asked.exchanges, told.exchanges[1:]),
		"are you there", "an offer", "the offer again", "what there is, compared", "what another home is asked to rule on, with a voucher",
		"what there is of the other home, compared",
		"whose mailbox is there", "a mailbox that moves")
}

func compareVectors(t *testing.T, exchanges []vector, names ...string) {
	t.Helper()
	if len(exchanges) != len(names) {
		t.Fatalf("%d exchanges, want %d", len(exchanges), len(names))
	}
	for i, name := range names {
		exchanges[i].Name = name
	}
	got, err := json.MarshalIndent(exchanges, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "homes.json")
	if *update {
		if err := os.WriteFile(path, append(got, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(append(got, '\n'))); diff != "" {
		t.Errorf("the wire changed (-want +got):\n%s", diff)
	}
}

package relay_test

import (
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"baton/federation"
	"baton/federation/federationtest"
	"baton/federation/relay"
	"baton/federation/signing"
	"baton/translate/dialect"
)

//go:generate go test -run ^TestWhatHomesSendEachOtherStaysTheSame$ -update .

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

// recorder is a Poster that keeps what went over it.
type recorder struct {
	*gate
	exchanges []vector
}

func (r *recorder) Post(ctx context.Context, address string, l relay.Letter) (relay.Letter, error) {
	answer, err := exchange(ctx, http.MethodPost, address, l)
	r.exchanges = append(r.exchanges, vector{Body: string(l.Body), Signature: l.Signature, Answer: string(answer.Body), AnswerSignature: answer.Signature})
	return answer, err
}

func (r *recorder) Get(ctx context.Context, address string) (relay.Letter, error) {
	answer, err := exchange(ctx, http.MethodGet, address, relay.Letter{})
	r.exchanges = append(r.exchanges, vector{Answer: string(answer.Body), AnswerSignature: answer.Signature})
	return answer, err
}

func TestWhatHomesSendEachOtherStaysTheSame(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	noon := federationtest.At(0)
	tape := &recorder{gate: a}
	deps := a.deps
	deps.Poster, deps.Now = tape, func() time.Time { return noon }
	peer := relay.NewPeer(relay.PeerConfig{Home: "b.test", URL: b.server.URL, Mode: relay.Allow}, deps)
	offer := federation.Event{
		ID: federationtest.ID(1), Handoff: federationtest.ID(1), Kind: federation.Handoff, Verb: federation.Offer,
		From: keyOf("alice").DID, To: keyOf("bob").DID, Title: "Cite three sources on X", Venue: "#ops", Dialect: federation.HandoffTags,
		Provenance: federation.Signed, Arrival: federation.Arrival{Network: "spanningtree", Link: "lab", Name: "alice", Received: noon},
	}
	offer.Fields, _ = dialect.Write(offer)
	offer, err := signing.Seal(t.Context(), keyOf("alice"), offer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.home.Submit(t.Context(), offer, noon); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended, up := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = peer.Run(ctx, func() { close(up) })
	}()
	<-up
	rows, err := a.record.Owed(t.Context(), "b.test", 0, 10)
	if err != nil || len(rows) != 1 {
		t.Fatal(len(rows), err)
	}
	for range 2 { // stored, and then known
		if err := peer.Deliver(t.Context(), rows[0]); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.record.Settle(t.Context(), "b.test", []int64{rows[0].Row}, federation.Settlement{At: noon}); err != nil {
		t.Fatal(err)
	}
	if sent, err := peer.Compare(t.Context()); err != nil || sent > 0 {
		t.Fatalf("%d handoffs were sent again, %v", sent, err)
	}
	cancel()
	<-ended
	if _, err := peer.Houses(t.Context(), keyOf("bob").DID); err != nil {
		t.Fatal(err)
	}
	names := []string{"are you there", "an offer", "the offer again", "what there is, compared", "whose mailbox is there"}
	if len(tape.exchanges) != len(names) {
		t.Fatalf("%d exchanges, want %d", len(tape.exchanges), len(names))
	}
	for i, name := range names {
		tape.exchanges[i].Name = name
	}
	got, err := json.MarshalIndent(tape.exchanges, "", "  ")
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

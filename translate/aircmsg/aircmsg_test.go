package aircmsg_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/aircmsg"
	"github.com/baton-gateway/baton/translate/handofftag"
	"github.com/baton-gateway/baton/translate/translatetest"
)

// pairIn is the section "in" of a pair for Encode.
type pairIn struct {
	Event federation.Event
	View  federation.View
	Names map[federation.DID]string
	Out   aircmsg.Out
}

func TestEncodePairs(t *testing.T) {
	translatetest.Golden(t, filepath.Join("testdata", "encode"), func(in []byte) ([]byte, error) {
		p, err := readPair(in)
		if err != nil {
			return nil, err
		}
		m, losses, err := aircmsg.Encode(p.step(), p.Out)
		if err != nil {
			return nil, err
		}
		return indent(map[string]any{"body": m.Body, "payload": m.Payload, "losses": losses})
	})
}

func TestNoticePairs(t *testing.T) {
	translatetest.Golden(t, filepath.Join("testdata", "taken"), func(in []byte) ([]byte, error) {
		p, err := readPair(in)
		if err != nil {
			return nil, err
		}
		m := aircmsg.EncodeTaken(p.step(), p.Out)
		return indent(map[string]any{"body": m.Body, "payload": m.Payload})
	})
}

func readPair(in []byte) (p pairIn, err error) {
	err = json.Unmarshal(in, &p)
	return p, err
}

// step returns the step of a pair as a translator gets it.
func (p pairIn) step() translate.Step {
	entry := federation.Entry{Event: p.Event, Version: p.View.Version, State: p.View.State}
	return translate.Step{Entry: entry, View: p.View, Name: func(d federation.DID) string { return p.Names[d] }}
}

func TestDecodePairs(t *testing.T) {
	translatetest.Golden(t, filepath.Join("testdata", "decode"), func(in []byte) ([]byte, error) {
		step, err := aircmsg.Decode(in)
		if err != nil {
			return nil, err
		}
		return indent(step)
	})
}

func indent(v any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err := enc.Encode(v)
	return []byte(b.String()), err
}

// The message that an independent program made of an offer on IRC.
func TestDecodeReadsAnIndependentOffer(t *testing.T) {
	dir := os.Getenv("BATON_VECTORS")
	if dir == "" {
		t.Log("not run: BATON_VECTORS is unset")
		return
	}
	text, err := os.ReadFile(filepath.Join(dir, "airc", "handoff-messages.json"))
	if err != nil {
		t.Fatal(err)
	}
	var set struct {
		OfferTags    map[string]string `json:"offer_tags"`
		OfferMessage struct {
			Body    string
			Payload struct {
				Type string
				Data struct {
					Handoff struct {
						Proof struct{ Document, PublicKey string }
					}
				}
			}
		} `json:"offer_message"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	var want struct {
		OfferMessage struct{ Payload any } `json:"offer_message"`
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	ev, err := handofftag.Codec{}.Decode(translate.Tagged{Command: "TAGMSG", Target: "#ops", Tags: set.OfferTags})
	if err != nil {
		t.Fatal(err)
	}
	proof := set.OfferMessage.Payload.Data.Handoff.Proof
	ev.Signature.Document, ev.Signature.Key = proof.Document, mustDecode(t, proof.PublicKey)
	m, losses, err := aircmsg.Encode(offerStep(ev), aircmsg.Out{})
	if err != nil || len(losses) > 0 {
		t.Fatal(err, losses)
	}
	if m.Body != set.OfferMessage.Body {
		t.Errorf("body %q, want %q", m.Body, set.OfferMessage.Body)
	}
	if diff := cmp.Diff(want.OfferMessage.Payload, generic(t, m.Payload)); diff != "" {
		t.Errorf("payload (-want +got):\n%s", diff)
	}
}

func offerStep(ev federation.Event) translate.Step {
	view := federation.View{
		ID: ev.Handoff, Kind: ev.Kind, Dialect: ev.Dialect, Version: 1, State: federation.Offered, Home: "gw.example",
		Venue: ev.Venue, Offerer: ev.From, Offeree: ev.To, Title: ev.Title, Caps: ev.Caps, Deadline: ev.Deadline,
	}
	names := map[federation.DID]string{ev.From: "alice", ev.To: "scout_7"}
	return translate.Step{
		Entry: federation.Entry{Event: ev, Version: 1, State: federation.Offered, Filed: time.Unix(1787990400, 0)},
		View:  view, Name: func(d federation.DID) string { return names[d] },
	}
}

func generic(t *testing.T, v any) any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var g any
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestEncodeBoundsTheBody(t *testing.T) {
	ev := federation.Event{Verb: federation.Progress, Note: strings.Repeat("é", 5000)}
	m, _, err := aircmsg.Encode(offerStep(ev), aircmsg.Out{})
	if n := len([]rune(m.Body)); err != nil || n != 4000 || !strings.HasSuffix(m.Body, "…") {
		t.Errorf("body of %d characters (%v)", n, err)
	}
}

func TestEncodeUsesStandardTypesOnlyForHandoffs(t *testing.T) {
	for _, verb := range []federation.Verb{federation.Offer, federation.Progress, "bid", "auto-accept"} {
		ev := federation.Event{
			ID: federation.EventID{2}, Handoff: federation.EventID{1}, Kind: "bounty", Verb: verb, From: "did:plc:alice", Title: "Fix it",
			BidDeadline: time.Unix(1788000000, 0), Accepts: federation.EventID{3}, Replaces: federation.EventID{4},
		}
		m, losses, err := aircmsg.Encode(offerStep(ev), aircmsg.Out{})
		described, _ := m.Payload.Data["handoff"].(aircmsg.Handoff)
		if err != nil || m.Payload.Type != "at.freeq:handoff" || described.Kind != "bounty" || described.Event != verb {
			t.Errorf("%s is %+v (%v)", verb, m.Payload, err)
		}
		var lost []string
		for _, loss := range losses {
			lost = append(lost, loss.Field)
		}
		if diff := cmp.Diff([]string{"accepts", "bid_deadline"}, lost); diff != "" {
			t.Errorf("%s: lost (-want +got):\n%s", verb, diff)
		}
	}
	end := federation.Event{Kind: "bounty", Verb: "auto-accept", From: "did:web:gw.example", Title: "Fix it"}
	if m, _, err := aircmsg.Encode(offerStep(end), aircmsg.Out{}); err != nil || m.Body != "auto-accept: Fix it" {
		t.Errorf("what nobody did is told as %q (%v)", m.Body, err)
	}
}

func TestDecodeIgnoresOtherPayloads(t *testing.T) {
	for _, text := range []string{`{"type":"context:code","data":{}}`, `{"data":{}}`, `[]`, `null`, ``, `{"type":"text","content":"accept"}`} {
		if _, err := aircmsg.Decode(json.RawMessage(text)); !errors.Is(err, translate.ErrNotHandoff) {
			t.Errorf("%s: error %v, want ErrNotHandoff", text, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, payload := range translatetest.Payloads(f, "testdata/decode") {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		step, err := aircmsg.Decode(payload)
		if err != nil {
			return
		}
		if step.Context != "" && (step.Context[0] == '{' || step.Context[0] == '[') && !json.Valid([]byte(step.Context)) {
			t.Errorf("context %q is no JSON", step.Context)
		}
		if step.Verb == federation.Offer && (step.Title == "" || len(step.Title) > 300 || strings.ContainsFunc(step.Title, unicode.IsControl)) {
			t.Errorf("title %q is none", step.Title)
		}
	})
}

func mustDecode(t *testing.T, s string) []byte {
	t.Helper()
	var raw []byte
	text := strings.NewReplacer("-", "+", "_", "/").Replace(s) + strings.Repeat("=", (4-len(s)%4)%4)
	if err := json.Unmarshal([]byte(`"`+text+`"`), &raw); err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestUpdateAddsTheCurrentState(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"data":{"handoff":{"id":"x","state":"offered"},"n":1788000000},"type":"ack"}`: `{"type":"ack","data":{"handoff":{"id":"x","state":"offered","state_now":"cancelled"},"n":1788000000}}`,
		`{"data":{"handoff":{"state":"cancelled"}},"type":"ack"}`:                       "",
		`{"data":{"handoff":{"id":"x"}},"type":"at.freeq:message"}`:                     "",
		`{"data":{"handoff":"x"},"type":"ack"}`:                                         "",
		`{"text":"x"}`:                                                                  "",
		``:                                                                              "",
	} {
		got, changed := aircmsg.Update(json.RawMessage(payload), federation.Cancelled)
		if want == "" {
			want = payload
		}
		if string(got) != want || changed != (want != payload) {
			t.Errorf("%s becomes %s, %t, want %s", payload, got, changed, want)
		}
	}
}

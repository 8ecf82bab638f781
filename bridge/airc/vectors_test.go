package airc_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/signing"
)

// handoffVector is a handoff over AIRC written by an independent program: an offer from IRC, the
// message for the agent, its answer, and the resulting tags and evidence.
type handoffVector struct {
	OfferTags    map[string]string `json:"offer_tags"`
	OfferMessage map[string]any    `json:"offer_message"`
	Ack          string            `json:"ack_received_bytes"`
	Evidence     string            `json:"evidence"`
	EvidenceHash string            `json:"evidence_sha256"`
	AcceptTags   map[string]string `json:"accept_tags"`
}

// readVector reads one file of the external vectors. It returns false if there are none, and says
// so.
func readVector(t *testing.T, name string, into any) bool {
	t.Helper()
	folder := os.Getenv("BATON_VECTORS")
	if folder == "" {
		t.Log("not run: BATON_VECTORS is unset")
		return false
	}
	text, err := os.ReadFile(filepath.Join(folder, "airc", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
	return true
}

func TestVectorsOfAHandoff(t *testing.T) {
	t.Parallel()
	var v handoffVector
	if !readVector(t, "handoff-messages.json", &v) {
		return
	}
	synctest.Test(t, func(t *testing.T) { checkHandoff(t, v) })
}

func checkHandoff(t *testing.T, v handoffVector) {
	t.Helper()
	sent := time.Unix(int64(v.OfferMessage["timestamp"].(float64)), 0)
	time.Sleep(time.Until(sent))
	w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
	replay := &replaying{Record: w.record}
	w.gateway.home.Record = replay
	w.gateway.home.Limits.ClockSkew = 0 // the ids of the vectors are years from their clock
	scout := w.agent(t, "scout_7", 0x01)

	fields := map[string]string{}
	for name, value := range v.OfferTags {
		if name != "+freeq.at/eventid" && name != "+freeq.at/sig" {
			fields[name[len("+freeq.at/"):]] = value
		}
	}
	id, err := federation.ParseEventID(fields["handoff-id"])
	if err != nil {
		t.Fatal(err)
	}
	replay.id, _ = v.OfferMessage["id"].(string)
	w.fromIRC(t, alice, federation.Event{
		ID: id, Handoff: id, Verb: federation.Offer, To: federation.DID(scout.DID), Title: fields["handoff-task"],
		Context: fields["handoff-context"], Caps: []string{fields["handoff-caps"]}, Deadline: time.Unix(1788000000, 0).UTC(),
	}, fields)
	raws, _, err := scout.Inbox(t.Context(), "")
	if err != nil || len(raws) != 1 {
		t.Fatal(raws, err)
	}
	if err := scout.Verify(raws[0]); err != nil {
		t.Error(err)
	}
	var offer map[string]any
	if err := json.Unmarshal(raws[0], &offer); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v.OfferMessage, offer); diff != "" {
		t.Error("the offer's message", diff)
	}

	received, err := time.Parse(time.RFC3339Nano, receivedAt(t, v.Evidence))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(received))
	if status, answer, err := scout.Post(t.Context(), []byte(v.Ack)); err != nil || status != http.StatusCreated || answer["seq"] != 2.0 {
		t.Fatal(status, answer, err)
	}
	accept := w.steps(t, id)[1]
	if got := hex.EncodeToString(accept.Evidence.Digest[:]); got != v.EvidenceHash {
		t.Errorf("the evidence is %s, want %s", got, v.EvidenceHash)
	}
	tags := map[string]string{"+freeq.at/eventid": v.AcceptTags["+freeq.at/eventid"], "+freeq.at/sig": v.AcceptTags["+freeq.at/sig"]}
	for name, value := range accept.Fields {
		tags["+freeq.at/"+name] = value
	}
	if diff := cmp.Diff(v.AcceptTags, tags); diff != "" {
		t.Error("the accept", diff)
	}
	if accept.ID, err = federation.ParseEventID(v.AcceptTags["+freeq.at/eventid"]); err != nil {
		t.Fatal(err)
	}
	again, err := signing.Seal(t.Context(), kept("scout_7"), accept)
	if err != nil || again.Signature.Text != v.AcceptTags["+freeq.at/sig"] {
		t.Errorf("signed %s %v, want %s", again.Signature.Text, err, v.AcceptTags["+freeq.at/sig"])
	}
}

// receivedAt returns when a message was received, by its evidence.
func receivedAt(t *testing.T, evidence string) string {
	t.Helper()
	var e struct {
		Received string `json:"received"`
	}
	if err := json.Unmarshal([]byte(evidence), &e); err != nil {
		t.Fatal(err)
	}
	return e.Received
}

// replaying is a store that files the messages about a step under an id of the
// test's, signed again.
type replaying struct {
	home.Record

	id string
}

// Append implements [home.Record].
func (r *replaying) Append(ctx context.Context, f federation.Filing) (federation.Entry, error) {
	for i, effect := range f.Effects {
		p, ok := effect.(agents.Posting)
		if !ok {
			return federation.Entry{}, fmt.Errorf("the effect is a %T", effect)
		}
		var members map[string]any
		if err := json.Unmarshal(p.Message.Envelope, &members); err != nil {
			return federation.Entry{}, err
		}
		delete(members, "signature")
		members["id"] = r.id
		signed, err := signing.SignEnvelope(ctx, registry, members)
		if err != nil {
			return federation.Entry{}, err
		}
		p.Message.ID, p.Message.Envelope = r.id, signed
		f.Effects[i] = p
	}
	return r.Record.Append(ctx, f)
}

func TestVectorsOfEnvelopesAndChallenges(t *testing.T) {
	t.Parallel()
	var v struct {
		Agent struct {
			Public string `json:"public_b64url"`
		} `json:"agent"`
		Envelope struct {
			Unsigned  map[string]any `json:"unsigned"`
			Signature string         `json:"signature_b64url"`
		} `json:"seed_envelope"`
		Challenge struct {
			Challenge string `json:"challenge"`
			Text      string `json:"signature_over_ascii_string_b64url"`
			Bytes     string `json:"signature_over_decoded_bytes_b64url"`
		} `json:"seed_challenge"`
	}
	if !readVector(t, "gateway-own-vectors.json", &v) {
		return
	}
	public, err := signing.DecodeBase64URL(v.Agent.Public)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(v.Envelope.Unsigned)
	if err != nil {
		t.Fatal(err)
	}
	if verdict, err := signing.VerifyEnvelope(text, v.Envelope.Signature, public); verdict != federation.Valid || err != nil {
		t.Errorf("the envelope is %v %v", verdict, err)
	}
	decoded, err := base64.RawURLEncoding.DecodeString(v.Challenge.Challenge) // it sets bits that no byte uses
	if err != nil {
		t.Fatal(err)
	}
	for signature, document := range map[string][]byte{v.Challenge.Text: []byte(v.Challenge.Challenge), v.Challenge.Bytes: decoded} {
		sig, err := signing.DecodeBase64URL(signature)
		if err != nil || !ed25519.Verify(public, document, sig) {
			t.Errorf("the challenge's signature over %q does not verify: %v", document, err)
		}
	}
}

func TestChallengeMayBeSignedAsBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.stranger("scout_7", 0x01)
	_, answer, err := a.Call(t.Context(), http.MethodPost, "/register/challenge", map[string]any{"handle": "scout_7"})
	if err != nil {
		t.Fatal(err)
	}
	challenge, _ := answer["challenge"].(string)
	decoded, err := signing.DecodeBase64URL(challenge)
	if err != nil || len(decoded) != 32 {
		t.Fatalf("the challenge is %q: %v", challenge, err)
	}
	body := maps.Clone(a.Registration(challenge))
	body["challengeSignature"] = a.Registration(string(decoded))["challengeSignature"]
	if status, answer, err := a.Call(t.Context(), http.MethodPost, "/register", body); err != nil || status != http.StatusCreated {
		t.Error(status, answer, err)
	}
}

// A vector of our own, which always runs: the evidence of a known message, received at a known
// time.
func TestEvidenceOfAKnownMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *airc.Config, _ *airc.Deps) { c.Offers = airc.OffersDeliver })
		scout := w.agent(t, "scout_7", 0x01)
		id := w.offer(t, alice, scout.DID)
		text, err := scout.Sign(map[string]any{
			"v": "0.1", "id": "AAECAwQFBgcICQoLDA0ODw", "kid": scout.KeyID, "aud": "gw.example", "from": "scout_7",
			"to": wire.Handle(alice.DID), "timestamp": time.Now().Unix(), "body": "é", "payload": ack(inbox(t, scout)[0].ID, "received"),
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(1400 * time.Millisecond)
		if status, answer, err := scout.Post(t.Context(), text); err != nil || status != http.StatusCreated {
			t.Fatal(status, answer, err)
		}
		document, err := json.Marshal(string(text))
		if err != nil {
			t.Fatal(err)
		}
		want := `{"document":` + string(document) + `,"key":{"kid":"k_34750f98bd59fcfc","publicKey":"iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w"},` +
			`"network":"airc","received":"2000-01-01T00:00:01.400Z","v":1}`
		evidence := w.steps(t, id)[1].Evidence
		if got, err := w.record.Evidence(t.Context(), evidence.Digest); err != nil || string(got) != want {
			t.Errorf("the evidence is\n%s, want\n%s: %v", got, want, err)
		}
		if evidence.Digest != sha256.Sum256([]byte(want)) || evidence.Source != sha256.Sum256(text) {
			t.Error("the digests are of other bytes")
		}
	})
}

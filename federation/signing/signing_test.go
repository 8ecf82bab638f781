package signing_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

type staticKeys map[federation.DID]ed25519.PublicKey

var errNoDocument = errors.New("no document")

func (k staticKeys) Keys(_ context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	key, ok := k[q.DID]
	if !ok {
		return nil, errNoDocument
	}
	return []ed25519.PublicKey{key}, nil
}

func (k staticKeys) KeyOwner(_ context.Context, id string) (federation.DID, error) {
	for did, key := range k {
		if federation.KeyID(key) == id {
			return did, nil
		}
	}
	return "", federation.ErrNotFound
}

// outage is a key source whose directory is away.
type outage struct{ staticKeys }

func (outage) Keys(context.Context, federation.KeyQuery) ([]ed25519.PublicKey, error) {
	return nil, &federation.UnavailableError{What: "directory", Err: context.DeadlineExceeded}
}

func keyOf(seed []byte) federation.SigningKey {
	private := ed25519.NewKeyFromSeed(seed)
	public, _ := private.Public().(ed25519.PublicKey)
	return federation.SigningKey{Public: public, Sign: func(_ context.Context, message []byte) ([]byte, error) {
		return ed25519.Sign(private, message), nil
	}}
}

func offer() federation.Event {
	id := federation.EventID{1, 2, 3}
	return federation.Event{
		ID: id, Handoff: id, Verb: federation.Offer, From: "did:example:a", Venue: "#ops",
		Dialect: federation.HandoffTags, Fields: map[string]string{"handoff": "offer", "handoff-id": id.String()},
	}
}

func TestVerifyReturnsUnverifiableDuringAnOutage(t *testing.T) {
	ev, err := signing.Seal(t.Context(), keyOf(make([]byte, 32)), offer())
	if err != nil {
		t.Fatal(err)
	}
	_, verdict, err := signing.Verify(t.Context(), outage{}, ev)
	refused, ok := errors.AsType[*federation.RefusalError](err)
	if verdict != federation.Unverifiable || !ok || refused.Code != federation.SignatureUnverifiable {
		t.Errorf("verdict %v, %v; want unverifiable", verdict, err)
	}
	if _, ok := errors.AsType[*federation.UnavailableError](err); !ok {
		t.Errorf("the cause is lost: %v", err)
	}
}

func TestDocumentRefusesInvalidUTF8(t *testing.T) {
	ev := offer()
	ev.Fields["handoff-note"] = "\xff"
	if _, err := signing.Document(ev); err == nil {
		t.Error("a document was made of invalid UTF-8")
	}
}

func TestEnvelopeMatchesOwnVectors(t *testing.T) {
	set := readJSON[struct {
		Seed                 string
		Envelope             json.RawMessage
		Canonical, Signature string
		Refused              []struct{ Name, Text string }
	}](t, filepath.Join("testdata", "envelope.json"))
	canonical, err := signing.Envelope(set.Envelope)
	if err != nil || string(canonical) != set.Canonical {
		t.Fatalf("canonical form %s (%v), want %s", canonical, err, set.Canonical)
	}
	key := keyOf(mustHex(t, set.Seed))
	verdict, err := signing.VerifyEnvelope(set.Envelope, set.Signature, key.Public)
	if verdict != federation.Valid || err != nil {
		t.Errorf("verdict %v, %v; want valid", verdict, err)
	}
	signed, err := signing.SignEnvelope(t.Context(), key, set.Envelope)
	if err != nil {
		t.Fatal(err)
	}
	var sent struct{ Signature string }
	if err := json.Unmarshal(signed, &sent); err != nil || sent.Signature != set.Signature {
		t.Errorf("signature %q (%v), want %q", sent.Signature, err, set.Signature)
	}
	for _, r := range set.Refused {
		t.Run(r.Name, func(t *testing.T) {
			if _, err := signing.Envelope([]byte(r.Text)); err == nil {
				t.Errorf("%s has a canonical form", r.Text)
			}
		})
	}
}

func TestEnvelopeExcludesSeqAndSignature(t *testing.T) {
	bare, err := signing.Envelope([]byte(`{"v":"0.1","body":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	full, err := signing.Envelope([]byte(`{"seq":4,"v":"0.1","body":"x","signature":"abc"}`))
	if err != nil || string(full) != string(bare) {
		t.Errorf("%s (%v), want %s", full, err, bare)
	}
}

// The canonicaliser of another author must agree on every envelope that this one
// takes.
func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(`{"v":"0.1","n":[1,-0,1.5e3,"é\u2028"],"signature":"x"}`))
	f.Add([]byte(`{"😀":1,"\ue000":2,"a":{"b":{}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := signing.Envelope(text)
		if err != nil {
			return
		}
		again := jsontext.Value(got)
		if err := again.Canonicalize(); err != nil || string(again) != string(got) {
			t.Errorf("%s is %s to another canonicaliser (%v)", got, again, err)
		}
	})
}

func BenchmarkVerifyStep(b *testing.B) {
	key := keyOf(make([]byte, 32))
	keys := staticKeys{"did:example:a": key.Public}
	ev, err := signing.Seal(b.Context(), key, offer())
	if err != nil {
		b.Fatal(err)
	}
	raw := rawVerify(b, key.Public, ev)
	for b.Loop() {
		if _, verdict, err := signing.Verify(b.Context(), keys, ev); verdict != federation.Valid {
			b.Fatal(verdict, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(raw), "x_raw_verify")
}

func rawVerify(b *testing.B, public ed25519.PublicKey, ev federation.Event) time.Duration {
	b.Helper()
	const rounds = 2000
	start := time.Now()
	for range rounds {
		if !ed25519.Verify(public, []byte(ev.Signature.Document), ev.Signature.Bytes) {
			b.Fatal("the signature does not verify")
		}
	}
	return time.Since(start) / rounds
}

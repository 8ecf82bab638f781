package signing_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/handofftag"
)

type vectorFile struct {
	Vectors, Negatives []vector
}

type vector struct {
	Name, Seed, DID, KID, Target, Venue, Canonical, Expect string
	Tags                                                   map[string]string
}

func TestHandoffStepMatchesOwnVectors(t *testing.T) {
	runVectors(t, filepath.Join("testdata", "handofftag.json"))
}

// The vectors of an independent program stay outside the project.
func TestHandoffStepMatchesIndependentVectors(t *testing.T) {
	dir := os.Getenv("BATON_VECTORS")
	if dir == "" {
		t.Log("not run: BATON_VECTORS is unset")
		return
	}
	runVectors(t, filepath.Join(dir, "handofftag", "vectors.json"))
}

func runVectors(t *testing.T, file string) {
	t.Helper()
	set := readJSON[vectorFile](t, file)
	if len(set.Vectors) == 0 || len(set.Negatives) == 0 {
		t.Fatalf("%s holds no vectors", file)
	}
	keys := keysOf(t, set.Vectors)
	for _, v := range set.Vectors {
		t.Run(v.Name, func(t *testing.T) { checkVector(t, keys, v) })
	}
	for _, v := range set.Negatives {
		t.Run(v.Name, func(t *testing.T) { checkNegative(t, keys, v) })
	}
}

func checkVector(t *testing.T, keys staticKeys, v vector) {
	t.Helper()
	ev := step(t, v)
	got, verdict, err := signing.Verify(t.Context(), keys, ev)
	if verdict != federation.Valid || err != nil {
		t.Fatalf("verdict %v, %v; want valid", verdict, err)
	}
	if diff := cmp.Diff(v.Canonical, got.Signature.Document); diff != "" {
		t.Errorf("canonical document (-want +got):\n%s", diff)
	}
	if got.Signature.KeyID != v.KID {
		t.Errorf("key id %q, want %q", got.Signature.KeyID, v.KID)
	}
	if ev.Stamped { // only steps with an event id can be sealed to the same bytes
		checkSeal(t, mustHex(t, v.Seed), ev, v)
	}
}

func checkSeal(t *testing.T, seed []byte, ev federation.Event, v vector) {
	t.Helper()
	sealed, err := signing.Seal(t.Context(), keyOf(seed), ev)
	if err != nil {
		t.Fatalf("seal: %v", err)
	}
	if sealed.Signature.Document != v.Canonical {
		t.Errorf("sealed document %s, want %s", sealed.Signature.Document, v.Canonical)
	}
	if text := v.Tags["+freeq.at/sig"]; strings.Count(text, ":") == 2 && sealed.Signature.Text != text {
		t.Errorf("sealed signature %s, want %s", sealed.Signature.Text, text)
	}
}

func checkNegative(t *testing.T, keys staticKeys, v vector) {
	t.Helper()
	_, verdict, err := signing.Verify(t.Context(), keys, step(t, v))
	refused, ok := errors.AsType[*federation.RefusalError](err)
	if !ok {
		t.Fatalf("verdict %v, error %v; want a refusal", verdict, err)
	}
	switch v.Expect {
	case "invalid":
		if verdict != federation.Invalid {
			t.Errorf("verdict %v, want invalid", verdict)
		}
	case "unverifiable":
		if verdict != federation.Unverifiable {
			t.Errorf("verdict %v, want unverifiable", verdict)
		}
	case "refused ACTOR_MISMATCH or invalid":
		if verdict != federation.Invalid || refused.Code != federation.ActorMismatch {
			t.Errorf("verdict %v, code %s; want invalid, actor-mismatch", verdict, refused.Code)
		}
	default:
		if string(refused.Code) != v.Expect {
			t.Errorf("code %s, want %s", refused.Code, v.Expect)
		}
	}
}

// step decodes a vector as a link would. The vectors of private exchanges name
// the venue, which a link makes of the two DIDs.
func step(t *testing.T, v vector) federation.Event {
	t.Helper()
	target := v.Target
	if !strings.HasPrefix(target, "#") {
		target = "#replaced-below"
	}
	ev, err := handofftag.Codec{}.Decode(translate.Tagged{Command: "TAGMSG", Target: target, Tags: v.Tags})
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	if target == v.Target && ev.Venue != v.Venue {
		t.Errorf("venue %q, want %q", ev.Venue, v.Venue)
	}
	ev.Venue = v.Venue
	if ev.From == "" {
		ev.From = federation.DID(v.DID)
	}
	return ev
}

func keysOf(t *testing.T, vectors []vector) staticKeys {
	t.Helper()
	keys := staticKeys{}
	for _, v := range vectors {
		keys[federation.DID(v.DID)] = keyOf(mustHex(t, v.Seed)).Public
	}
	return keys
}

func readJSON[T any](tb testing.TB, file string) T {
	tb.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
	return v
}

func mustHex(tb testing.TB, s string) []byte {
	tb.Helper()
	raw, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

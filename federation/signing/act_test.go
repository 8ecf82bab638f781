package signing_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate"
)

type actFile struct {
	Vectors []struct {
		Name, ID, Target, Seed, KID, Canonical, SigTag string
		Tags                                           map[string]string
	}
	Negatives []struct {
		Name, Vector, ID, Target, Expected, TamperedCanonical, StrippedTag, SigAlgorithm string
		SwappedTag                                                                       *struct{ Name, Value string }
	}
}

// The vectors of the act dialect name events by ids other than ULIDs, so they are compared with the
// canonical form and not with whole events.
func TestActStepMatchesPublishedVectors(t *testing.T) {
	dir := os.Getenv("BATON_VECTORS")
	if dir == "" {
		t.Log("not run: BATON_VECTORS is unset")
		return
	}
	set := readJSON[actFile](t, filepath.Join(dir, "freeq", "act-signing-vectors.json"))
	if len(set.Vectors) == 0 || len(set.Negatives) == 0 {
		t.Fatal("no vectors")
	}
	tags := map[string]map[string]string{}
	signed := map[string]string{}
	keys := map[string]ed25519.PublicKey{}
	for _, v := range set.Vectors {
		key := keyOf(mustHex(t, v.Seed))
		tags[v.Name], signed[v.Name], keys[v.Name] = v.Tags, v.SigTag, key.Public
		t.Run(v.Name, func(t *testing.T) {
			document := actDocument(t, v.Tags, v.Target, v.ID)
			if document != v.Canonical {
				t.Errorf("canonical form %s, want %s", document, v.Canonical)
			}
			sig, err := key.Sign(t.Context(), []byte(document))
			if err != nil {
				t.Fatal(err)
			}
			if got := "ed25519:" + federation.KeyID(key.Public) + ":" + base64.RawURLEncoding.EncodeToString(sig); got != v.SigTag || federation.KeyID(key.Public) != v.KID {
				t.Errorf("signature %s, want %s", got, v.SigTag)
			}
		})
	}
	for _, n := range set.Negatives {
		t.Run(n.Name, func(t *testing.T) {
			changed := maps.Clone(tags[n.Vector])
			delete(changed, n.StrippedTag)
			if n.SwappedTag != nil {
				changed[n.SwappedTag.Name] = n.SwappedTag.Value
			}
			if n.Expected == "unverifiable" {
				unverifiableAct(t, changed, n.Target, n.ID, n.SigAlgorithm)
				return
			}
			document := actDocument(t, changed, n.Target, n.ID)
			if document != n.TamperedCanonical {
				t.Errorf("canonical form %s, want %s", document, n.TamperedCanonical)
			}
			sig, err := signing.DecodeBase64URL(signed[n.Vector][strings.LastIndex(signed[n.Vector], ":")+1:])
			if err != nil || ed25519.Verify(keys[n.Vector], []byte(document), sig) {
				t.Errorf("the signature still verifies (%v)", err)
			}
		})
	}
}

func actDocument(t *testing.T, tags map[string]string, target, id string) string {
	t.Helper()
	own, wrong := translate.OwnTags(tags, federation.ActTags)
	if wrong != "" {
		t.Fatal(wrong)
	}
	if venue, ok := translate.Channel(target); ok {
		target = venue
	}
	document, err := signing.Canonical(translate.Fields(own, federation.ActTags), federation.DID(own["from"]), target, id)
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// unverifiableAct wants no verdict of a step that lacks signer, venue or id, or whose signature has
// another algorithm.
func unverifiableAct(t *testing.T, tags map[string]string, target, id, algorithm string) {
	t.Helper()
	ev := federation.Event{
		Dialect: federation.ActTags, From: federation.DID(tags["+freeq.at/from"]), Venue: target,
		Signature: federation.Signature{Text: "ed25519:k:s"},
	}
	if id != "" && tags["+freeq.at/eventid"] != "" {
		ev.ID, ev.Handoff, ev.Stamped = federation.EventID{1}, federation.EventID{1}, true
	}
	if algorithm != "" {
		ev.Signature.Text = algorithm + ":k:s"
	}
	_, verdict, err := signing.Verify(t.Context(), staticKeys{}, ev)
	if _, refused := errors.AsType[*federation.RefusalError](err); !refused || verdict != federation.Unverifiable {
		t.Errorf("verdict %v, %v; want unverifiable", verdict, err)
	}
}

func TestActStepWithoutEventIDHasNoDocument(t *testing.T) {
	ev := offer()
	ev.Dialect = federation.ActTags
	if _, err := signing.Document(ev); err == nil {
		t.Error("a document was made without the id that it must cover")
	}
}

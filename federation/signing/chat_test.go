package signing_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"baton/federation"
	"baton/federation/signing"
)

// chatFile is the published vectors of chat beside handoffs.
type chatFile struct {
	Vectors []struct {
		Name, Seed, PublicKey, KID, Canonical, SigTag string
		Input                                         chatInput
	}
	Negatives []struct{ Name, Vector, Expected, TamperedCanonical, SigTag string }
}

// chatInput is what a client is about to say.
type chatInput struct {
	Kind, From, Msgid, Target, BodyText, Edit, Reply  string
	Subject, Emoji, EventType, Payload, Ref, Evidence string
	Tags                                              map[string]string
}

func (in chatInput) line() signing.ChatLine {
	return signing.ChatLine{
		Kind: in.Kind, From: federation.DID(in.From), ID: in.Msgid, Target: in.Target,
		Body: in.BodyText, Edit: in.Edit, Reply: in.Reply, Tags: in.Tags, Subject: in.Subject, Emoji: in.Emoji,
		Event: in.EventType, Payload: in.Payload, Ref: in.Ref, Evidence: in.Evidence,
	}
}

func TestPublishedChatVectors(t *testing.T) {
	dir := os.Getenv("BATON_VECTORS")
	if dir == "" {
		t.Log("not run: BATON_VECTORS is unset")
		return
	}
	set := readJSON[chatFile](t, filepath.Join(dir, "freeq", "chat-signing-vectors.json"))
	if len(set.Vectors) == 0 || len(set.Negatives) == 0 {
		t.Fatal("no vectors")
	}
	signed := map[string]schemeVector{}
	for _, v := range set.Vectors {
		signed[v.Name] = schemeVector{Seed: v.Seed, Document: v.Canonical, Signature: v.SigTag}
		t.Run(v.Name, func(t *testing.T) {
			document, err := v.Input.line().Document()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(v.Canonical, string(document)); diff != "" {
				t.Errorf("document (-want +got):\n%s", diff)
			}
			key := keyOf(mustHex(t, v.Seed))
			if got := base64.RawURLEncoding.EncodeToString(key.Public); got != v.PublicKey || federation.KeyID(key.Public) != v.KID {
				t.Errorf("key %s, want %s", got, v.PublicKey)
			}
			if signature, _, err := signing.Chat().Sign(t.Context(), key, document); err != nil || signature != v.SigTag {
				t.Errorf("signature %s (%v), want %s", signature, err, v.SigTag)
			}
		})
	}
	for _, n := range set.Negatives {
		t.Run(n.Name, func(t *testing.T) {
			v := signed[n.Vector]
			message, signature := n.TamperedCanonical, n.SigTag
			if signature == "" {
				signature = v.Signature
			}
			if message == "" {
				message = v.Document
			}
			verdict, err := signing.Chat().Verify([]byte(message), signature, keyOf(mustHex(t, v.Seed)).Public)
			if verdict.String() != n.Expected || err != nil {
				t.Errorf("verdict %v (%v), want %s", verdict, err, n.Expected)
			}
		})
	}
}

func TestALineOfNoKindHasNoDocument(t *testing.T) {
	line := signing.ChatLine{Kind: "pin", From: "did:example:a", ID: "x", Target: "#a"}
	if _, err := line.Document(); err == nil {
		t.Error("a document was made of an unknown kind")
	}
	line.Kind, line.From = signing.ChatMessage, ""
	if _, err := line.Document(); err == nil {
		t.Error("a document was made without a sender")
	}
}

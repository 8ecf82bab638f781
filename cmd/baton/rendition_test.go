//go:build interop

package main_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// original is the evidence behind a step that a gateway vouches for.
type original struct {
	V         int    `json:"v"`
	Network   string `json:"network"`
	Received  string `json:"received"`
	Document  string `json:"document"`
	Signature string `json:"signature"`
	Key       struct {
		Kid       string `json:"kid"`
		PublicKey string `json:"publicKey"`
	} `json:"key"`
}

// fetchOriginal reads the evidence that a step names.
func fetchOriginal(t *testing.T, d dialect, m bridgetest.IRCMessage) original {
	t.Helper()
	status, body := get(t, m.Tags[d.tag("src")])
	sum := sha256.Sum256([]byte(body))
	if got := m.Tags[d.tag("src-h")]; status != http.StatusOK || got != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Errorf("%d, %s is not the hash of %s", status, got, body)
	}
	var o original
	if err := json.Unmarshal([]byte(body), &o); err != nil {
		t.Fatalf("evidence %q: %v", body, err)
	}
	return o
}

// checkVouched checks that a step is signed by the did:key in from for a venue, and
// returns that DID.
func checkVouched(t *testing.T, d dialect, m bridgetest.IRCMessage, venue string) string {
	t.Helper()
	from := d.from(m.Tags)
	public, err := publicKey(from)
	if err != nil {
		t.Fatalf("%s: %v", m.Tags, err)
	}
	if err := d.verify(m.Tags, venue, public); err != nil {
		t.Error(err)
	}
	return from
}

// checkRendition checks that a step is written again for a person in a dialect, and
// that its evidence leads to the document signed by the person.
func checkRendition(t *testing.T, d dialect, m bridgetest.IRCMessage, venue string, who person, s signed) {
	t.Helper()
	if from := checkVouched(t, d, m, venue); from == who.did || m.Tags[d.tag("for")] != who.did {
		t.Errorf("signed by %s for %s, want another for %s", from, m.Tags[d.tag("for")], who.did)
	}
	if got := m.Tags[vendor+"eventid"]; got != s.event {
		t.Errorf("event id %s, want %s", got, s.event)
	}
	o := fetchOriginal(t, d, m)
	want := original{V: 1, Network: "spanningtree", Received: o.Received, Document: s.document, Signature: s.tags[vendor+"sig"]}
	want.Key.Kid, want.Key.PublicKey = keyID(who.public()), base64.RawURLEncoding.EncodeToString(who.public())
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("evidence (-want +got):\n%s", diff)
	}
	signature, err := base64.RawURLEncoding.DecodeString(o.Signature[len("ed25519:")+len(keyID(who.public()))+1:])
	if err != nil || !ed25519.Verify(who.public(), []byte(o.Document), signature) {
		t.Errorf("the evidence does not verify: %v", err)
	}
}

func TestRenditionOfTheOtherDialect(t *testing.T) {
	for _, link := range dialects() {
		t.Run("links in "+string(link), func(t *testing.T) {
			t.Parallel()
			tw := newTwin(t, link)
			for _, d := range dialects() {
				t.Run("an offer of IRC in "+string(d)+" is cancelled", func(t *testing.T) { tw.cancelOtherwise(t, d) })
			}
			t.Run("an offer of AIRC is accepted", func(t *testing.T) { tw.acceptOtherwise(t, link) })
		})
	}
}

// cancelOtherwise lets alice cancel in the dialect that she did not offer in.
func (tw *twin) cancelOtherwise(t *testing.T, d dialect) {
	t.Helper()
	offer := d.offer(tw.key, channel, extras{"to": tw.finn.DID, "title": title})
	send(t, tw.alice, offer.tags)
	seenAsSigned(t, tw.carol, d, "offer", offer)
	cancel := d.other().step(tw.key, channel, "cancel", offer.handoff, nil)
	send(t, tw.alice, cancel.tags)
	m := d.await(t, tw.carol, "cancel", offer.handoff)
	checkRendition(t, d, m, channel, tw.key, cancel)
	if m.Nick != "alice" {
		t.Errorf("it comes from %s, want alice", m.Nick)
	}
	read := about(tw.finn.next(t, "the cancel", isAbout("cancel", offer.handoff)))
	if read.Provenance != "signed" || read.Proof == nil || read.Proof.Scheme != string(d.other()) || read.Proof.Document != cancel.document {
		t.Errorf("the agent reads %+v with proof %+v", read, read.Proof)
	}
	if d == actTags {
		tw.seenConfirmed(t, tw.carol, channel, offer.handoff, cancel.event)
	}
}

// acceptOtherwise lets a user accept in another dialect than the link's, in which the offer
// of an agent was written.
func (tw *twin) acceptOtherwise(t *testing.T, link dialect) {
	t.Helper()
	dora := tw.arrive(t, "dora", link.other())
	tw.leave(t, dora)
	id := tw.request(t, handleOf(dora.did), nil)
	link.await(t, tw.carol, "offer", id)
	dora.IRCClient = tw.net.join(t, "dora", "message-tags")
	accept := link.other().step(dora.person, channel, "accept", id, nil)
	send(t, dora.IRCClient, accept.tags)
	checkRendition(t, link, link.await(t, tw.carol, "accept", id), channel, dora.person, accept)
	if read := about(tw.finn.next(t, "the accept", isAbout("accept", id))); read.State != "assigned" || read.Assignee != dora.did || read.Provenance != "signed" {
		t.Errorf("the agent reads %+v", read)
	}
}

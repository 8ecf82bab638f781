package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate/dialect"
)

func readText(document, signature string) (federation.Text, error) {
	return signing.ReadText(document, signature, identity.ParseKeyDID)
}

func (g *gate) Say(_ context.Context, t federation.Text) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.unaware {
		return false, t.Refuse(federation.UnknownVerb, "")
	}
	if g.deaf {
		return false, t.Refuse(federation.PolicyDenied, "the recipient does not accept messages from you")
	}
	known := slices.ContainsFunc(g.said, func(each federation.Text) bool { return each.ID == t.ID })
	if !known {
		g.said = append(g.said, t)
	}
	return known, nil
}

// text returns private text of one person to another, as the home of the first one keeps it.
func text(t *testing.T, n int, from, to, body string) federation.Text {
	t.Helper()
	key := keyOf("kept for " + from)
	sealed, err := signing.SealText(t.Context(), key, federation.Text{
		ID: federationtest.ID(n), From: key.DID, Author: keyOf(from).DID, To: keyOf(to).DID, Body: body, About: federationtest.ID(99),
		Order: federation.Conversation(keyOf(from).DID, keyOf(to).DID), Venue: federation.PrivateVenue(keyOf(from).DID, keyOf(to).DID),
		Arrival:  federation.Arrival{Network: "rest", Link: "rest", Name: from, Received: time.Now()},
		Evidence: &federation.Evidence{URL: "https://a.test/evidence/1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestDeliverTextReachesTheHomeOnce(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	a.run(b)
	a.lose = 1 // the answer; the text arrives
	sent := text(t, 1, "alice", "bob", "hello\n\"bob\"")
	if err := a.peers["b.test"].DeliverText(t.Context(), sent); !errors.As(err, new(*federation.UnavailableError)) {
		t.Fatalf("a lost answer: %v", err)
	}
	for range 2 { // as from an outbox, until there is a receipt
		await(t, func() bool { return a.peers["b.test"].DeliverText(t.Context(), sent) == nil })
	}
	if len(b.said) != 1 {
		t.Fatalf("b.test has the text %d times", len(b.said))
	}
	got, want := b.said[0], sent
	if got.Body != want.Body || got.Author != want.Author || got.To != want.To || got.About != want.About || got.Order != want.Order ||
		got.Signature.Document != want.Signature.Document || got.Arrival.Name != "alice" || got.Arrival.Home != "a.test" || got.Arrival.Link != "a.test" {
		t.Errorf("b.test has %+v, want %+v", got, want)
	}
}

func TestDeliverTextReturnsTheRefusal(t *testing.T) {
	all := newGates(t, "a.test", "b.test", "c.test")
	a, b := all[0], all[1]
	a.run(b)
	forged := text(t, 3, "alice", "bob", "hello")
	forged.Signature.Text = text(t, 3, "alice", "bob", "other").Signature.Text
	for _, tt := range []struct {
		name string
		text federation.Text
		deaf bool
		want federation.RefusalCode
	}{
		{"a block", text(t, 1, "alice", "bob", "hello"), true, federation.PolicyDenied},
		{"the author is of another home", text(t, 2, "carol", "bob", "hello"), false, federation.WrongSender},
		{"the signature is of another text", forged, false, federation.SignatureInvalid},
	} {
		b.mu.Lock()
		b.deaf = tt.deaf
		b.mu.Unlock()
		err := a.peers["b.test"].DeliverText(t.Context(), tt.text)
		if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || refused.Code != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
	if len(b.said) != 0 {
		t.Errorf("b.test filed %v", b.said)
	}
}

func TestDeliverTextToAnOlderHomeIsRefused(t *testing.T) {
	all := newGates(t, "a.test", "b.test")
	a, b := all[0], all[1]
	a.run(b)
	if err := a.peers["b.test"].DeliverText(t.Context(), text(t, 1, "alice", "bob", "hello")); err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Items []struct{ Step struct{ Document string } }
	}
	if err := json.Unmarshal(a.last, &sent); err != nil || len(sent.Items) != 1 {
		t.Fatalf("%s: %v", a.last, err)
	}
	// What such a home makes of the document: a final refusal, and not a wait.
	_, err := dialect.FromDocument(sent.Items[0].Step.Document)
	if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || refused.Code != federation.UnknownVerb {
		t.Errorf("the document of text is read as a step: %v", err)
	}
	b.mu.Lock()
	b.unaware = true
	b.mu.Unlock()
	err = a.peers["b.test"].DeliverText(t.Context(), text(t, 2, "alice", "bob", "hello"))
	if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || refused.Code != federation.UnknownVerb || !strings.Contains(refused.Detail, "not supported") {
		t.Errorf("the sender is told %v", err)
	}
}

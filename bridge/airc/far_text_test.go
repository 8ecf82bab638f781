package airc_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/airc/peers"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// newFarText returns a registry that knows an agent of another one, and its DID.
func newFarText(t *testing.T, mode string) (*world, federation.DID) {
	t.Helper()
	w := newWorld(t, func(c *airc.Config, d *airc.Deps) { c.Federation, d.Fetch = mode, newInternet().client() })
	amy := kept("amy_1@b.test")
	err := w.record.AddAgent(t.Context(), agents.Agent{Handle: "amy_1@b.test", DID: amy.DID, OwnDID: amy.DID, KeptKey: amy.Public, Registered: federationtest.At(1)})
	if err != nil {
		t.Fatal(err)
	}
	return w, amy.DID
}

// write returns the effects of a text to a DID.
func (w *world) write(t *testing.T, to federation.DID, text string) ([]federation.Effect, error) {
	t.Helper()
	effects, _, err := w.link.TextEffects(t.Context(), federation.Text{
		ID: federationtest.ID(1), From: kept("person").DID, Author: "did:web:zoe.example", To: to, Body: text,
		Order: federation.Conversation("did:web:zoe.example", to), Evidence: &federation.Evidence{URL: "https://gw.example/evidence/1"},
	})
	return effects, err
}

func TestFarTextIsQueuedForItsRegistry(t *testing.T) {
	w, amy := newFarText(t, peers.FederationOpen)
	effects, err := w.write(t, amy, strings.Repeat("ü", 2048)) // which the registry of amy asks consent for
	if err != nil || len(effects) != 1 {
		t.Fatalf("%v, %v", effects, err)
	}
	p, ok := effects[0].(agents.Posting)
	if !ok || p.Held || p.Handshake != nil || p.Relay == nil || p.Relay.Peer != "b.test" || p.Message.Event != federationtest.ID(1) {
		t.Errorf("filed is %+v", effects[0])
	}
	if doc := string(p.Relay.Document); !strings.Contains(doc, strings.Repeat("ü", 2048)) || !strings.Contains(doc, wire.Handle("did:web:zoe.example")+"@") {
		t.Errorf("relayed is %s", doc)
	}
}

func TestFarTextIsRefusedForAnUnsupportedRegistry(t *testing.T) {
	for _, tt := range []struct {
		mode, text string
		want       federation.RefusalCode
	}{
		{peers.FederationOpen, strings.Repeat("x", 4001), federation.InvalidTag},
		{peers.FederationOff, "hello", federation.PolicyDenied},
	} {
		w, amy := newFarText(t, tt.mode)
		_, err := w.write(t, amy, tt.text)
		if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || refused.Code != tt.want {
			t.Errorf("%d bytes with federation %s: %v, want %s", len(tt.text), tt.mode, err, tt.want)
		}
	}
}

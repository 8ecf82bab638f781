package server_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

type peerLink struct{ bridge.Link }

func (peerLink) Name() string    { return "airc" }
func (peerLink) Network() string { return "airc" }

func (peerLink) Run(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return ctx.Err()
}

func (peerLink) Peers() []bridge.Peer {
	return []bridge.Peer{{Name: "a.example", URL: "https://a.example", Mode: "allow"}}
}

func (peerLink) CheckPeer(name string) error {
	if name == "a" {
		return errors.New("a domain")
	}
	return nil
}

func (peerLink) Backlogs(context.Context) ([]federation.PeerBacklog, error) { return nil, nil }

func TestPeerModeOfTheOperatorTakesPrecedence(t *testing.T) {
	record := storetest.Open(t)
	modes := server.NewPeerModes(record)
	for name, mode := range map[string]string{"a.example": "hold", "b.example": "block", "home.example": "limit"} {
		if err := modes.SetPeerMode(t.Context(), federation.PeerMode{Domain: name, Mode: mode}); err != nil {
			t.Fatal(err)
		}
	}
	if got := modes.Mode("a.example"); got != "" {
		t.Errorf("the mode is %q before it was read", got)
	}
	if err := modes.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	links := newLinkSet(t, nil)
	links.Apply(t.Context(), []server.Entry{{Link: peerLink{}}})
	defer links.Stop()
	want := []server.LinkPeer{
		{Peer: bridge.Peer{Name: "a.example", URL: "https://a.example", Mode: "hold"}, Network: "airc", Set: true},
		{Peer: bridge.Peer{Name: "b.example", URL: "https://b.example", Mode: "block"}, Network: "airc", Set: true},
	}
	got := modes.LinkPeers(links, func(name string) bool { return name == "home.example" })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("peers (-want +got):\n%s", diff)
	}
	if err := links.CheckPeer("a"); err == nil {
		t.Error("a name that no link accepts is accepted")
	}
	if err := links.CheckPeer("c.example"); err != nil {
		t.Error(err)
	}
}

package client_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc/client"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

func TestMessageToANickIsForItsHolder(t *testing.T) {
	t.Parallel()
	kept := relayed{lines: make(chan string, 8)}
	h := start(t, testConfig(), func(d *client.Deps) { d.Messages = kept })
	guest, place := kept.Guest("client", "bob"), federation.ChannelRef{Link: "client", Venue: "bob"}
	if holder, here := h.link.Here(t.Context(), bridge.Recipient{DID: guest, Place: place}); here || holder != "" {
		t.Fatalf("bob is here as %q before he connects", holder)
	}
	first, second := dial(t, h.addr), dial(t, h.addr)
	first.register(t, "bob", "")
	holder, here := h.link.Here(t.Context(), bridge.Recipient{DID: guest, Place: place})
	if !here || holder == "" {
		t.Fatalf("bob is here: %v, as %q", here, holder)
	}
	text := func(n int, body string) federation.Text {
		return federation.Text{
			ID: federationtest.ID(n), Author: ada, To: guest, Body: body, Fields: map[string]string{federation.Holder: holder},
			Arrival: federation.Arrival{Network: "rest", Link: "rest", Place: place, Received: time.Now()},
		}
	}
	first.say(t, "NICK robert")
	first.until(t, "*NICK*robert")
	second.register(t, "bob", "")
	delivered := make(chan error, 1)
	go func() { delivered <- h.link.DeliverText(t.Context(), text(1, "for the first")) }()
	first.until(t, "*PRIVMSG robert :for the first")
	_, token, _ := strings.Cut(first.until(t, "PING *"), " ")
	first.say(t, "PONG "+token)
	if err := <-delivered; err != nil {
		t.Fatal(err)
	}
	first.say(t, "QUIT")
	first.until(t, "ERROR *")
	err := h.link.DeliverText(t.Context(), text(2, "too late"))
	if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || refused.Code != federation.InvalidTarget {
		t.Errorf("a message to a client that left: %v, want a refusal", err)
	}
	second.say(t, "PING done")
	if line := second.hear(t); !strings.HasSuffix(line, "PONG gw.example :done") {
		t.Errorf("the other client reads %q", line)
	}
}

// A client that leaves before it answers the PING may not have read the notice.
func TestNoticeNeedsThePong(t *testing.T) {
	t.Parallel()
	kept := relayed{lines: make(chan string, 8)}
	h := start(t, testConfig(), func(d *client.Deps) { d.Messages = kept })
	p := dial(t, h.addr)
	p.register(t, "bob", "")
	notice := federation.Notice{Kind: federation.NoticeDelayed, To: "lab", Text: &federation.Text{
		ID: federationtest.ID(1), Author: kept.Guest("client", "bob"), To: ada, Body: "hello", Arrival: federation.Arrival{Link: "client", Name: "bob"},
	}}
	told := make(chan error, 1)
	tell := func() (ping string) {
		go func() { told <- h.link.Notify(t.Context(), notice) }()
		p.until(t, "*NOTICE bob :DELAYED *")
		return p.until(t, "PING *")
	}
	_, token, _ := strings.Cut(tell(), " ")
	select {
	case err := <-told:
		t.Fatalf("told without proof: %v", err)
	default:
	}
	p.say(t, "PONG "+token)
	if err := <-told; err != nil {
		t.Fatal(err)
	}
	tell()
	p.say(t, "QUIT")
	if _, later := errors.AsType[*federation.UnavailableError](<-told); !later {
		t.Error("a client that left is not told as a not-now")
	}
}

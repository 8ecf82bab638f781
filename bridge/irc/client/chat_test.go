package client_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc/client"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/signing"
)

// relayed is a [bridge.Messages] that keeps the lines of channels.
type relayed struct {
	bridge.Messages

	lines chan string
}

func (relayed) Guest(link, nick string) federation.DID { return federation.DID(link + " " + nick) }

func (r relayed) Relay(_ context.Context, t federation.Text, _ signing.Original) error {
	r.lines <- fmt.Sprintf("%s %s: %s", t.Venue, t.Arrival.Name, t.Body)
	return nil
}

func TestEchoFollowsTheFiledLine(t *testing.T) {
	t.Parallel()
	kept := relayed{lines: make(chan string, 8)}
	cfg := testConfig()
	cfg.RelayChat = []string{"#Ops"}
	h := start(t, cfg, func(d *client.Deps) { d.Messages = kept })
	p := dial(t, h.addr)
	p.register(t, "alice", "message-tags echo-message labeled-response batch")
	p.say(t, "JOIN #ops,#room", "@label=a PRIVMSG #OPS,#room :hello", "TAGMSG #ops", "PRIVMSG #ops :bye")
	p.until(t, "*PRIVMSG #ops :hello")
	if diff := cmp.Diff("#ops alice: hello", <-kept.lines); diff != "" {
		t.Error(diff)
	}
	p.until(t, "*PRIVMSG #ops :bye")
	if diff := cmp.Diff("#ops alice: bye", <-kept.lines); diff != "" {
		t.Error(diff)
	}
	if len(kept.lines) > 0 {
		t.Errorf("relayed too: %s", <-kept.lines)
	}
}

func TestStepWithTextInARelayedChannelKeepsItsText(t *testing.T) {
	t.Parallel()
	kept := relayed{lines: make(chan string, 8)}
	cfg := testConfig()
	cfg.RelayChat = []string{"#ops"}
	h := start(t, cfg, func(d *client.Deps) { d.Messages = kept })
	p := dial(t, h.addr)
	p.login(t)
	id := federationtest.ID(1).String()
	p.say(t, "JOIN #ops", fmt.Sprintf("@+freeq.at/handoff=offer;+freeq.at/handoff-id=%s;+freeq.at/eventid=%s;+freeq.at/handoff-from=%s;+freeq.at/handoff-task=x;"+
		"+freeq.at/sig=ed25519:kid:AAAA PRIVMSG #ops :take it", id, id, ada), "PRIVMSG #ops :after it")
	if diff := cmp.Diff("#ops ada: after it", <-kept.lines); diff != "" {
		t.Error(diff)
	}
	h.gateway.mu.Lock()
	defer h.gateway.mu.Unlock()
	if len(h.gateway.events) != 1 || h.gateway.events[0].Verb != federation.Offer {
		t.Errorf("submitted: %+v", h.gateway.events)
	}
}

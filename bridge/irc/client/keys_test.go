package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// loginAs logs a client in as ada under a nick, and brings it into the channel.
func (p *peer) loginAs(t *testing.T, nick string) {
	t.Helper()
	p.say(t, "CAP REQ :message-tags echo-message", "AUTHENTICATE ATPROTO-CHALLENGE")
	p.until(t, "AUTHENTICATE *")
	p.say(t, answerTo(string(ada), "signed by "+string(ada)))
	p.until(t, "* 903 *")
	p.say(t, "NICK "+nick, "USER ada 0 * :ada", "CAP END", "JOIN #ops")
	p.until(t, "* 366 *")
}

// offer has a client offer something in the channel.
func (p *peer) offer(t *testing.T, n int) {
	t.Helper()
	id := federationtest.ID(n).String()
	p.say(t, fmt.Sprintf("@+freeq.at/handoff=offer;+freeq.at/handoff-id=%s;+freeq.at/eventid=%s;+freeq.at/handoff-from=%s;+freeq.at/handoff-task=x;"+
		"+freeq.at/sig=ed25519:kid:AAAA TAGMSG #ops", id, id, ada))
}

func TestJudgeDelaysNoClientBehindSlowKeys(t *testing.T) {
	t.Parallel()
	const slow = 70
	h := open(t, testConfig())
	begun, release := make(chan struct{}, slow), make(chan struct{})
	h.gateway.fetch = func(ctx context.Context, ev federation.Event) {
		if strings.HasPrefix(ev.Arrival.Name, "slow") {
			begun <- struct{}{}
			<-release
		}
	}
	h.run(t)
	for i := range slow {
		p := dial(t, h.addr)
		p.loginAs(t, fmt.Sprintf("slow%d", i))
		p.offer(t, i+1)
		<-begun
	}
	quick := dial(t, h.addr)
	quick.loginAs(t, "quick")
	quick.offer(t, slow+1)
	quick.until(t, "*:quick!* TAGMSG #ops") // the echo of the filed step
	close(release)
}

package client_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/client"
	"github.com/baton-gateway/baton/federation"
)

// A proof is judged again when sessions of its DID end: the one verdict that ends the login is invalid.
func TestLoginEndsOnceItsProofIsInvalid(t *testing.T) {
	t.Parallel()
	var verdict atomic.Value
	judged := make(chan struct{}, 1)
	verdict.Store(federation.Valid)
	wakes := &bridgetest.Topics{}
	h := start(t, testConfig(), func(d *client.Deps) {
		d.PubSub = wakes
		d.Keys = bridgetest.Keys{Prove: func(_ context.Context, did federation.DID, _, _ []byte) (federation.PublicKey, federation.Verdict, error) {
			now, _ := verdict.Load().(federation.Verdict)
			if did != ada || now == federation.Valid {
				return federation.PublicKey{}, federation.Valid, nil
			}
			judged <- struct{}{}
			return federation.PublicKey{}, now, errors.New("of this test")
		}}
	})
	p, other := dial(t, h.addr), dial(t, h.addr)
	p.loginAs(t, "ada")
	other.say(t, "AUTHENTICATE ATPROTO-CHALLENGE")
	other.until(t, "AUTHENTICATE *")
	other.say(t, answerTo(string(bob), "signed by "+string(bob)))
	other.until(t, "* 903 *")
	other.say(t, "NICK bob", "USER bob 0 * :bob", "JOIN #ops")
	other.until(t, "* 366 *")
	topic := bridge.SessionsTopic(string(ada))
	for wakes.WaitingFor(topic) == 0 {
		p.say(t, "PING x")
		p.until(t, "*PONG*")
	}
	verdict.Store(federation.Unverifiable)
	wakes.Wake(topic)
	<-judged
	p.say(t, "PING away")
	p.until(t, "*PONG gw.example :away")
	verdict.Store(federation.Invalid)
	wakes.Wake(topic)
	<-judged
	p.until(t, "ERROR :Closing link: The key or password of your login is not valid any more")
	other.until(t, "*:ada!* QUIT *")
	other.say(t, "PING stays")
	other.until(t, "*PONG gw.example :stays")
	for wakes.WaitingFor(topic) > 0 {
		other.say(t, "PING x")
		other.until(t, "*PONG*")
	}
}

package server_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

// slowKeys is a source of keys that answers once it is released. It counts the questions that wait.
type slowKeys struct {
	federation.KeySource

	waiting atomic.Int64
	release chan struct{}
}

func (k *slowKeys) Keys(context.Context, federation.KeyQuery) ([]ed25519.PublicKey, error) {
	k.waiting.Add(1)
	defer k.waiting.Add(-1)
	<-k.release
	return nil, &federation.UnavailableError{What: "the host of the key"}
}

// unverified returns a step that came by a link, whose key no source has.
func unverified(link string) federation.Event {
	ev := federation.Event{
		From: "did:web:away.test", Kind: federation.Handoff, Verb: federation.Offer, Handoff: federationtest.ID(1), Venue: "#ops", Arrival: federation.Arrival{Link: link},
	}
	ev.Signature.Text = "ed25519:" + base64.RawURLEncoding.EncodeToString(make([]byte, ed25519.SignatureSize))
	return ev
}

func TestSubmitBoundsConcurrentStepsPerLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, steps = 64, 100
		keys := &slowKeys{release: make(chan struct{})}
		g := newGateway(storetest.Open(t), func(_ *server.Deps, h *home.Home) { h.Keys = keys })
		ctx, end := context.WithCancel(t.Context())
		g.Links().Apply(ctx, []server.Entry{{Link: &fakeLink{name: "lab"}}, {Link: &fakeLink{name: "other"}}})
		submit := func(ctx context.Context, link string) error {
			_, err := g.Submit(ctx, unverified(link))
			return err
		}
		for range steps {
			go func() { _ = submit(ctx, "lab") }()
		}
		synctest.Wait()
		if n := keys.waiting.Load(); n != bound {
			t.Errorf("%d steps are judged at a time, want %d", n, bound)
		}
		go func() { _ = submit(ctx, "other") }()
		synctest.Wait()
		if n := keys.waiting.Load(); n != bound+1 {
			t.Errorf("%d steps are judged, want that of another link too", n)
		}
		late, stop := context.WithCancel(ctx)
		stop()
		if err := submit(late, "lab"); !errors.Is(err, context.Canceled) {
			t.Errorf("a step whose caller left: %v", err)
		}
		close(keys.release)
		synctest.Wait()
		if n := keys.waiting.Load(); n != 0 {
			t.Errorf("%d steps are still judged", n)
		}
		end()
		g.Links().Stop()
	})
}

type brokenKeys struct{ federation.KeySource }

func (brokenKeys) Keys(context.Context, federation.KeyQuery) ([]ed25519.PublicKey, error) {
	panic("a fault")
}

// Links contain the panics of their steps: a turn that such a step kept would be lost for good.
func TestSubmitEndsTheTurnAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 64
		g := newGateway(storetest.Open(t), func(_ *server.Deps, h *home.Home) { h.Keys = brokenKeys{} })
		ctx, end := context.WithCancel(t.Context())
		g.Links().Apply(ctx, []server.Entry{{Link: &fakeLink{name: "lab"}}})
		for range bound + 1 {
			late, stop := context.WithTimeout(ctx, time.Minute)
			err := fault.Catch(func() error { _, err := g.Submit(late, unverified("lab")); return err })
			if stop(); errors.Is(err, context.DeadlineExceeded) || err == nil {
				t.Fatalf("a step waits for its turn in vain: %v", err)
			}
		}
		end()
		g.Links().Stop()
	})
}

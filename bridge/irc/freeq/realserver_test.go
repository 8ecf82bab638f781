//go:build interop && long

package freeq_test

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// newRealServer starts the freeq-server whose binary FREEQ_SERVER names; it returns nil if
// that is unset.
func newRealServer(t *testing.T, peer, peerAPI string) *bridgetest.FreeqServer {
	t.Helper()
	binary := os.Getenv("FREEQ_SERVER")
	if binary == "" {
		t.Log("not run: FREEQ_SERVER is unset")
		return nil
	}
	r, err := bridgetest.NewFreeqServer(t.Context(), binary, t.TempDir(), theirs, seeded("real endpoint"), federationtest.FreeAddr(t), federationtest.FreeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	r.Admit(peer, peerAPI)
	t.Cleanup(func() {
		r.Stop()
		if t.Failed() {
			t.Logf("the server wrote: %s", r.Log())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return r
}

// A real server files each offer that counts as delivered, also of a burst above its limit.
func TestRealServerFilesDeliveredSteps(t *testing.T) {
	_, scout := person("scout")
	var keys house
	keys.keys.Store(federation.KeyID(public(scout)), public(scout))
	api := httptest.NewServer(http.HandlerFunc(keys.serveKey))
	t.Cleanup(api.Close)
	server := newRealServer(t, hexOf("our endpoint"), api.URL)
	if server == nil {
		return
	}
	h := newHouse(t, func(cfg *freeq.Config, deps *freeq.Deps) {
		cfg.Transport, cfg.Address, cfg.EndpointID, cfg.PeerAPI = freeq.Exec, server.Address, server.ID, server.API
		deps.Seed = hex.EncodeToString(seeded("our endpoint").Seed())
	})
	h.run(t)
	offers := make(chan federation.Delivery, 500)
	for range cap(offers) {
		offers <- h.offered(t, channel)
	}
	close(offers)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	start := time.Now()
	var running sync.WaitGroup
	for range 64 {
		running.Go(func() {
			for d := range offers {
				for h.link.Deliver(ctx, d) != nil && ctx.Err() == nil {
					d.Attempt++
				}
				if got, _ := server.Get(ctx, "/api/v1/verify/"+d.View.ID.String(), ""); got != http.StatusOK {
					t.Errorf("%s counts as delivered, and the server answers %d", d.View.ID, got)
				}
			}
		})
	}
	running.Wait()
	t.Logf("500 offers in %s", time.Since(start).Round(time.Millisecond))
}

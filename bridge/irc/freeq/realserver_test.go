//go:build interop && long

package freeq_test

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"baton/bridge/irc/freeq"
	"baton/federation"
	"baton/federation/federationtest"
)

// realServer is a freeq-server whose binary FREEQ_SERVER names.
type realServer struct {
	id, api, at string
}

// newRealServer starts the server; it returns nil where FREEQ_SERVER is unset.
func newRealServer(t *testing.T, peer, peerAPI string) *realServer {
	t.Helper()
	binary := os.Getenv("FREEQ_SERVER")
	if binary == "" {
		t.Log("not run: FREEQ_SERVER is unset")
		return nil
	}
	if info, err := os.Stat(binary); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		t.Fatalf("FREEQ_SERVER=%s is no program (%v)", binary, err)
	}
	dir, key := t.TempDir(), seeded("real endpoint")
	if err := os.WriteFile(filepath.Join(dir, "iroh-key.secret"), []byte(hex.EncodeToString(key.Seed())), 0o600); err != nil {
		t.Fatal(err)
	}
	web := federationtest.FreeAddr(t)
	r := &realServer{id: hex.EncodeToString(public(key)), api: "http://" + web, at: udpAddr(t)}
	_, port, _ := strings.Cut(r.at, ":")
	command := exec.CommandContext(t.Context(), binary, "--iroh", "--iroh-port", port, "--web-addr", web, "--db-path", filepath.Join(dir, "db"),
		"--data-dir", dir, "--listen-addr", federationtest.FreeAddr(t), "--server-name", theirs, "--s2s-allowed-peers", peer, "--s2s-peer-api", peer+"="+peerAPI)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr, command.Dir = log, log, dir
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // killed
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("the server wrote: %s", text[max(0, len(text)-4000):])
		}
	})
	r.answers(t)
	return r
}

// answers waits until the web API answers.
func (r *realServer) answers(t *testing.T) {
	t.Helper()
	for late := time.After(time.Minute); ; {
		if r.status(t.Context(), "/api/v1/health") == http.StatusOK {
			return
		}
		select {
		case <-late:
			t.Fatal("the server does not answer")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// status returns how the web API answers a path, 0 for no answer.
func (r *realServer) status(ctx context.Context, path string) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.api+path, nil)
	if err != nil {
		return 0
	}
	defer http.DefaultClient.CloseIdleConnections()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// A real server files each offer that counts as delivered, also of a burst above its limit.
func TestARealServerFilesWhatCountsAsDelivered(t *testing.T) {
	_, scout := person("scout")
	keys := &house{keys: map[string]ed25519.PublicKey{federation.KeyID(public(scout)): public(scout)}}
	api := httptest.NewServer(http.HandlerFunc(keys.serveKey))
	t.Cleanup(api.Close)
	server := newRealServer(t, hexOf("our endpoint"), api.URL)
	if server == nil {
		return
	}
	h := newHouse(t, func(cfg *freeq.Config, deps *freeq.Deps) {
		cfg.Transport, cfg.Address, cfg.EndpointID, cfg.PeerAPI = freeq.Exec, server.at, server.id, server.api
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
				if got := server.status(ctx, "/api/v1/verify/"+d.View.ID.String()); got != http.StatusOK {
					t.Errorf("%s counts as delivered, and the server answers %d", d.View.ID, got)
				}
			}
		})
	}
	running.Wait()
	t.Logf("500 offers in %s", time.Since(start).Round(time.Millisecond))
}

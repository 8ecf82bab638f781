//go:build long

package macp_test

import (
	"context"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// TestRealRuntimeGuest plays against the runtime of the authors of the protocol, which
// .ci/run installs.
func TestRealRuntimeGuest(t *testing.T) {
	t.Parallel()
	takesPart(t, realRuntime(t), token)
}

// TestRealRuntimeTaskCarriesTheWork plays tasks on that runtime.
func TestRealRuntimeTaskCarriesTheWork(t *testing.T) {
	t.Parallel()
	playTasks(t, realRuntime)
}

// realRuntime runs the runtime and returns its address. The participants are bob, and baton, which
// may use only the given modes; none for all.
func realRuntime(t *testing.T, modes ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	address := federationtest.FreeAddr(t)
	runtime, err := bridgetest.RunMACPRuntime(ctx, address, t.TempDir(),
		bridgetest.MACPToken{Token: token("bob"), Sender: "bob", Starts: true},
		bridgetest.MACPToken{Token: token("baton"), Sender: "baton", Modes: modes, Starts: true})
	if err != nil {
		t.Fatalf("%v: run .ci/run install full", err)
	}
	t.Cleanup(runtime.Stop)
	return address
}

//go:build interop

package main_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/relay"
)

// The files in deploy run unchanged, except for ports.
func TestDeployTopologiesRun(t *testing.T) {
	for name, variable := range map[string]struct {
		name  string
		ports int
	}{"laptop": {"PORT", 1}, "hub": {"PORTS", 6}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ports []string
			for range variable.ports {
				ports = append(ports, strconv.Itoa(federationtest.FreePortPair(t, relay.RouteOffset)))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, filepath.Join("..", "..", "deploy", name, "smoke"))
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s", variable.name, strings.Join(ports, " ")), "TMPDIR="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "ok: ") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

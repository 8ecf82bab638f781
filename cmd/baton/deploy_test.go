package main_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What stands in deploy runs as it stands, but for its ports.
func TestTheTopologiesInDeployRun(t *testing.T) {
	for name, variable := range map[string]struct {
		name  string
		ports int
	}{"laptop": {"PORT", 1}, "hub": {"PORTS", 4}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ports []string
			for range variable.ports {
				_, port, err := net.SplitHostPort(freeAddr(t))
				if err != nil {
					t.Fatal(err)
				}
				ports = append(ports, port)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, filepath.Join("..", "..", "deploy", name, "smoke"))
			cmd.Env = append(os.Environ(), quickExit, fmt.Sprintf("%s=%s", variable.name, strings.Join(ports, " ")), "TMPDIR="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "ok: ") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

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

	"github.com/nats-io/nats-server/v2/server"

	"baton/federation/federationtest"
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
				_, port, err := net.SplitHostPort(federationtest.FreeAddr(t))
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

func TestTheServersOfTheClusterReadTheirFile(t *testing.T) {
	t.Setenv("NODE", "nats-2")
	got, err := server.ProcessConfigFile(filepath.Join("..", "..", "deploy", "cluster", "nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if got.ServerName != "nats-2" || got.Port != 4222 || got.Cluster.Name != "home" || len(got.Routes) != 3 || !got.JetStream || got.StoreDir != "/data" || !got.SyncAlways {
		t.Errorf("they read %+v", got)
	}
}

package main_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
	}{"laptop": {"PORT", 1}, "hub": {"PORTS", 6}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ports []string
			for range variable.ports {
				ports = append(ports, strconv.Itoa(freePort(t)))
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

// freePort returns a free port, for which the port 2000 above it is free too: the servers of a
// hub reach each other there.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		_, text, err := net.SplitHostPort(federationtest.FreeAddr(t))
		if err != nil {
			t.Fatal(err)
		}
		port, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+2000))) //nolint:noctx // it ends at once
		if err == nil {
			_ = listener.Close()
			return port
		}
	}
	t.Fatal("no two ports are free")
	return 0
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

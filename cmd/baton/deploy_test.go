package main_test

import (
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

func TestDeployClusterServersReadTheirFile(t *testing.T) {
	t.Setenv("NODE", "nats-2")
	got, err := server.ProcessConfigFile(filepath.Join("..", "..", "deploy", "cluster", "nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if got.ServerName != "nats-2" || got.Port != 4222 || got.Cluster.Name != "home" || len(got.Routes) != 3 || !got.JetStream || got.StoreDir != "/data" || !got.SyncAlways {
		t.Errorf("they read %+v", got)
	}
}

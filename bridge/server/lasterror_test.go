package server_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/configs"
)

func TestLastErrorKeepsTheErrorThatEndedTheGateway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, keepLastError)
}

func keepLastError(t *testing.T) {
	file := &configs.File{}
	file.Home.DataDir = t.TempDir()
	last := server.NewLastError(file)
	if got := last.Read(); got != "" {
		t.Errorf("before an error, it is %q", got)
	}
	write := func(line string) {
		if n, err := last.Write([]byte(line + "\n")); n != len(line)+1 || err != nil {
			t.Errorf("Write: %d, %v", n, err)
		}
	}
	write("one")
	write("two") // within a second
	if got := last.Read(); got != "one" {
		t.Errorf("it is %q, want the first line of a second", got)
	}
	last.Set("the disk is full", time.Date(2026, 11, 29, 4, 0, 0, 0, time.UTC))
	time.Sleep(2 * time.Second) // another line could be written
	write("three")
	if got := last.Read(); !strings.HasSuffix(got, " the disk is full") {
		t.Errorf("it is %q, want the error that ended the gateway", got)
	}
}

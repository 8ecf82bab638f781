//go:build interop

package main_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// The comparison in deploy/bench runs, and Baton loses nothing that it can read while it or a
// server is killed.
func TestRivalsComparisonLosesNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "deploy", "bench", "compare"), "--quick", "--json", "--only", "baton,link")
	cmd.Env = append(os.Environ(), quickExit, "TMPDIR="+t.TempDir())
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it ends its servers then
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var got struct {
		Results []struct {
			Way        string `json:"way"`
			Kind       string `json:"kind"`
			Killed     string `json:"killed"`
			Sent       int    `json:"sent"`
			Unread     int    `json:"unread"`
			Lost       int    `json:"lost"`
			ReadLost   int    `json:"read_and_lost"`
			OutOfOrder int    `json:"out_of_order"`
		} `json:"results"`
		NotRun []any `json:"not_run"`
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	cases := map[string]int{}
	for _, r := range got.Results {
		cases[r.Way]++
		switch {
		case r.ReadLost > 0, r.Kind == "lines" && r.OutOfOrder > 0, r.Killed != "bridge" && r.Unread > 0, r.Unread == r.Sent:
			t.Errorf("it measures %+v", r)
		}
	}
	if cases["baton"] != 3 || cases["link"] != 1 || len(got.NotRun) > 0 {
		t.Errorf("it measures %v, and not %v", cases, got.NotRun)
	}
}

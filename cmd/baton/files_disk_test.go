//go:build long

package main_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asRoot runs a command as root.
func asRoot(t *testing.T, args ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		args = append([]string{"sudo", "-n"}, args...)
	}
	if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s%v", args, out, err)
	}
}

// smallDisk mounts a disk of 64 KiB at an empty folder.
func smallDisk(t *testing.T, path string) {
	t.Helper()
	asRoot(t, "mount", "-t", "tmpfs", "-o", "size=64k,mode=777", "tmpfs", path)
	t.Cleanup(func() {
		umount := []string{"umount", "-l", path}
		if os.Getuid() != 0 {
			umount = append([]string{"sudo", "-n"}, umount...)
		}
		if err := exec.Command(umount[0], umount[1:]...).Run(); err != nil { //nolint:noctx // the context of the test has ended
			t.Error(err)
		}
	})
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(bytes.Repeat([]byte("x"), 512))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// On a full disk the link is down and says why. Nothing is lost: deliveries wait, and a file to reject
// stays until its reason can be written.
func TestFilesLoseNothingOnAFullDisk(t *testing.T) {
	t.Parallel()
	h := newFilesHouse(t)
	if code := h.stop(t); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	for _, path := range []string{h.voice, h.tasks} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		smallDisk(t, path)
	}
	h.start(t)
	h.ready(t)
	for _, dir := range []struct{ path, link, agent, folder string }{{h.voice, "calls", "alice", "handoff"}, {h.tasks, "research", "reviewer", ""}} {
		filler := filepath.Join(dir.path, ".filler")
		forged := filepath.Join(dir.path, "handoff", "forged.json")
		if dir.link == "calls" {
			drop(t, filepath.Join(h.dir, "forged.json"), voicePayload("a secret of mallory", "alice", "bob", "forged", time.Hour, nil))
			text, err := os.ReadFile(filepath.Join(h.dir, "forged.json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir.path, ".forged.tmp"), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		fill(t, filler)
		if dir.link == "calls" {
			if err := os.Rename(filepath.Join(dir.path, ".forged.tmp"), forged); err != nil {
				t.Fatal(err)
			}
		}
		id := h.scholar.offer(t, map[string]any{"to": native(dir.link, dir.agent), "title": "on a full disk"})
		await(t, "the link to say why it is down", func() bool {
			_, body := h.ask(t, "/statusz")
			return strings.Contains(body, "no space left on device")
		})
		if status, body := h.ask(t, "/readyz"); status == http.StatusServiceUnavailable && !strings.Contains(body, dir.link) {
			t.Errorf("%d %s", status, body)
		}
		if dir.link == "calls" {
			if _, err := os.Lstat(forged); err != nil {
				t.Errorf("the forged file: %v", err)
			}
		}
		await(t, "the temporary file of the last attempt to be removed", func() bool {
			left := filesIn(t, filepath.Join(dir.path, dir.folder))
			return len(left) == 0 || len(left) == 1 && (left[0] == "forged.json" || left[0] == ".filler")
		})
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		h.ready(t)
		awaitFile(t, filepath.Join(dir.path, dir.folder), ".json")
		if dir.link == "calls" {
			if code := h.reasonOf(t, "forged.json"); code != "bad-hmac" {
				t.Errorf("the forged file is rejected as %s", code)
			}
		}
		if got := h.state(t, id); got != "offered" {
			t.Errorf("the handoff is %s", got)
		}
	}
}

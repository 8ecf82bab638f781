package main_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/baton-gateway/baton/bridge/admin"
)

// backedUp returns a stopped gateway and a backup of it.
func backedUp(t *testing.T) (h *house, archive string) {
	t.Helper()
	h = newHouse(t)
	h.start(t)
	ada, bob := logIn(t, h.url()), logIn(t, h.url())
	ada.offer(t, map[string]any{"title": "kept", "to": string(bob.did)})
	archive = filepath.Join(h.dir, "one.tar")
	var made struct{}
	h.asks(t, &made, "backup", archive)
	h.stop(t)
	return h, archive
}

// run runs a command of a house, and returns its exit code and stderr.
func (h *house) run(t *testing.T, args ...string) (code int, told string) {
	t.Helper()
	_, err := h.command(t, args...).Output()
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case failed:
		return exit.ExitCode(), string(exit.Stderr)
	case err != nil:
		t.Fatal(err)
	}
	return 0, ""
}

// serves returns the stderr of serve if it fails at once. Otherwise it stops serve.
func (h *house) serves(t *testing.T) (refused string) {
	t.Helper()
	before := len(h.told(t))
	h.launch(t)
	await(t, "the gateway to live or to end", func() bool {
		status, _ := h.ask(t, "/livez")
		return status != 0 || h.gone()
	})
	if h.gone() {
		return h.told(t)[before:]
	}
	h.stop(t)
	return ""
}

// The restore reads from a pipe, so that it is killed at a known byte.
func TestServeRefusesAfterAKilledRestore(t *testing.T) {
	t.Parallel()
	source, archive := backedUp(t)
	text, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	server, err := os.ReadFile(filepath.Join(source.dir, "data", "keys", "server"))
	if err != nil {
		t.Fatal(err)
	}
	for _, sent := range []int{0, 600, 20000, len(text) - 4000} {
		h := newHouse(t)
		pipe := filepath.Join(h.dir, "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		restore := exec.CommandContext(context.WithoutCancel(t.Context()), program, "--config", h.config, "restore", pipe)
		if err := restore.Start(); err != nil {
			t.Fatal(err)
		}
		w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // blocks until the restore opens it
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text[:sent]); err != nil {
			t.Fatal(err)
		}
		_ = restore.Process.Kill()
		_ = restore.Wait() // the restore was killed
		_ = w.Close()
		h.refusesUntilRestored(t, archive, server)
	}
}

// The states between the renames of a restore.
func TestServeRefusesBetweenTheMovesOfARestore(t *testing.T) {
	t.Parallel()
	source, archive := backedUp(t)
	server, err := os.ReadFile(filepath.Join(source.dir, "data", "keys", "server"))
	if err != nil {
		t.Fatal(err)
	}
	marked := func(data string) error { return os.WriteFile(filepath.Join(data, "restore-unfinished"), nil, 0o600) }
	rename := func(data, from, to string) error {
		return os.Rename(filepath.Join(data, from), filepath.Join(data, to))
	}
	draftKeys := func(data string) error { return rename(data, "keys", "keys.restoring") }
	draftRecord := func(data string) error { return rename(data, "baton.db", "baton.db.restoring") }
	for _, state := range []func(data string) error{
		func(data string) error { return errors.Join(draftRecord(data), draftKeys(data)) },
		func(data string) error { return errors.Join(draftRecord(data), draftKeys(data), marked(data)) },
		func(data string) error { return errors.Join(draftRecord(data), marked(data)) },
		marked,
		func(data string) error { return errors.Join(marked(data), os.RemoveAll(filepath.Join(data, "keys"))) },
	} {
		h := newHouse(t)
		if code, told := h.run(t, "restore", archive); code != 0 {
			t.Fatalf("restore ends with %d: %s", code, told)
		}
		if err := state(filepath.Join(h.dir, "data")); err != nil {
			t.Fatal(err)
		}
		h.refusesUntilRestored(t, archive, server)
	}
}

// refusesUntilRestored checks that no command starts in a data_dir until a restore completes, and
// that the gateway then has the keys of the backup.
func (h *house) refusesUntilRestored(t *testing.T, archive string, server []byte) {
	t.Helper()
	const want = "a restore was cut short: run baton restore again"
	if told := h.serves(t); !strings.Contains(told, want) {
		t.Errorf("serve says %q, want %q", told, want)
	}
	for _, args := range [][]string{{"migrate"}, {"backup", filepath.Join(h.dir, "two.tar")}} {
		if code, told := h.run(t, args...); code == 0 || !strings.Contains(told, want) {
			t.Errorf("%v ends with %d: %q", args, code, told)
		}
	}
	if code, told := h.run(t, "restore", archive); code != 0 {
		t.Errorf("restore again ends with %d: %s", code, told)
	}
	if told := h.serves(t); told != "" {
		t.Errorf("after it serve says %q", told)
	}
	if now, err := os.ReadFile(filepath.Join(h.dir, "data", "keys", "server")); err != nil || !slices.Equal(now, server) {
		t.Errorf("the gateway has another server key: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(h.dir, "data", "*.restoring")); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// A rotation is killed after the old key is listed as retired and before the new key exists.
func TestServeKeepsTheKeyOfAKilledRotation(t *testing.T) {
	t.Parallel()
	h, archive := backedUp(t)
	h.start(t)
	var before, now admin.Key
	h.asks(t, &before, "keys", "show", "server")
	h.asks(t, &now, "keys", "rotate", "server", "--reason", "r")
	h.kill(t)
	list := filepath.Join(h.dir, "data", "keys", "retired")
	retired, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	if code, told := h.run(t, "restore", "--force", archive); code != 0 {
		t.Fatalf("restore ends with %d: %s", code, told)
	}
	if err := os.WriteFile(list, retired, 0o600); err != nil {
		t.Fatal(err)
	}
	if told := h.serves(t); told != "" {
		t.Errorf("serve says %q", told)
	}
	if h.asks(t, &now, "keys", "show", "server"); now.KeyID != before.KeyID {
		t.Errorf("the key is %s, and was %s", now.KeyID, before.KeyID)
	}
}

func TestServeNamesAKilledErasure(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.death = whileErasing
	h.start(t)
	eliza, bob := logIn(t, h.url()), logIn(t, h.url())
	id := eliza.offer(t, map[string]any{"title": "t", "to": string(bob.did)})
	bob.step(t, id, "decline", nil)
	eliza.must(t, 201, "POST", "messages", map[string]any{"to": string(bob.did), "text": "t", "handoff": id}, nil)
	erase := []string{"erase", string(eliza.did), "--yes", "--reason", "she asked"}
	if code, _ := h.run(t, erase...); code != 4 {
		t.Errorf("the erasure in which the gateway dies ends with %d", code)
	}
	h.wait(t)
	h.death = ""
	h.start(t)
	await(t, "the log to name the remedy", func() bool { return strings.Contains(h.told(t), "an erasure was cut short: run baton erase again") })
	remedy := "the erasure of " + string(eliza.did) + " was cut short; baton erase " + string(eliza.did)
	if found, _ := h.examined(t); found["record"] != "warn record: "+remedy {
		t.Errorf("the doctor says %q", found["record"])
	}
	if code, told := h.run(t, erase...); code != 0 {
		t.Errorf("the erasure ends with %d: %s", code, told)
	}
	if found, _ := h.examined(t); !strings.HasPrefix(found["record"], "ok ") {
		t.Errorf("after it the doctor says %q", found["record"])
	}
	unreadable := filepath.Join(h.dir, "data", "erasure-unfinished-00")
	if err := os.Mkdir(unreadable, 0o700); err != nil {
		t.Fatal(err)
	}
	if found, _ := h.examined(t); !strings.HasPrefix(found["record"], "warn record: an erasure was cut short, and its file cannot be read: ") {
		t.Errorf("of a file that cannot be read the doctor says %q", found["record"])
	}
	if err := os.Remove(unreadable); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(h.dir, "data", "erasure-*")); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// The leftovers of killed backups, restores and migrations below data_dir.
func TestServeRemovesFilesOfKilledBackups(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	left := filepath.Join(h.dir, "data", ".backup-123", "record.db")
	leave := func(path string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	leave(left)
	h.start(t)
	if _, err := os.Stat(filepath.Dir(left)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there: %v", left, err)
	}
	leave(left)
	draft := filepath.Join(h.dir, "data", "baton.db.restoring")
	leave(draft)
	ada := logIn(t, h.url())
	var done admin.Erased
	h.asks(t, &done, "erase", string(ada.did), "--yes", "--reason", "r")
	for _, path := range []string{left, draft} {
		if !slices.Contains(done.Files, path) {
			t.Errorf("the erasure names %v, not %s", done.Files, path)
		}
	}
}

func TestBackupNeedsNoSpaceOnTheDiskOfTheRecord(t *testing.T) {
	t.Parallel()
	h, _ := backedUp(t)
	h.start(t)
	h.ready(t)
	limitFiles(t, h, 1)
	elsewhere := filepath.Join(t.TempDir(), "two.tar")
	if code, told := h.run(t, "backup", elsewhere); code != 0 {
		t.Fatalf("backup ends with %d: %s", code, told)
	}
	other := newHouse(t)
	if code, told := other.run(t, "restore", elsewhere); code != 0 {
		t.Errorf("restore ends with %d: %s", code, told)
	}
	if code, told := other.run(t, "verify"); code != 0 {
		t.Errorf("verify ends with %d: %s", code, told)
	}
}

func TestDoctorWarnsOfARecordThatOthersReach(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	data := filepath.Join(h.dir, "data")
	h.start(t)
	for path, mode := range map[string]os.FileMode{data: 0o777, filepath.Join(data, "baton.db"): 0o644} {
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if found, _ := h.examined(t); !strings.HasPrefix(found["permissions"], "warn permissions: other users can access "+path) || !strings.HasSuffix(found["permissions"], "; chmod go= "+path) {
			t.Errorf("the doctor says %q", found["permissions"])
		}
		h.stop(t)
		h.start(t)
		if told := h.told(t); !strings.Contains(told, `"msg":"other users can access the record: restrict its mode","path":"`+path+`"`) {
			t.Errorf("the log says nothing of %s", path)
		}
		if err := os.Chmod(path, before.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
}

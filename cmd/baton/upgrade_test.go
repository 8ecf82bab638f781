package main_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation/federationtest"
)

// unpack writes the files of an archive below a folder.
func unpack(t *testing.T, archive, folder string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(folder, filepath.FromSlash(header.Name))
		if header.Typeflag == tar.TypeDir {
			err = os.Mkdir(name, 0o700)
		} else {
			var content []byte
			if content, err = io.ReadAll(files); err == nil {
				err = os.WriteFile(name, content, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// golden returns a gateway whose data directory was written by a released version.
func golden(t *testing.T, version string) *house {
	t.Helper()
	h := &house{dir: t.TempDir(), public: federationtest.FreeAddr(t), admin: federationtest.FreeAddr(t)}
	h.config, h.log = filepath.Join(h.dir, "baton.toml"), filepath.Join(h.dir, "stderr")
	unpack(t, filepath.Join("testdata", "upgrade", version+".tar.gz"), h.dir)
	text, err := os.ReadFile(h.config)
	if err != nil {
		t.Fatal(err)
	}
	served := strings.NewReplacer(`"127.0.0.1:0"`, strconv.Quote(h.public), `listen = ""`, "listen = "+strconv.Quote(h.admin)).Replace(string(text))
	if err := os.WriteFile(h.config, []byte(served+"[log]\nlevel = \"info\"\nformat = \"json\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// says runs a command, which must succeed, and returns its output for people.
func (h *house) says(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, append([]string{"--config", h.config}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("baton %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// A migration of the data directory of 0.1.0 is killed before it commits, and at many other
// moments. The result is a record of the old version or of the new one, and the next start goes
// on with it.
func TestUpgradeOfTheFirstReleaseSurvivesKills(t *testing.T) {
	t.Parallel()
	h := golden(t, "0.1.0")
	if plan := h.says(t, "migrate", "--dry-run"); !strings.HasPrefix(plan, "would copy the record of version 1") || !strings.Contains(plan, "MiB are free") {
		t.Fatalf("a dry run says %q", plan)
	}
	killed := h.command(t, "migrate")
	killed.Env = append(os.Environ(), deathVar+"="+whileMigrating)
	if out, err := killed.CombinedOutput(); err == nil || killed.ProcessState.ExitCode() != -1 {
		t.Fatalf("the migration was not killed: %s, %v", out, err)
	}
	if plan := h.says(t, "migrate", "--dry-run"); !strings.HasPrefix(plan, "would copy the record of version 1") {
		t.Fatalf("after a kill before the commit a dry run says %q", plan)
	}
	for moment := time.Millisecond; moment < time.Second; moment += moment / 2 {
		ctx, stop := context.WithTimeout(t.Context(), moment)
		_ = exec.CommandContext(ctx, program, "--config", h.config, "migrate").Run() // killed, or done before
		stop()
	}
	h.says(t, "migrate")
	if found := h.says(t, "verify"); !strings.HasSuffix(found, ", 6 handoffs, 13 events") || !strings.HasPrefix(found, "sound: ") {
		t.Errorf("verify says %q", found)
	}
	copies, err := filepath.Glob(filepath.Join(h.dir, "data", "*.bak"))
	if err != nil || len(copies) == 0 {
		t.Fatalf("there are the copies %v, %v", copies, err)
	}
	for _, each := range copies { // each is a whole record of the version before
		other := golden(t, "0.1.0")
		if err := os.Rename(each, filepath.Join(other.dir, "data", "baton.db")); err != nil {
			t.Fatal(err)
		}
		other.says(t, "migrate")
		if found := other.says(t, "verify"); !strings.HasSuffix(found, ", 6 handoffs, 13 events") {
			t.Errorf("the copy %s: verify says %q", each, found)
		}
	}
}

func TestUpgradeServesTheFirstRelease(t *testing.T) {
	t.Parallel()
	h := golden(t, "0.1.0")
	h.start(t)
	if log, err := os.ReadFile(h.log); err != nil || !strings.Contains(string(log), "brought the record from version 1 to version 5; the previous record is ") {
		t.Errorf("the log of the start has no line about the upgrade, %v:\n%s", err, log)
	}
	type view struct{ ID, State, Title string }
	var list struct{ Items []view }
	h.asks(t, &list, "handoff", "list")
	want := []view{
		{"01M850KB10VEQPYYA1SFMX0EVH", "offered", "Wait in an inbox"},
		{"01M850KAZC9QH5SB1KAQBZZB80", "open", "Anyone may take it"},
		{"01M850KABVABK9BEN6VA7DPXC5", "assigned", "Cite three sources"},
		{"01M850K9JQ33CN8TQ79XMF022Y", "offered", "Offered by REST to itself"},
		{"01M850K52SRTVHY107DWS0SAQY", "completed", "Check the three sources"},
		{"01M850K51F2CREM154S2RYYKVA", "completed", "Cite three sources on X"},
	}
	if diff := cmp.Diff(want, list.Items); diff != "" {
		t.Errorf("handoffs (-want +got):\n%s", diff)
	}
	for what, args := range map[string][]string{
		"did:plc:benbenbenbenbenbenbenben":     {"bind", "list"},
		"did:plc:malmalmalmalmalmalmalmal":     {"block", "list"},
		"01M850K9JKP8THGTH16Z49MV06":           {"webhook", "list"},
		"7DPXC5":                               {"dead", "list"},
		"01M850KAZC9QH5SB1KAQBZZB80":           {"feed", "list"},
		" hold ":                               {"peer", "list"},
		"01M850KB10VEQPYYA1SFMX0EVH":           {"inbox", "show", "did:key:z6MkvDqGT54cXesYGvABpF1UapVNwjCqRcafi4Px6Thv5T3Z"},
		"block add":                            {"audit", "list"},
		"01M850KABVABK9BEN6VA7DPXC5 completed": {"handoff", "complete", "01M850KABVABK9BEN6VA7DPXC5", "--from", "did:plc:benbenbenbenbenbenbenben"},
	} {
		if out := h.says(t, args...); !strings.Contains(out, what) {
			t.Errorf("baton %v prints no %q:\n%s", args, what, out)
		}
	}
	if passport := h.says(t, "handoff", "export", want[5].ID); !strings.Contains(passport, "vnd.baton.passport") {
		t.Errorf("the passport is %q", passport)
	}
	h.stop(t)
	if found := h.says(t, "verify"); !strings.HasSuffix(found, ", 6 handoffs, 14 events") {
		t.Errorf("verify says %q", found)
	}
}

package engine_test

import (
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/engine"
)

// programOf returns the migrations of a program that knows versions up to one.
func programOf(t *testing.T, version int) fstest.MapFS {
	t.Helper()
	known := fstest.MapFS{}
	names, err := filepath.Glob("schema/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names[:version] {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		known[name] = &fstest.MapFile{Data: text}
	}
	return known
}

// fourth makes a record of version 4 with handoffs of one step, each with an unread entry of an inbox and a pending delivery.
func fourth(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if _, err := engine.MigrateBy(t.Context(), programOf(t, 4), at(dir), federationtest.At(1)); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", at(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for n := 1; n <= handoffs; n++ {
		f := federationtest.File(federationtest.Offer(n, ada, bob), federation.View{})
		body, errBody := json.Marshal(f.Event)
		view, errView := json.Marshal(f.View)
		digest, document, none := f.Event.Digest(), f.Event.DocumentDigest(), make([]byte, sha256.Size)
		head := sha256.Sum256(slices.Concat(none, document[:]))
		_, errRows := db.ExecContext(t.Context(), `
			INSERT INTO event (handoff, version, signer, id, digest, prev, state, filed, body, said) VALUES (?1, 1, ?2, ?1, ?3, ?4, 'offered', 1, ?5, 1);
			INSERT INTO handoff (id, version, view, head, state, offerer, over, clock, since, moved) VALUES (?1, 1, ?6, ?7, 'offered', ?2, 0, '', 0, 1);
			INSERT INTO inbox (did, event, waiting, number) VALUES (?8, ?9, 100, ?9);
			INSERT INTO outbox (link, event, attempt, handoff, rank, filed) VALUES ('oftc', ?9, 0, ?1, 0, 1)`,
			f.Event.ID.String(), string(ada), digest[:], none, string(body), string(view), head[:], string(bob), n)
		for _, err := range []error{errBody, errView, errRows} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func TestMigrateRefusesAnotherRecordThanBefore(t *testing.T) {
	t.Parallel()
	const name = "schema/0005_sessions_and_numbers.sql"
	for _, tt := range []struct{ what, right, wrong, want string }{
		{"a lost entry", "FROM inbox JOIN actor USING (did);", "FROM inbox JOIN actor USING (did) WHERE event > 1;", fmt.Sprintf("there were %d inbox entries, and there are %d", handoffs, handoffs-1)},
		{"a lost delivery", "DROP TABLE looked;", "DROP TABLE looked; DELETE FROM outbox;", fmt.Sprintf("there were %d pending deliveries to links, and there are 0", handoffs)},
		{"a read entry", "SELECT n, event, waiting,", "SELECT n, event, nullif(waiting, 100),", fmt.Sprintf("there were %d unread inbox entries, and there are 0", handoffs)},
		{
			"another head", "SELECT id, version, view, head,", "SELECT id, version, view, CASE id WHEN '" + federationtest.ID(7).String() + "' THEN x'00' ELSE head END,",
			fmt.Sprintf("event %s of handoff %[1]s has another link than the chain, and was sound before", federationtest.ID(7)),
		},
	} {
		t.Run(tt.what, func(t *testing.T) {
			dir, program := fourth(t), programOf(t, newest)
			text := string(program[name].Data)
			if !strings.Contains(text, tt.right) {
				t.Fatalf("%s has no %q", name, tt.right)
			}
			program[name].Data = []byte(strings.Replace(text, tt.right, tt.wrong, 1))
			_, err := engine.MigrateBy(t.Context(), program, at(dir), federationtest.At(7))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "the record is still of version 4") {
				t.Errorf("MigrateBy: %v, want %q", err, tt.want)
			}
			if copies, err := filepath.Glob(at(dir) + ".v4*"); err != nil || len(copies) > 0 {
				t.Errorf("left are %q, %v", copies, err)
			}
			if done, err := engine.MigrateBy(t.Context(), programOf(t, newest), at(dir), federationtest.At(7)); err != nil || done.From != 4 {
				t.Errorf("MigrateBy by the right program = %+v, %v", done, err)
			}
		})
	}
}

// swell makes the record in a directory larger than half of the free disk, with pages without
// content that take no room.
func swell(t *testing.T, dir string) {
	t.Helper()
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		t.Fatal(err)
	}
	pages := disk.Bavail * uint64(disk.Bsize) / 2 / uint64(count(t, dir, "PRAGMA page_size"))
	f, err := os.OpenFile(at(dir), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := binary.BigEndian.AppendUint32(nil, uint32(pages))
	_, err = f.WriteAt(size, 28) // spec: SQLite "Database File Format" §1.3.8
	if err := errors.Join(err, f.Truncate(int64(pages)*int64(count(t, dir, "PRAGMA page_size")))); err != nil {
		t.Fatal(err)
	}
}

func TestMigrateRefusesADiskWithoutRoom(t *testing.T) {
	t.Parallel()
	dir := fourth(t)
	swell(t, dir)
	planned, err := engine.PlanBy(t.Context(), programOf(t, newest), at(dir))
	if err != nil || planned.Estimate == nil || !strings.HasSuffix(planned.Sentence(true, true), " MiB are free: make room first") {
		t.Fatalf("PlanBy = %+v, %v", planned, err)
	}
	done, err := engine.MigrateBy(t.Context(), programOf(t, newest), at(dir), federationtest.At(7))
	if err == nil || !strings.Contains(err.Error(), "the upgrade needs ") || !strings.HasSuffix(err.Error(), " MiB are free: make room first") || done.Backup != "" {
		t.Errorf("MigrateBy = %+v, %v", done, err)
	}
	if left, err := filepath.Glob(at(dir) + ".v4*"); err != nil || len(left) > 0 {
		t.Errorf("left are %q, %v", left, err)
	}
	if n := count(t, dir, "PRAGMA user_version"); n != 4 {
		t.Errorf("the record is of version %d", n)
	}
}

func TestEstimateChecksTheDisk(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		free int64
		want string
	}{
		{22 << 20, ""},
		{22<<20 - 1, "the upgrade needs 22 MiB of disk, and 21 MiB are free: make room first"},
	} {
		err := engine.Estimate{Bytes: 10 << 20, Needs: 22 << 20, Free: tt.free}.Check()
		if got := fmt.Sprint(err); got != tt.want && (tt.want != "" || err != nil) {
			t.Errorf("with %d bytes free: %s, want %q", tt.free, got, tt.want)
		}
	}
}

func TestProgressIsWrittenOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		progress := engine.Lines(func(line string) { lines = append(lines, line) })
		progress(engine.Copying, 0, 0)
		time.Sleep(1900 * time.Millisecond)
		progress(engine.Checking, 900, 1_234_567)
		time.Sleep(100 * time.Millisecond)
		progress(engine.Changing, 0, 0)
		time.Sleep(900 * time.Millisecond)
		progress(engine.Converting, 0, 1_234_567)
		time.Sleep(100 * time.Millisecond)
		progress(engine.Converting, 12_000, 1_234_567)
		want := "upgrading the record: changing its tables; upgrading the record: converting: 12,000 of 1,234,567 events"
		if got := strings.Join(lines, "; "); got != want {
			t.Errorf("lines %q, want %q", got, want)
		}
	})
}

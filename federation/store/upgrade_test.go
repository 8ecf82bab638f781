package store_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/fsck"
	"github.com/baton-gateway/baton/federation/store/postgrestest"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

func fourthEvents(t *testing.T, dir string) *wholeEvents {
	t.Helper()
	events := newWholeEvents(t, literals("x'%s'"))
	if _, err := raw(t, dir).ExecContext(t.Context(), schemaOf(t, "schema", 4)+events.sql.String()+"PRAGMA user_version = 4"); err != nil {
		t.Fatal(err)
	}
	return events
}

func checkUpgraded(t *testing.T, dir string, events *wholeEvents) {
	t.Helper()
	record := open(t, dir, prometheus.NewRegistry())
	events.check(t, record, func(query string) []string { return rowsOf(t, "sqlite", at(dir), query) }, func(rules fsck.Rules) (fsck.Report, error) {
		return fsck.Examine(t.Context(), at(dir), registry.Tables{}, rules)
	})
}

// versionOf returns the version of the record in a directory, and leaves its files as a kill left them.
func versionOf(t *testing.T, dir string) int {
	t.Helper()
	plan, err := engine.Plan(t.Context(), at(dir))
	if err != nil {
		t.Fatal(err)
	}
	return plan.From
}

func copiesOf(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(at(dir) + ".v4*")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// upgradeDir and upgradeDeath name the environment variables that make this test binary a process that
// upgrades the record in a directory until it dies.
const (
	upgradeDir   = "BATON_STORE_TEST_UPGRADE"
	upgradeDeath = "BATON_STORE_TEST_DEATH"
)

var deaths = map[string]struct {
	stage  engine.Stage
	events int64         // converted before
	file   string        // the process is killed as soon as this file beside the record has content; "" for none
	later  time.Duration // the process is killed so long after the start of the stage
	commit bool          // the upgrade may have been committed
}{
	"before the copy":           {stage: engine.Copying},
	"during the copy":           {stage: engine.Copying, file: ".v4.draft"},
	"before the first check":    {stage: engine.Checking},
	"during the check":          {stage: engine.Checking, events: 500},
	"before the tables change":  {stage: engine.Changing},
	"while the tables change":   {stage: engine.Changing, later: time.Millisecond},
	"before the conversion":     {stage: engine.Converting},
	"during the conversion":     {stage: engine.Converting, events: 500},
	"during the comparison":     {stage: engine.Comparing, events: 500},
	"before the commit":         {stage: engine.Committing},
	"while the commit is saved": {stage: engine.Committing, file: "-wal", commit: true},
}

func upgradeUntil(where, death string) int {
	ctx, end := context.Background(), deaths[death]
	die := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	progress := func(stage engine.Stage, done, _ int64) {
		switch {
		case stage != end.stage || done < end.events:
		case end.file != "":
			go func() {
				for {
					if info, err := os.Stat(at(where) + end.file); err == nil && info.Size() > 0 {
						die()
					}
				}
			}()
		case end.later > 0:
			time.AfterFunc(end.later, die)
		default:
			die()
		}
	}
	var err error
	if strings.HasPrefix(where, "host=") {
		_, err = engine.MigratePostgres(ctx, where, registry.Tables{}, progress)
	} else {
		_, err = engine.Migrate(ctx, at(where), registry.Tables{}, time.Now(), progress)
	}
	fmt.Fprintln(os.Stderr, "the upgrade ended:", err)
	return 1
}

// killUpgrade runs an upgrade in a killed process, and reports whether it was killed, and its
// output.
func killUpgrade(t *testing.T, where, death string) (killed bool, said []byte) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), upgradeDir+"="+where, upgradeDeath+"="+death)
	said, err := child.CombinedOutput()
	return err != nil && child.ProcessState.ExitCode() == -1, said
}

func TestUpgradeStartsOverAfterKills(t *testing.T) {
	t.Parallel()
	before := t.TempDir()
	events := fourthEvents(t, before)
	file, err := os.ReadFile(at(before))
	if err != nil {
		t.Fatal(err)
	}
	for death, end := range deaths {
		t.Run(death, func(t *testing.T) {
			dir := t.TempDir()
			for tries := 1; ; tries++ {
				if err := os.WriteFile(at(dir), file, 0o600); err != nil {
					t.Fatal(err)
				}
				killed, said := killUpgrade(t, dir, death)
				if killed {
					break
				}
				if end.file == "" || tries == 20 {
					t.Fatalf("the upgrade was not killed in %d tries: %s", tries, said)
				}
				dir = t.TempDir() // it was over before its files were looked at
			}
			if version := versionOf(t, dir); version != 4 && !end.commit {
				t.Errorf("after the kill the record is of version %d", version)
			}
			if copies := copiesOf(t, dir); end.stage != engine.Copying {
				if len(copies) != 1 || !strings.HasSuffix(copies[0], ".bak") {
					t.Fatalf("after the kill there are the copies %q", copies)
				}
				other := t.TempDir()
				if err := os.Link(copies[0], at(other)); err != nil {
					t.Fatal(err)
				}
				if version := versionOf(t, other); version != 4 {
					t.Errorf("the copy is of version %d", version)
				}
				checkUpgraded(t, other, events)
			}
			checkUpgraded(t, dir, events)
			for _, name := range copiesOf(t, dir) {
				if !strings.HasSuffix(name, ".bak") {
					t.Errorf("after the upgrade there is %s", name)
				}
			}
		})
	}
}

func TestUpgradeInPostgreSQLStartsOverAfterKills(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	for death, end := range deaths {
		if end.file != "" || end.stage == engine.Copying {
			continue
		}
		t.Run(death, func(t *testing.T) {
			dsn, events := server.Schema(t), newWholeEvents(t, literals(`'\x%s'`))
			server.Exec(t, dsn, schemaOf(t, "schema/postgres", 4)+events.sql.String()+fourthServer)
			if killed, said := killUpgrade(t, dsn, death); !killed {
				t.Fatalf("the upgrade was not killed: %s", said)
			}
			if plan, err := engine.PlanPostgres(t.Context(), dsn); err != nil || plan.From != 4 {
				t.Errorf("after the kill the record is %+v, %v", plan, err)
			}
			record := openServer(t, dsn)
			events.check(t, record, func(query string) []string { return rowsOf(t, "pgx", dsn, query) }, func(rules fsck.Rules) (fsck.Report, error) {
				return fsck.ExaminePostgres(t.Context(), dsn, registry.Tables{}, rules)
			})
		})
	}
}

func TestUpgradeOnAFullDiskLeavesTheRecord(t *testing.T) {
	for name, file := range map[string]string{"for the copy": ".draft", "for the upgrade": "-wal"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			events := fourthEvents(t, dir)
			d := mount(t, dir)
			writes := 0
			d.FailWith(func(one storetest.Deed) int32 {
				if one.Kind != storetest.Write || !strings.HasSuffix(one.Name, file) {
					return sqlite3.SQLITE_OK
				}
				if writes++; writes <= 20 {
					return sqlite3.SQLITE_OK
				}
				return sqlite3.SQLITE_FULL
			})
			_, err := registry.Open(t.Context(), at(dir), prometheus.NewRegistry())
			if err == nil || !strings.Contains(err.Error(), "database or disk is full") || strings.Contains(err.Error(), "\n") {
				t.Fatalf("Open: %v", err)
			}
			if version := versionOf(t, dir); version != 4 {
				t.Errorf("the record is of version %d", version)
			}
			if left, err := os.ReadDir(dir); err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return strings.HasSuffix(e.Name(), ".draft") }) {
				t.Errorf("left are %v, %v", left, err)
			}
			d.FailWith(nil)
			checkUpgraded(t, dir, events)
		})
	}
}

// Damage that baton verify reported before the upgrade is reported after it.
func TestUpgradeKeepsDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fourthEvents(t, dir)
	if _, err := raw(t, dir).ExecContext(t.Context(), `UPDATE event SET prev = x'00' WHERE seq = 2; UPDATE event SET body = '{' WHERE seq = 14; UPDATE handoff SET head = x'00' WHERE id = (SELECT handoff FROM event WHERE seq = 6)`); err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir, prometheus.NewRegistry()).Close(); err != nil {
		t.Fatal(err)
	}
	report, err := fsck.Examine(t.Context(), at(dir), registry.Tables{}, signedRules{})
	for _, kind := range []fsck.DamageKind{fsck.DamagedChain, fsck.DamagedEvent} {
		if err != nil || !slices.ContainsFunc(report.Damage, func(d fsck.Damage) bool { return d.Kind == kind }) {
			t.Errorf("the record has the damage %v, %v, want some of the kind %s", report.Damage, err, kind)
		}
	}
}

func TestUpgradeReportsItsProgress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	events := fourthEvents(t, dir)
	total := int64(len(events.entries))
	var got []string
	progress := func(stage engine.Stage, done, of int64) {
		if of != 0 && of != total {
			t.Errorf("%s: %d of %d", stage, done, of)
		}
		got = append(got, fmt.Sprint(stage, " ", done))
	}
	done, err := engine.Migrate(t.Context(), at(dir), registry.Tables{}, federationtest.At(1), progress)
	if err != nil || done.From != 4 || done.To != newest(t) {
		t.Fatalf("Migrate = %+v, %v", done, err)
	}
	want := "copying it 0, checking 0, checking 500, changing its tables 0, converting 0, converting 500, comparing 0, comparing 500, committing 0"
	if said := strings.Join(got, ", "); said != want {
		t.Errorf("progress %s, want %s", said, want)
	}
}

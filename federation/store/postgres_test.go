//go:build interop

package store_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/fsck"
	"github.com/baton-gateway/baton/federation/store/postgrestest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// openPostgres opens a record on a server. It is closed at the end of the test.
func openPostgres(tb testing.TB, dsn string) *registry.Record {
	tb.Helper()
	record, err := registry.OpenPostgres(tb.Context(), dsn, prometheus.NewRegistry())
	if err != nil {
		tb.Fatalf("OpenPostgres: %v", err)
	}
	tb.Cleanup(func() {
		if err := record.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return record
}

func keepsJournals(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	journals(t, openPostgres(t, server.Record(t)))
}

func keepsMessages(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	messages(t, openPostgres(t, server.Record(t)))
	chat(t, openPostgres(t, server.Record(t)))
}

// TestRecordInPostgreSQL has one server for all tests of a record there. Tests that wait for its
// disk most of the time run at the same time, after the tests that stop the server.
func TestRecordInPostgreSQL(t *testing.T) {
	server := postgrestest.Start(t)
	for name, test := range map[string]func(*testing.T, *postgrestest.Server){
		"it does what every record does":                   doesWhatEveryRecordDoes,
		"it does so however the server looks for rows":     doesSoWhateverThePlan,
		"no order of things brings it from its model":      staysWithItsModel,
		"a record in a file is copied whole, and compared": copiesARecord,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, server)
		})
	}
	for name, test := range map[string]func(*testing.T, *postgrestest.Server){
		"it keeps journals":                                           keepsJournals,
		"it keeps messages":                                           keepsMessages,
		"it erases a person":                                          erasesOnPostgres,
		"everything is there after reopening":                         isThereAfterReopening,
		"a killed writer loses nothing that it acknowledged":          survivesAKilledWriter,
		"a killed server loses nothing that was acknowledged":         survivesAKilledServer,
		"a server that does not answer is a not-now":                  waitsForNoServer,
		"of gateways that race for one step one wins":                 raceForOneStep,
		"gateways that write at once number one inbox without a hole": numberOneInbox,
		"gateways that start at once make one schema":                 startAtOnce,
		"a server that commits to memory is made to commit to disk":   commitsToDisk,
		"what cannot be a record is refused":                          refusesWhatIsNone,
		"text that the database cannot keep is refused":               refusesText,
		"refused writes do not disturb their batch":                   answersEachOfABatch,
		"steps of one batch fill inboxes, feeds and hooks":            filesTogether,
		"a duty is one gateway's at a time, whoever dies":             partsLeases,
		"damage is found":                                             findsDamage,
		"a record is copied into an empty one alone, or not at all":   copiesIntoNothing,
		"a copy of a damaged record is not kept":                      copiesNoDamage,
		"the schema has no triggers":                                  hasNoTriggers,
		"a pruned handoff leaves no attempts to its followers":        forgetsAttempts,
	} {
		t.Run(name, func(t *testing.T) { test(t, server) })
	}
}

func doesWhatEveryRecordDoes(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	runRecord(t, func(t *testing.T) *registry.Record {
		t.Helper()
		dsn := server.Record(t)
		record := openPostgres(t, dsn)
		t.Cleanup(func() {
			db, err := sql.Open("pgx", dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			checkDerived(t, db)
		})
		return record
	})
}

// A server reads a table as its statistics have it, and so finds rows in any order: by no
// index in that in which they were written last.
func doesSoWhateverThePlan(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	runRecord(t, func(t *testing.T) *registry.Record {
		t.Helper()
		return openPostgres(t, server.Record(t)+" options='-c enable_indexscan=off -c enable_indexonlyscan=off -c enable_bitmapscan=off -c jit=off'")
	})
}

func staysWithItsModel(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	dsn, checks := server.Record(t), flag.Lookup("rapid.checks").Value
	usual := checks.String()
	defer func() { _ = checks.Set(usual) }()
	if err := checks.Set("20"); err != nil { // a server takes longer than a file
		t.Fatal(err)
	}
	rapid.Check(t, func(r *rapid.T) {
		server.Clear(t, dsn)
		checkModel(t, r, func() (*registry.Record, error) {
			return registry.OpenPostgres(t.Context(), dsn, prometheus.NewRegistry())
		})
	})
}

func isThereAfterReopening(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	dsn := server.Record(t)
	first := openPostgres(t, dsn)
	populate(t, first)
	before := read(t, first)
	if err := first.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if d := cmp.Diff(before, read(t, openPostgres(t, dsn)), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("contents (-before +after):\n%s", d)
	}
}

func survivesAKilledWriter(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	dsn := server.Record(t)
	acknowledged := killWriters(t, dsn)
	checkAcknowledged(t, openPostgres(t, dsn), acknowledged)
	checkSound(t, dsn)
}

// Offers are repeated until they are acknowledged, as everybody repeats them, while the
// server is killed and comes back.
func survivesAKilledServer(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	const rounds, callers, perRound = 3, 8, 100
	dsn := server.Record(t)
	record := openPostgres(t, dsn)
	var acknowledged []int
	var mu sync.Mutex
	var all sync.WaitGroup
	enough := make(chan struct{}, rounds)
	ctx, cancel := context.WithCancel(t.Context())
	for caller := range callers {
		all.Go(func() {
			for n := caller + 1; ctx.Err() == nil; n += callers {
				if !submitWithRetry(ctx, t, record, n) {
					return
				}
				mu.Lock()
				if acknowledged = append(acknowledged, n); len(acknowledged)%perRound == 0 {
					select {
					case enough <- struct{}{}:
					default:
					}
				}
				mu.Unlock()
			}
		})
	}
	for range rounds {
		<-enough
		server.Kill(t)
		_, err := record.View(t.Context(), federationtest.ID(1))
		if _, ok := errors.AsType[*federation.UnavailableError](err); !ok {
			t.Errorf("View without a server: %v, want *UnavailableError", err)
		}
		server.Run(t)
	}
	<-enough
	cancel()
	all.Wait()
	if err := record.Close(); err != nil { // after the current batch
		t.Errorf("Close: %v", err)
	}
	checkAcknowledged(t, openPostgres(t, dsn), acknowledged)
	checkSound(t, dsn)
}

// submitWithRetry files the n-th offer, however often that takes, and reports whether it was
// acknowledged before the context ended.
func submitWithRetry(ctx context.Context, t *testing.T, record *registry.Record, n int) bool {
	t.Helper()
	f := offer(n)
	f.Links = []string{"oftc"}
	for ctx.Err() == nil {
		_, err := record.Append(ctx, f)
		if err == nil {
			return true
		}
		if _, away := errors.AsType[*federation.UnavailableError](err); !away && ctx.Err() == nil {
			t.Errorf("Append: %v", err)
			return false
		}
	}
	return false
}

func waitsForNoServer(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	record := openPostgres(t, server.Record(t))
	if _, err := record.Append(t.Context(), offer(1)); err != nil {
		t.Fatalf("Append: %v", err)
	}
	server.Freeze(t, true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := record.Append(ctx, offer(2))
	server.Freeze(t, false)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Append to a server that does not answer: %v, want the end of the context", err)
	}
	// It was taken up, so it may be there; asked again, it is.
	if _, err := record.Append(t.Context(), offer(2)); err != nil {
		t.Errorf("Append when the server answers again: %v", err)
	}
}

func raceForOneStep(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	const gateways, callers = 3, 8
	dsn := server.Record(t)
	records := make([]*registry.Record, gateways)
	for i := range records {
		records[i] = openPostgres(t, dsn)
	}
	opened := offer(1)
	if _, err := records[0].Append(t.Context(), opened); err != nil {
		t.Fatalf("Append: %v", err)
	}
	var mu sync.Mutex
	won := 0
	var all sync.WaitGroup
	for caller := range gateways * callers {
		all.Go(func() {
			step := federationtest.File(federationtest.Step(10+caller, opened.Event, federation.Accept, bob), opened.View)
			_, err := records[caller%gateways].Append(t.Context(), step)
			switch {
			case err == nil:
				mu.Lock()
				won++
				mu.Unlock()
			case !errors.Is(err, federation.ErrStale):
				t.Errorf("Append: %v, want ErrStale", err)
			}
		})
	}
	all.Wait()
	if won != 1 {
		t.Errorf("%d gateways filed the second step, want 1", won)
	}
}

// They do so also on a server whose transactions see no commit after their begin.
func numberOneInbox(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	const gateways, offers = 3, 60
	dsn := server.Record(t) + ` options='-c default_transaction_isolation=repeatable\\ read'`
	numbers := make([]int, 0, gateways*offers)
	var all sync.WaitGroup
	for gateway := range gateways {
		record := openPostgres(t, dsn)
		for i := range offers {
			n := gateway*offers + i + 1
			numbers = append(numbers, n)
			all.Go(func() {
				f := offer(n)
				f.Links = []string{"oftc"}
				if _, err := record.Append(t.Context(), f); err != nil {
					t.Errorf("Append: %v", err)
				}
			})
		}
	}
	// A reader that goes on from its last entry must miss none.
	reader := openPostgres(t, dsn)
	var cursor federation.Cursor
	for seen := 0; seen < gateways*offers && !t.Failed(); {
		entries, err := reader.Replay(t.Context(), bob, cursor, 10)
		if err != nil {
			t.Fatalf("Replay: %v", err)
		}
		for _, entry := range entries {
			if seen++; entry.Number != uint64(seen) {
				t.Fatalf("entry %d came after entry %d", entry.Number, seen-1)
			}
			cursor = entry.Cursor
		}
	}
	all.Wait()
	checkAcknowledged(t, reader, numbers)
}

func startAtOnce(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	dsn := server.Schema(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			record, err := registry.OpenPostgres(t.Context(), dsn, prometheus.NewRegistry())
			if err != nil {
				t.Errorf("OpenPostgres: %v", err)
				return
			}
			if err := errors.Join(record.Ready(t.Context()), record.Close()); err != nil {
				t.Errorf("Ready, Close: %v", err)
			}
		})
	}
	all.Wait()
	if planned, err := engine.PlanPostgres(t.Context(), dsn); err != nil || planned.From != newest(t) || planned.To != newest(t) {
		t.Errorf("PlanPostgres = %+v, %v, want version %d", planned, err, newest(t))
	}
}

func commitsToDisk(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	dsn := server.Record(t)
	server.Kill(t)
	server.Run(t, "synchronous_commit=off")
	record := openPostgres(t, dsn)
	server.Exec(t, dsn, `CREATE FUNCTION remember_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			NEW.beats = CASE current_setting('synchronous_commit') WHEN 'on' THEN 1000 ELSE 0 END;
			RETURN NEW;
		END $$;
		CREATE TRIGGER remember_commit BEFORE INSERT OR UPDATE ON heartbeat FOR EACH ROW EXECUTE FUNCTION remember_commit()`)
	if err := record.Ready(t.Context()); err != nil {
		t.Errorf("Ready: %v", err)
	}
	server.Exec(t, dsn, `DO $$ BEGIN ASSERT (SELECT beats FROM heartbeat) = 1000, 'it commits to memory'; END $$;
		DROP TRIGGER remember_commit ON heartbeat; DROP FUNCTION remember_commit`)

	server.Kill(t)
	server.Run(t, "fsync=off")
	_, err := registry.OpenPostgres(t.Context(), dsn, prometheus.NewRegistry())
	if err == nil || !strings.Contains(err.Error(), "set fsync = on") {
		t.Errorf("OpenPostgres of a server without fsync: %v", err)
	}
	server.Kill(t)
	server.Run(t)
}

func refusesWhatIsNone(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	diary, newer, older, gone := server.Schema(t), server.Schema(t), server.Schema(t), server.Schema(t)
	server.Exec(t, diary, "CREATE TABLE diary (day text)")
	openPostgres(t, newer)
	server.Exec(t, newer, "UPDATE schema_version SET version = 9999")
	openPostgres(t, older)
	server.Exec(t, older, "ALTER TABLE schema_version RENAME TO record; UPDATE record SET version = 32")
	server.Exec(t, gone, "DO $$ BEGIN EXECUTE 'DROP SCHEMA ' || current_schema(); END $$")
	for dsn, want := range map[string]string{
		diary:                    "tables of another program",
		newer:                    "of version 9999 and this program knows versions up to",
		older:                    "a development version wrote this record",
		gone:                     "CREATE SCHEMA makes it",
		"host=/nowhere user=x":   "no such file or directory",
		"postgres://x:geheim@:a": "invalid port",
	} {
		_, err := registry.OpenPostgres(t.Context(), dsn, prometheus.NewRegistry())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("OpenPostgres: %v, want %q", err, want)
		}
	}
}

func refusesText(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	record := openPostgres(t, server.Record(t))
	for _, name := range []string{"a\x00b", "a\xffb"} {
		f := offer(1)
		f.Event.Arrival.Name = name
		_, err := record.Append(t.Context(), f)
		if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || refused.Code != federation.InvalidTag {
			t.Errorf("Append with name %q: %v, want %s", name, err, federation.InvalidTag)
		}
	}
	if _, err := record.Append(t.Context(), offer(1)); err != nil {
		t.Errorf("Append after the refusals: %v", err)
	}
}

// The questions asked ahead, or else the server in the midst of the batch, decide which writes are
// refused.
func answersEachOfABatch(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	unkept := offer(6)
	unkept.Event.Arrival.Name = "a\x00b"
	for name, more := range map[string][]federation.Filing{"by the record": nil, "by the server": {unkept}} {
		t.Run(name, func(t *testing.T) {
			dsn := server.Record(t)
			record := openPostgres(t, dsn)
			refuseInBatch(t, record, func() func() { return lockWriters(t, dsn) }, more...)
			checkSound(t, dsn)
		})
	}
}

// lockWriters keeps the record from being written until release.
func lockWriters(t *testing.T, dsn string) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err == nil {
		_, err = conn.Exec(t.Context(), "SELECT pg_advisory_lock(1114926641, hashtext(current_schema()))")
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func checkSound(t *testing.T, dsn string) {
	t.Helper()
	report, err := fsck.ExaminePostgres(t.Context(), dsn, registry.Tables{}, rules{})
	if err != nil || len(report.Damage) > 0 || report.Events == 0 {
		t.Errorf("ExaminePostgres = %+v, %v", report, err)
	}
}

func findsDamage(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	dsn := server.Record(t)
	populate(t, openPostgres(t, dsn))
	checkSound(t, dsn)
	tests := []struct {
		want  fsck.DamageKind
		spoil string
	}{
		{fsck.DamagedChain, "UPDATE event SET prev = sha256('x') WHERE version = 2"},
		{fsck.DamagedView, "UPDATE handoff SET since = since + 1000000000 WHERE clock <> ''"},
		{fsck.DamagedEvidence, "UPDATE evidence SET bytes = 'x'"},
		{fsck.Orphan, "DELETE FROM agent"},
	}
	for _, tt := range tests {
		server.Exec(t, dsn, tt.spoil)
		report, err := fsck.ExaminePostgres(t.Context(), dsn, registry.Tables{}, rules{})
		found := false
		for _, damage := range report.Damage {
			found = found || damage.Kind == tt.want
		}
		if err != nil || !found {
			t.Errorf("after %s: %+v, %v, want %s", tt.spoil, report, err, tt.want)
		}
	}
	server.Exec(t, dsn, "DELETE FROM evidence")
	report, err := fsck.ExaminePostgres(t.Context(), dsn, registry.Tables{}, rules{})
	if err != nil || !strings.Contains(cmp.Diff(nil, report.Damage), "its original is missing") {
		t.Errorf("without originals: %+v, %v", report, err)
	}
}

func copiesARecord(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	dir, dsn := t.TempDir(), server.Schema(t)
	record := open(t, dir, prometheus.NewRegistry())
	populate(t, record)
	if _, err := fsck.Transfer(t.Context(), at(dir), dsn, registry.Tables{}, rules{}, false); err == nil || !strings.Contains(err.Error(), "stop the gateway first") {
		t.Errorf("Transfer of a record that is open: %v", err)
	}
	want := read(t, record)
	if err := record.Close(); err != nil {
		t.Fatal(err)
	}
	planned, err := fsck.Transfer(t.Context(), at(dir), dsn, registry.Tables{}, rules{}, true)
	if err != nil {
		t.Fatalf("Transfer, dry: %v", err)
	}
	if plan, err := engine.PlanPostgres(t.Context(), dsn); err != nil || plan.From != 0 {
		t.Errorf("after a dry run the record is %+v, %v, want none", plan, err)
	}
	done, err := fsck.Transfer(t.Context(), at(dir), dsn, registry.Tables{}, rules{}, false)
	if d := cmp.Diff(planned, done); err != nil || d != "" || done.Rows < 40 {
		t.Errorf("Transfer: %v; %d rows; (-planned +done):\n%s", err, done.Rows, d)
	}
	checkSound(t, dsn)
	copied := openPostgres(t, dsn)
	if d := cmp.Diff(want, read(t, copied), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("contents (-file +copy):\n%s", d)
	}
	// It goes on at the end of the file.
	if _, err := copied.Append(t.Context(), offer(50)); err != nil {
		t.Errorf("Append: %v", err)
	}
	if err := copied.AddAgent(t.Context(), federationtest.NewAgent("newcomer")); err != nil {
		t.Errorf("AddAgent: %v", err)
	}
	checkSound(t, dsn)
}

func copiesIntoNothing(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	dir := t.TempDir()
	record := open(t, dir, prometheus.NewRegistry())
	populate(t, record)
	if err := record.Close(); err != nil {
		t.Fatal(err)
	}
	used, diary, made := server.Record(t), server.Schema(t), server.Schema(t)
	populate(t, openPostgres(t, used))
	server.Exec(t, diary, "CREATE TABLE diary (day text)")
	for dsn, want := range map[string]string{used: "not empty", diary: "tables of another program"} {
		if _, err := fsck.Transfer(t.Context(), at(dir), dsn, registry.Tables{}, rules{}, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Transfer: %v, want %q", err, want)
		}
	}
	if _, err := engine.MigratePostgres(t.Context(), made, registry.Tables{}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := fsck.Transfer(t.Context(), at(dir), made, registry.Tables{}, rules{}, false); err != nil {
		t.Errorf("Transfer into a record with nothing in it: %v", err)
	}
	if _, err := fsck.Transfer(t.Context(), filepath.Join(dir, "other.db"), made, registry.Tables{}, rules{}, false); err == nil {
		t.Error("Transfer of no file succeeds")
	}
}

func copiesNoDamage(t *testing.T, server *postgrestest.Server) {
	t.Helper()
	dir, dsn := t.TempDir(), server.Schema(t)
	record := open(t, dir, prometheus.NewRegistry())
	populate(t, record)
	if err := record.Close(); err != nil {
		t.Fatal(err)
	}
	db := raw(t, dir)
	if _, err := db.ExecContext(t.Context(), "UPDATE event SET prev = zeroblob(32) WHERE version = 2"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := fsck.Transfer(t.Context(), at(dir), dsn, registry.Tables{}, rules{}, false); err == nil || !strings.Contains(err.Error(), "the record is damaged: chain: ") {
		t.Errorf("Transfer of a damaged record: %v", err)
	}
	if plan, err := engine.PlanPostgres(t.Context(), dsn); err != nil || plan.From != 0 {
		t.Errorf("after a copy that failed the record is %+v, %v, want none", plan, err)
	}
}

package store_test

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of the database that a test reads itself
	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/postgrestest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// oldInbox, oldName and oldGone are the webhooks of a record of version 1: of an inbox, of a
// participant, and of a deleted address.
var (
	oldInbox = federation.Webhook{ID: federationtest.ID(9001), DID: bob, URL: "https://hooks.example/1", Since: federationtest.At(1)}
	oldName  = federation.Webhook{ID: federationtest.ID(9002), DID: ada, Participant: "ada", URL: "https://hooks.example/1", Since: federationtest.At(2)}
	oldGone  = federation.Webhook{ID: federationtest.ID(9003), DID: bob, URL: "https://hooks.example/2", Since: federationtest.At(3), Disabled: federationtest.At(4), Why: "gone"}
)

func schemaOf(t *testing.T, folder string, version int) string {
	t.Helper()
	var made strings.Builder
	for n := 1; n <= version; n++ {
		for _, of := range []string{"engine", "registry"} {
			names, err := filepath.Glob(fmt.Sprintf("%s/%s/%04d_*.sql", of, folder, n))
			if err != nil || len(names) != 1 {
				t.Fatalf("version %d of %s has the migrations %v, %v", n, of, names, err)
			}
			text, err := os.ReadFile(names[0])
			if err != nil {
				t.Fatal(err)
			}
			made.Write(text)
		}
	}
	return made.String()
}

// oldRows returns statements that fill a record of version 1: its triggers queue the
// delivery of an arrival. A database writes no bytes in its own way.
func oldRows(noBytes string) string {
	return strings.NewReplacer("ADA", string(ada), "BOB", string(bob),
		"INBOX", oldInbox.ID.String(), "NAME", oldName.ID.String(), "GONE", oldGone.ID.String(),
		"HANDOFF", federationtest.ID(8001).String(), "STEP", federationtest.ID(8002).String(), "NOBYTES", noBytes).Replace(`
		INSERT INTO webhook (id, did, participant, url, since, disabled, why, due, taken) VALUES
			('INBOX', 'BOB', '', 'https://hooks.example/1', 1795262401000000000, 0, '', NULL, 7),
			('NAME', 'ADA', 'ada', 'https://hooks.example/1', 1795262402000000000, 0, '', NULL, 0),
			('GONE', 'BOB', '', 'https://hooks.example/2', 1795262403000000000, 1795262404000000000, 'gone', NULL, 0);
		INSERT INTO event (handoff, version, signer, id, digest, state, filed, body, said)
			VALUES ('HANDOFF', 1, 'ADA', 'STEP', NOBYTES, 'pending', 5, '{}', 5);
		INSERT INTO inbox (did, event, waiting, number) VALUES ('BOB', 1, 2, 1);
		INSERT INTO push (webhook, item, order_key, state, queued, attempt, reason, ended) VALUES
			('GONE', 1, 'HANDOFF', 'refused', 5, 3, 'gone', 6), ('NAME', 1, 'bob', 'delivered', 5, 1, '', 6);`)
}

// rowsOf returns the rows of a query in a database, each as the text of its one column.
func rowsOf(t *testing.T, driver, dsn, query string) (found []string) {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var row string
		if err := rows.Scan(&row); err != nil {
			t.Fatal(err)
		}
		found = append(found, strings.Join(strings.Fields(row), " "))
	}
	if err := rows.Err(); err != nil || len(found) == 0 {
		t.Fatalf("%s: %d rows, %v", query, len(found), err)
	}
	return found
}

// fileSchema lists the schema of a file.
const fileSchema = `SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY 1`

// serverSchema lists the columns, constraints, indexes, functions and triggers of a schema,
// without its name.
const serverSchema = `SELECT replace(s.line, current_schema() || '.', '') FROM (
	SELECT concat_ws(' ', 'column', table_name, ordinal_position, column_name, data_type, collation_name, is_nullable, column_default) AS line
		FROM information_schema.columns WHERE table_schema = current_schema()
	UNION ALL SELECT concat_ws(' ', 'constraint', conrelid::regclass, conname, pg_get_constraintdef(oid))
		FROM pg_constraint WHERE connamespace = current_schema()::regnamespace AND contype <> 'n'
	UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()
	UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
	UNION ALL SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
		WHERE c.relnamespace = current_schema()::regnamespace
) s ORDER BY 1`

// These queries list the rows of webhooks and of deliveries to them, in a record of version 1 and
// after its upgrade. Messages of a participant have other items since.
const (
	webhookRows = `SELECT id || ' ' || did || ' ' || participant || ' ' || url || ' ' || since || ' ' || disabled || ' ' || why || ' '
		|| coalesce(due, -1) FROM webhook ORDER BY id`
	webhookRowsNow = `SELECT id || ' ' || did || ' ' || participant || ' ' || url || ' ' || since || ' ' || disabled || ' ' || why || ' '
		|| coalesce(due, -1) FROM webhook JOIN destination d ON d.name = 'webhook/' || id ORDER BY id`
	pushRows = `SELECT webhook || ' ' || item || ' ' || order_key || ' ' || state || ' ' || queued || ' ' || attempt || ' '
		|| coalesce(next, -1) || ' ' || reason || ' ' || ended FROM push ORDER BY webhook, item`
	pushRowsNow = `SELECT substr(d.name, 9) || ' ' || CASE WHEN f.item >= 9007199254740992 THEN f.item - 9007199254740992 ELSE f.item END || ' ' || f.lane || ' ' || f.state || ' ' || f.queued || ' ' || f.attempt || ' '
		|| coalesce(f.next, -1) || ' ' || f.reason || ' ' || f.ended FROM delivery f JOIN destination d ON d.n = f.destination ORDER BY d.name, f.item`
)

// checkFirstVersion opens a record of version 1 with the program of today, beside a new one:
// both have the same schema, and the old one keeps its rows and takes new ones.
func checkFirstVersion(t *testing.T, rows func(dsn, query string) []string, old, fresh, schema string, open func(dsn string) *registry.Record) {
	t.Helper()
	queries, now := []string{webhookRows, pushRows}, []string{webhookRowsNow, pushRowsNow}
	var want [][]string
	for _, query := range queries {
		want = append(want, rows(old, query))
	}
	if len(want[1]) != 3 || len(want[0]) != 3 {
		t.Fatalf("the old record has %d webhooks and deliveries %v, want 3 of each", len(want[0]), want[1])
	}
	open(fresh)
	record := open(old)
	if diff := cmp.Diff(rows(fresh, schema), rows(old, schema)); diff != "" {
		t.Errorf("schema (-new +upgraded):\n%s", diff)
	}
	for i, query := range now {
		if diff := cmp.Diff(want[i], rows(old, query)); diff != "" {
			t.Errorf("rows (-version 1 +upgraded):\n%s", diff)
		}
	}
	found, err := record.Webhooks(t.Context(), "", federation.WebhookID{}, 10)
	if diff := cmp.Diff([]federation.Webhook{oldInbox, oldName, oldGone}, found, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Errorf("Webhooks: %v (-want +got):\n%s", err, diff)
	}
	checkPosts(t, record)
}

// checkPosts files steps in an upgraded record: the old webhook gets the arrival, a follower
// each step of its handoff.
func checkPosts(t *testing.T, record *registry.Record) {
	t.Helper()
	opened := offer(1)
	answered := federationtest.File(federationtest.Step(2, opened.Event, federation.Accept, bob), opened.View)
	follower := federation.Webhook{ID: federationtest.ID(9004), DID: bob, Handoff: opened.View.ID, Label: "one", Sealed: []byte{1}, URL: oldInbox.URL, Since: federationtest.At(5)}
	if _, err := record.Append(t.Context(), opened); err != nil {
		t.Fatal(err)
	}
	if err := record.AddWebhook(t.Context(), follower, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := record.Append(t.Context(), answered); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[federation.WebhookID]federation.EventID{oldInbox.ID: opened.Event.ID, follower.ID: answered.Event.ID} {
		pushes, err := record.Pushes(t.Context(), id, 0, 1)
		if err != nil || len(pushes) != 1 || pushes[0].Entry.Event.ID != want || pushes[0].State != federation.DeliveryWaiting {
			t.Errorf("the newest delivery to %s is %+v, %v, want %s to wait", id, pushes, err, want)
		}
	}
	if err := record.WriteJournals(t.Context(), []federation.JournalWrite{{Name: "x/a", Entries: [][]byte{[]byte("1")}}}); err != nil {
		t.Errorf("WriteJournals: %v", err)
	}
}

func TestUpgradeFromTheFirstVersion(t *testing.T) {
	t.Parallel()
	old, fresh := t.TempDir(), t.TempDir()
	if _, err := raw(t, old).ExecContext(t.Context(), schemaOf(t, "schema", 1)+oldRows("x''")+"PRAGMA user_version = 1"); err != nil {
		t.Fatal(err)
	}
	rows := func(dir, query string) []string { return rowsOf(t, "sqlite", at(dir), query) }
	checkFirstVersion(t, rows, old, fresh, fileSchema, func(dir string) *registry.Record { return open(t, dir, prometheus.NewRegistry()) })
	if damaged := rowsOf(t, "sqlite", at(old), "PRAGMA integrity_check"); damaged[0] != "ok" {
		t.Errorf("the upgraded file is damaged: %v", damaged)
	}
}

func TestUpgradeFromTheFirstVersionInPostgreSQL(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	old, fresh := server.Schema(t), server.Schema(t)
	server.Exec(t, old, schemaOf(t, "schema/postgres", 1)+oldRows("''")+
		"CREATE TABLE schema_version (version bigint NOT NULL); INSERT INTO schema_version (version) VALUES (1)")
	rows := func(dsn, query string) []string { return rowsOf(t, "pgx", dsn, query) }
	checkFirstVersion(t, rows, old, fresh, serverSchema, func(dsn string) *registry.Record {
		record, err := registry.OpenPostgres(t.Context(), dsn, prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = record.Close() })
		return record
	})
}

// A record that exists has its migrations behind it: a change to one of them reaches only new
// records.
func TestMigrationsOfReleasesAreUnchanged(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"engine/schema/0001_record.sql":              "4c803af80dac10acec3f5bea08b68e9dc873ba2a5efdc92877199cd311d1f5dc",
		"engine/schema/postgres/0001_record.sql":     "0dbb509f328304c6a6963052a4862620fae33c6600977b68924a761c6b4e87b1",
		"registry/schema/0001_registry.sql":          "01eacad022f3639ffddbbaa9b0175a5887f76495485a047e2e78469fdd77bc7c",
		"registry/schema/postgres/0001_registry.sql": "277f5382d24b276ae873969e03d6c7def204b924aba28a55f27ecb5d5dc3c385",
	} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is not what 0.1.0 has: put the change into a new migration", name)
		}
	}
}

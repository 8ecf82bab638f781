package store_test

import (
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/fsck"
	"github.com/baton-gateway/baton/federation/store/postgrestest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// fourthRows returns statements that fill a record of version 4. The agents: scout proved its key,
// amy named one below /api, kay has none, gone has a revoked one, and far is of another registry.
// Scout has a session, and so has bob, over REST; amy asked scout for consent with a message. Bob's
// inbox has two waiting steps of ada, with pending deliveries to a webhook, and a read one. Bytes
// are written in the way of a database.
func fourthRows(t *testing.T, now time.Time, bytes string) string {
	t.Helper()
	scout := federationtest.NewAgent("scout").Keys[0]
	literal := func(text []byte) string { return fmt.Sprintf(bytes, hex.EncodeToString(text)) }
	return strings.NewReplacer("BOB", string(bob), "SCOUT_DID", string(scout.DID), "SCOUT_KEY", literal(scout.Public), "KEY", literal(make([]byte, 32)),
		"BYTES", literal([]byte("{}")), "LATER", fmt.Sprint(now.Add(time.Hour).UnixNano()), "BEFORE", fmt.Sprint(now.Add(-time.Hour).UnixNano())).Replace(`
		INSERT INTO agent (handle, did, own_did, registered, kept_key, shows_presence, shows_context, issuer, subject) VALUES
			('scout', 'did:key:kept-scout', 'SCOUT_DID', BEFORE, BYTES, '', '', '', ''),
			('amy', 'did:key:kept-amy', 'did:key:kept-amy', BEFORE, BYTES, 'public', '', '', ''),
			('kay', 'did:key:kept-kay', 'did:key:kept-kay', BEFORE, BYTES, 'public', '', '', ''),
			('gone', 'did:key:kept-gone', 'did:key:kept-gone', BEFORE, BYTES, 'public', '', '', ''),
			('far@reg.example', 'did:key:kept-far', 'did:key:kept-far', BEFORE, BYTES, '', '', '', '');
		INSERT INTO agent_key (handle, n, id, public, created, did, expires, revoked) VALUES
			('scout', 0, 'k_scout', SCOUT_KEY, BEFORE, 'SCOUT_DID', 0, 0),
			('amy', 0, 'k_amy', KEY, BEFORE, '', 0, 0),
			('gone', 0, 'k_gone', KEY, BEFORE, '', 0, BEFORE);
		INSERT INTO session (id, participant, generation, expires) VALUES
			('of scout', 'scout', 3, LATER), ('of bob', 'BOB', 5, LATER), ('over', 'scout', 1, BEFORE);
		INSERT INTO consent (sender, recipient, state, updated, version, asked) VALUES ('amy', 'scout', 'pending', BEFORE, 1, BEFORE);
		INSERT INTO message (id, sender, recipient, low, high, envelope, received, edge) VALUES ('m1', 'amy', 'scout', 'amy', 'scout', BYTES, BEFORE, 'amy');`) +
		fourthInbox(t, bytes)
}

var fourthHook = federation.Webhook{ID: federationtest.ID(9001), DID: bob, URL: "https://hooks.example/1", Since: federationtest.At(1)}

// fourthSteps are the steps in bob's inbox in a record of version 4: three offers, and the end of the first one.
func fourthSteps() []federation.Filing {
	first := offer(1)
	return []federation.Filing{first, federationtest.File(federationtest.Step(2, first.Event, federation.Cancel, ada), first.View), offer(3), offer(4)}
}

// fourthInbox returns statements that fill bob's inbox. The triggers of version 4 write the sums and the deliveries. He has
// read the third offer.
func fourthInbox(t *testing.T, bytes string) string {
	t.Helper()
	var rows strings.Builder
	fmt.Fprintf(&rows, `INSERT INTO webhook (id, did, participant, handoff, label, url, since) VALUES ('%s', '%s', '', '', '', '%s', %d);`,
		fourthHook.ID, bob, fourthHook.URL, fourthHook.Since.UnixNano())
	for n, f := range fourthSteps() {
		body, err := json.Marshal(f.Event)
		digest := f.Event.Digest()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&rows, `INSERT INTO event (handoff, version, signer, id, digest, state, filed, body, said) VALUES ('%s', %d, '%s', '%s', `+bytes+`, '%s', %d, '%s', %d);`,
			f.View.ID, f.View.Version, f.Event.From, f.Event.ID, hex.EncodeToString(digest[:]), f.View.State, f.Filed.UnixNano(), body, f.Event.ShownAt().UnixNano())
		fmt.Fprintf(&rows, `INSERT INTO inbox (did, event, waiting, number) VALUES ('%s', %d, %d, %d);`, bob, n+1, len(f.Event.Signature.Document), n+1)
	}
	fmt.Fprintf(&rows, `UPDATE inbox SET waiting = NULL, outcome = 'delivered', ended = 9 WHERE did = '%s' AND event = 4;`, bob)
	return rows.String()
}

// checkFourthInbox ends entries that version 4 counted and pushes that it queued. The sums stay right.
func checkFourthInbox(t *testing.T, record *registry.Record, now time.Time) {
	t.Helper()
	ctx, steps := t.Context(), fourthSteps()
	size := func(of ...int) (n int64) {
		for _, i := range of {
			n += int64(len(steps[i].Event.Signature.Document))
		}
		return n
	}
	use := func(when string, entries int, bytes int64) {
		t.Helper()
		want := federation.InboxUse{Entries: entries, Bytes: bytes, SenderEntries: entries, SenderBytes: bytes}
		if got, err := record.Use(ctx, bob, ada); got != want || err != nil {
			t.Errorf("%s the inbox has %+v, %v, want %+v", when, got, err, want)
		}
	}
	use("after the upgrade", 3, size(0, 1, 2))
	for _, i := range []int{0, 1} { // the second one waits behind the first
		p := next(t, record, fourthHook, 100)
		if p.Ref() != steps[i].Event.ID.String() {
			t.Fatalf("due is %s, want %s", p.Ref(), steps[i].Event.ID)
		}
		if err := record.Rows().Settle(ctx, federation.WebhookName(fourthHook.ID), []int64{p.Item}, federation.Settlement{At: now}); err != nil {
			t.Fatal(err)
		}
	}
	use("after two deliveries", 1, size(2))
	fresh := offer(5)
	mustAppend(t, record, fresh)
	use("after a new offer", 2, size(2)+int64(len(fresh.Event.Signature.Document)))
	if err := record.Read(ctx, bob, []federation.EventID{steps[2].Event.ID, fresh.Event.ID}, now); err != nil {
		t.Fatal(err)
	}
	use("after all was read", 0, 0)
	if got := pushed(t, record, fourthHook); len(got) != 5 || got[0] != line(5, federation.DeliveryWaiting) {
		t.Errorf("the deliveries are %v, want the new offer first", got)
	}
}

// checkFourthVersion opens a record of version 4 with the program of today: it has the schema of a new one, and its agents,
// sessions and first contacts go on.
func checkFourthVersion(t *testing.T, rows func(dsn, query string) []string, old, fresh, schema string, open func(dsn string) *registry.Record) {
	t.Helper()
	now := time.Now()
	open(fresh)
	record := open(old)
	if diff := cmp.Diff(rows(fresh, schema), rows(old, schema)); diff != "" {
		t.Errorf("schema (-new +upgraded):\n%s", diff)
	}
	for handle, want := range map[string]federation.Began{"scout": "", "amy": federation.BeganHeader, "kay": "", "gone": federation.BeganHeader, "far@reg.example": ""} {
		agent, err := record.Agent(t.Context(), handle)
		if err != nil || agent.Began != want || agent.Recovery != nil || !agent.Released.IsZero() {
			t.Errorf("agent %s is %+v, %v, want that it began %q", handle, agent, err, want)
		}
	}
	lives := map[string]bool{"of scout": true, "of bob": true, "over": false, "api:scout": true, "api:amy": true, "api:kay": true, "api:gone": false, "api:far@reg.example": false}
	for id, want := range lives {
		s, err := record.Session(t.Context(), id, now)
		if want != (err == nil) || err != nil && !errors.Is(err, federation.ErrNotFound) {
			t.Errorf("session %q: %v, want that it lives: %t", id, err, want)
		}
		if want && (s.Began != federation.BeganRefresh || s.Key != "" || s.Bound) {
			t.Errorf("session %q is %+v", id, s)
		}
	}
	const month = 30 * 24 * time.Hour
	if s, err := record.Session(t.Context(), "api:amy", now); err != nil || s.Expires.Sub(now) < month-time.Hour || s.Expires.Sub(now) > month+time.Hour {
		t.Errorf("the session of a token of /api ends at %s, %v, want in 30 days", s.Expires, err)
	}
	for id, generation := range map[string]uint64{"of scout": 3, "of bob": 5} {
		next, err := record.AdvanceSession(t.Context(), id, generation, now, now.Add(2*time.Hour))
		if err != nil || next.Generation != generation+1 {
			t.Errorf("a refresh of session %q: %+v, %v", id, next, err)
		}
	}
	if _, err := record.Accept(t.Context(), "amy", "scout", now); err != nil {
		t.Errorf("Accept: %v", err)
	}
	inbox, _, err := record.Inbox(t.Context(), "scout", "", 5)
	if err != nil || len(inbox) != 1 || inbox[0].ID != "m1" || inbox[0].From != "amy" {
		t.Errorf("the inbox of scout has %+v, %v", inbox, err)
	}
	checkFourthInbox(t, record, now)
	checkRevocation(t, record, now)
}

// checkRevocation revokes keys: a session from before, whose key is unknown, ends with each of them.
func checkRevocation(t *testing.T, record *registry.Record, now time.Time) {
	t.Helper()
	if err := record.Revoke(t.Context(), bob, "any", now); err != nil {
		t.Errorf("Revoke: %v", err)
	}
	if _, err := record.RevokeKey(t.Context(), "scout", "k_scout", "k_scout", "lost", now); err != nil {
		t.Errorf("RevokeKey: %v", err)
	}
	for _, id := range []string{"of scout", "api:scout", "of bob"} {
		if _, err := record.Session(t.Context(), id, now.Add(time.Second)); !errors.Is(err, federation.ErrSessionEnded) {
			t.Errorf("session %q after a key was revoked: %v", id, err)
		}
	}
	if _, err := record.Session(t.Context(), "api:amy", now.Add(time.Second)); err != nil {
		t.Errorf("the session of amy after the key of scout was revoked: %v", err)
	}
	agent, err := record.Agent(t.Context(), "scout")
	if err != nil || agent.Keys[0].Status(now.Add(time.Second)) != agents.KeyStatusRevoked {
		t.Errorf("scout is %+v, %v", agent, err)
	}
}

func TestUpgradeFromTheFourthVersion(t *testing.T) {
	t.Parallel()
	old, fresh := t.TempDir(), t.TempDir()
	if _, err := raw(t, old).ExecContext(t.Context(), schemaOf(t, "schema", 4)+fourthRows(t, time.Now(), "x'%s'")+"PRAGMA user_version = 4"); err != nil {
		t.Fatal(err)
	}
	rows := func(dir, query string) []string { return rowsOf(t, "sqlite", at(dir), query) }
	checkFourthVersion(t, rows, old, fresh, fileSchema, func(dir string) *registry.Record { return open(t, dir, prometheus.NewRegistry()) })
	checkDerived(t, raw(t, old))
}

func TestUpgradeFromTheFourthVersionInPostgreSQL(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	old, fresh := server.Schema(t), server.Schema(t)
	server.Exec(t, old, schemaOf(t, "schema/postgres", 4)+fourthRows(t, time.Now(), `'\x%s'`)+fourthServer)
	rows := func(dsn, query string) []string { return rowsOf(t, "pgx", dsn, query) }
	checkFourthVersion(t, rows, old, fresh, serverSchema, func(dsn string) *registry.Record { return openServer(t, dsn) })
	db, err := sql.Open("pgx", old)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	checkDerived(t, db)
}

// fourthServer makes a record on PostgreSQL one of version 4.
const fourthServer = "CREATE TABLE schema_version (version bigint NOT NULL); INSERT INTO schema_version (version) VALUES (4)"

func openServer(t *testing.T, dsn string) *registry.Record {
	t.Helper()
	record, err := registry.OpenPostgres(t.Context(), dsn, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = record.Close() })
	return record
}

func TestUpgradeConvertsEventsOfTheFourthVersion(t *testing.T) {
	t.Parallel()
	dir, events := t.TempDir(), newWholeEvents(t, literals("x'%s'"))
	if _, err := raw(t, dir).ExecContext(t.Context(), schemaOf(t, "schema", 4)+events.sql.String()+"PRAGMA user_version = 4"); err != nil {
		t.Fatal(err)
	}
	record := open(t, dir, prometheus.NewRegistry())
	examine := func(rules fsck.Rules) (fsck.Report, error) {
		return fsck.Examine(t.Context(), at(dir), registry.Tables{}, rules)
	}
	events.check(t, record, func(query string) []string { return rowsOf(t, "sqlite", at(dir), query) }, examine)
}

func TestUpgradeConvertsEventsOfTheFourthVersionInPostgreSQL(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	dsn, events := server.Schema(t), newWholeEvents(t, literals(`'\x%s'`))
	server.Exec(t, dsn, schemaOf(t, "schema/postgres", 4)+events.sql.String()+fourthServer)
	record := openServer(t, dsn)
	examine := func(rules fsck.Rules) (fsck.Report, error) {
		return fsck.ExaminePostgres(t.Context(), dsn, registry.Tables{}, rules)
	}
	events.check(t, record, func(query string) []string { return rowsOf(t, "pgx", dsn, query) }, examine)
}

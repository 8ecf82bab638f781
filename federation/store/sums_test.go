package store_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// derived are queries for rows that contradict the rows that they are derived from, each as one
// text. None finds any after a write.
var derived = []string{
	// The sums of an inbox and of its shares count the waiting entries.
	`SELECT 'mailbox of ' || m.did FROM mailbox m WHERE m.entries <> (SELECT count(*) FROM inbox i WHERE i.did = m.did AND i.waiting IS NOT NULL)
		OR m.size <> (SELECT coalesce(sum(i.waiting), 0) FROM inbox i WHERE i.did = m.did AND i.waiting IS NOT NULL)
		OR m.number < (SELECT coalesce(max(i.number), 0) FROM inbox i WHERE i.did = m.did)`,
	`SELECT 'no mailbox of ' || i.did FROM inbox i WHERE NOT EXISTS (SELECT 1 FROM mailbox m WHERE m.did = i.did)`,
	`SELECT 'share of ' || s.sender || ' in ' || s.did FROM share s WHERE s.entries = 0
		OR s.entries <> (SELECT count(*) FROM inbox i JOIN event e ON e.seq = i.event WHERE i.did = s.did AND e.signer = s.sender AND i.waiting IS NOT NULL)
		OR s.size <> (SELECT coalesce(sum(i.waiting), 0) FROM inbox i JOIN event e ON e.seq = i.event WHERE i.did = s.did AND e.signer = s.sender AND i.waiting IS NOT NULL)`,
	`SELECT 'no share of ' || e.signer || ' in ' || i.did FROM inbox i JOIN event e ON e.seq = i.event
		WHERE i.waiting IS NOT NULL AND NOT EXISTS (SELECT 1 FROM share s WHERE s.did = i.did AND s.sender = e.signer)`,
	// The first waiting delivery of a lane has a time, a later one has none, and a webhook with one is due.
	`SELECT 'stuck delivery to ' || f.destination FROM delivery f WHERE f.state = 'waiting' AND f.next IS NULL
		AND f.item = (SELECT min(b.item) FROM delivery b WHERE b.destination = f.destination AND b.lane = f.lane AND b.state = 'waiting' AND b.rank <> 5)`,
	`SELECT 'second delivery to ' || f.destination FROM delivery f WHERE f.state = 'waiting' AND f.next IS NOT NULL AND f.rank <> 5
		AND f.item > (SELECT min(b.item) FROM delivery b WHERE b.destination = f.destination AND b.lane = f.lane AND b.state = 'waiting' AND b.rank <> 5)`,
	`SELECT 'ended delivery to ' || f.destination FROM delivery f WHERE f.state <> 'waiting' AND (f.next IS NOT NULL OR f.ended = 0)`,
	`SELECT d.name FROM destination d JOIN webhook h ON 'webhook/' || h.id = d.name WHERE h.disabled = 0 AND d.due IS NULL
		AND EXISTS (SELECT 1 FROM delivery f WHERE f.destination = d.n AND f.next IS NOT NULL)`,
	// Rows that end with others.
	`SELECT 'delivery to ' || f.destination FROM delivery f WHERE NOT EXISTS (SELECT 1 FROM destination d WHERE d.n = f.destination)`,
	`SELECT d.name FROM destination d WHERE d.kind = 'webhook' AND NOT EXISTS (SELECT 1 FROM webhook h WHERE 'webhook/' || h.id = d.name)`,
	`SELECT 'attempt on ' || a.item FROM attempt a WHERE NOT EXISTS (SELECT 1 FROM delivery f WHERE f.item = a.item AND f.destination = a.destination)`,
	`SELECT 'follower ' || h.id FROM webhook h WHERE h.handoff <> '' AND NOT EXISTS (SELECT 1 FROM handoff g WHERE g.id = h.handoff)`,
	`SELECT 'delivery of ' || f.item FROM delivery f WHERE f.item < 4503599627370496 AND NOT EXISTS (SELECT 1 FROM event e WHERE e.seq = f.item)
		OR f.item >= 4503599627370496 AND f.item < 9007199254740992 AND NOT EXISTS (SELECT 1 FROM notice n WHERE n.n = f.item - 4503599627370496)
		OR f.item >= 9007199254740992 AND f.item < 13510798882111488 AND NOT EXISTS (SELECT 1 FROM message m WHERE m.n = f.item - 9007199254740992)
		OR f.item >= 13510798882111488 AND NOT EXISTS (SELECT 1 FROM document o WHERE o.n = f.item - 13510798882111488)`,
	`SELECT 'document ' || o.n FROM document o WHERE NOT EXISTS (SELECT 1 FROM delivery f WHERE f.item = o.n + 13510798882111488)`,
	`SELECT 'unseen ' || u.handoff FROM unseen u WHERE NOT EXISTS (SELECT 1 FROM handoff h WHERE h.id = u.handoff AND h.clock = 'unanswered')`,
}

func checkDerived(t *testing.T, db *sql.DB) {
	t.Helper()
	rows, err := db.Query(strings.Join(derived, " UNION ALL ")) //nolint:noctx // it runs at the end of a test, after its context
	if err != nil {
		t.Errorf("read derived rows: %v", err)
		return
	}
	defer rows.Close()
	for rows.Next() {
		var wrong string
		if err := rows.Scan(&wrong); err != nil {
			t.Error(err)
		}
		t.Errorf("wrong after the test: %s", wrong)
	}
	if err := rows.Err(); err != nil {
		t.Error(err)
	}
}

func TestSchemaHasNoTriggers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir, prometheus.NewRegistry())
	if n := rowsOf(t, "sqlite", at(dir), `SELECT count(*) FROM sqlite_master WHERE type = 'trigger'`)[0]; n != "0" {
		t.Errorf("a file has %s triggers", n)
	}
}

// checkAttempts prunes a handoff after failed attempts on its steps. The attempts query returns how
// many are in the record.
func checkAttempts(t *testing.T, record *registry.Record, attempts func() string) {
	t.Helper()
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	mustAppend(t, record, offer)
	follower, inbox := follow(t, record, 1, offer.Event.ID), addWebhook(t, record, 2, ada)
	judge := federationtest.NewAgent("judge")
	if err := record.AddAgent(t.Context(), judge); err != nil {
		t.Fatal(err)
	}
	messages := federation.Webhook{ID: federationtest.ID(9003), DID: judge.DID, Participant: judge.Handle, URL: "https://hooks.example/3", Since: federationtest.At(1)}
	if err := record.AddWebhook(t.Context(), messages, 10); err != nil {
		t.Fatal(err)
	}
	step := federationtest.Message(1, "scout", judge.Handle)
	step.Event, step.Handoff = offer.Event.ID, offer.Event.ID
	post(t, record, agents.Posting{Message: step})
	post(t, record, agents.Posting{Message: federationtest.Message(3, "scout", judge.Handle)})
	declined := federationtest.File(federationtest.Step(2, offer.Event, federation.Decline, bob), offer.View)
	mustAppend(t, record, declined)
	mustAppend(t, record, federationtest.File(federationtest.Offer(3, ada, bob), federation.View{}))
	for _, h := range []federation.Webhook{follower, inbox, messages} {
		failed := federation.Failure{Reason: "status 500", At: federationtest.At(10), Next: federationtest.At(20)}
		if err := record.Rows().Failed(t.Context(), federation.WebhookName(h.ID), next(t, record, h, 10).Item, failed); err != nil {
			t.Fatal(err)
		}
	}
	if n := attempts(); n != "3" {
		t.Fatalf("%s attempts before the handoff is pruned, want 3", n)
	}
	if n, _, err := record.Prune(t.Context(), federationtest.At(100), federationtest.At(100), "", 10); n != 1 || err != nil {
		t.Fatalf("Prune = %d, %v", n, err)
	}
	if n := attempts(); n != "0" {
		t.Errorf("%s attempts after the handoff was pruned, want none", n)
	}
}

const countAttempts = `SELECT CAST(count(*) AS text) FROM attempt`

func TestPruneForgetsAttemptsToFollowers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	checkAttempts(t, open(t, dir, prometheus.NewRegistry()), func() string { return rowsOf(t, "sqlite", at(dir), countAttempts)[0] })
}

func TestPruneConversationsReadsNoTableAsAWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	record := open(t, dir, prometheus.NewRegistry())
	const amy, ben = federation.DID("did:web:amy.example"), federation.DID("did:web:ben.example")
	for n := 1; n <= 2; n++ {
		if _, _, err := record.FileText(t.Context(), said(n, amy, ben, "", federationtest.ID(99))); err != nil {
			t.Fatal(err)
		}
	}
	if err := record.Read(t.Context(), ben, []federation.EventID{federationtest.ID(1)}, federationtest.At(5)); err != nil {
		t.Fatal(err)
	}
	if n, err := record.PruneConversations(t.Context(), federationtest.At(50), 10); n != 1 || err != nil {
		t.Fatalf("PruneConversations = %d, %v; want the message that was read", n, err)
	}
	if entries, err := record.Replay(t.Context(), ben, "", 10); len(entries) != 1 || err != nil {
		t.Errorf("the inbox has %d entries, %v; want the newest", len(entries), err)
	}
	for _, query := range record.Queries() {
		if strings.Contains(query, "inbox") || strings.Contains(query, "delivery") {
			checkPlan(t, raw(t, dir), query)
		}
	}
	checkDerived(t, raw(t, dir))
}

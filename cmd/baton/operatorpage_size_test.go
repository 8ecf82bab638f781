//go:build interop && long

package main_test

import (
	"database/sql"
	"html"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The time limit of a page of a large record, and the size of the record. A page is answered within half a
// second on an idle machine. The bound is for an instrumented program on a busy one: a page that reads
// the whole record takes longer even there.
const (
	pageWithin    = 2 * time.Second
	manyHandoffs  = 100_000
	manyWaiting   = 10_000
	olderThanSeen = 20 // pages until a search has seen all handoffs
)

// manyRows fills the record of a gateway that does not run. The third handoff has a title of its own, and
// the oldest ones have deliveries that wait.
const manyRows = `
	INSERT INTO actor (did, signed) VALUES ('did:plc:annannannannannannannann', 1), ('did:plc:benbenbenbenbenbenbenben', 0);
	WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < ?1)
	INSERT INTO handoff (id, version, view, head, state, offerer, offeree, moved, over, clock, since)
	SELECT '01' || substr('000000000000000000000000' || i, -24), 1, json_object('id', '01' || substr('000000000000000000000000' || i, -24), 'kind', 'handoff',
			'dialect', 'handoff', 'version', 1, 'state', 'offered', 'home', 'gw.test', 'venue', '#ops', 'offerer', 'did:plc:annannannannannannannann',
			'offeree', 'did:plc:benbenbenbenbenbenbenben', 'title', CASE i WHEN 3 THEN 'The Needle in it' ELSE 'Job number ' || i || ' with the usual words' END,
			'opened', '2026-11-23T20:12:14Z', 'moved', '2026-11-23T20:12:14Z'),
		zeroblob(32), 'offered', a.n, b.n, 1795262401000000000 + i, 0, '', 0
	FROM c, actor a, actor b WHERE a.did = 'did:plc:annannannannannannannann' AND b.did = 'did:plc:benbenbenbenbenbenbenben';
	INSERT INTO event (handoff, version, signer, id, digest, minted, prev, state, filed, document, body, said)
	SELECT id, 1, offerer, id, CAST(id AS BLOB), 0, zeroblob(32), state, moved, CAST('{}' AS BLOB), json_object('step', json_object('id', id, 'handoff', id,
			'kind', 'handoff', 'verb', 'offer', 'from', view ->> 'offerer', 'venue', '#ops', 'dialect', 'handoff', 'title', view ->> 'title', 'provenance', 'signed'),
			'network', 'spanningtree', 'link', 'lab'), moved
	FROM handoff ORDER BY id LIMIT ?2;
	INSERT INTO destination (name, kind) VALUES ('lab', 'link') ON CONFLICT DO NOTHING;
	INSERT INTO delivery (item, destination, lane, sender, rank, queued, next) SELECT e.seq, d.n, e.handoff, e.signer, 0, e.filed, 0 FROM event e JOIN destination d ON d.name = 'lab';`

func TestOperatorPageReadsAPartOfALargeRecord(t *testing.T) {
	h := newHouse(t, linkTable("lab", "irc.test", "127.0.0.1:1"), "[retention]\nunanswered = \"0s\"\nundelivered = \"0s\"\n")
	h.keep(t, "lab.send", "planted-send")
	h.keep(t, "lab.recv", "planted-recv")
	h.start(t)
	token := h.operatorToken(t, "read")
	h.stop(t)
	db, err := sql.Open("sqlite", filepath.Join(h.dir, "data", "baton.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), manyRows, manyHandoffs, manyWaiting); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	h.start(t)
	b := loggedIn(t, h, token)
	for _, path := range []string{
		"links", "links/lab", "feeds", "handoffs", "handoffs?state=offered", "handoffs?search=usual", "handoffs?search=nowhere", "handoffs?search=000009",
		"handoffs/01000000000000000000000003", "dead", "peers", "keys", "policy", "audit", "webhooks", "blocks", "bindings", "top", "feeds?link=lab",
	} {
		b.answersSoon(t, "/ui/"+path)
	}

	older := regexp.MustCompile(`class="older" href="([^"]*)"`)
	for path, pages := "/ui/handoffs?search=needle", 0; ; pages++ {
		page := b.answersSoon(t, path)
		if strings.Contains(page, "The Needle in it") {
			break
		}
		next := older.FindStringSubmatch(page)
		if next == nil || pages == olderThanSeen {
			t.Fatalf("the search ends after %d pages without the handoff", pages)
		}
		if path = html.UnescapeString(next[1]); !strings.HasPrefix(path, "/") {
			path = "/ui/handoffs" + path
		}
	}
}

// answersSoon returns a page. The fastest of three answers counts: the machine may be busy.
func (b *tab) answersSoon(t *testing.T, path string) string {
	t.Helper()
	var page seen
	fastest := time.Hour
	for range 3 {
		start := time.Now()
		page = b.wants(t, http.StatusOK, path, nil)
		fastest = min(fastest, time.Since(start))
	}
	if t.Logf("%-48s %v", path, fastest.Round(time.Millisecond)); fastest > pageWithin {
		t.Errorf("%s takes %v, want %v", path, fastest, pageWithin)
	}
	return page.text
}

package rest_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/agents/rest"
	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/federation"
)

// counted counts how often inboxes are read.
type counted struct {
	participant.Inbox

	reads atomic.Int64
}

func (c *counted) Replay(ctx context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error) {
	c.reads.Add(1)
	return c.Inbox.Replay(ctx, to, after, limit)
}

func TestTopicSharesOneRead(t *testing.T) {
	const polls, leases = 50, 3
	synctest.Test(t, func(t *testing.T) {
		var record *counted
		w := newWorld(t, func(d *rest.Deps) {
			record = &counted{Inbox: d.Inbox}
			d.Inbox = record
		})
		eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
		answers, leased := make(chan answer, polls), make(chan answer, leases)
		for range polls {
			go func() { answers <- scholar.get(t, "/api/v1/inbox?wait=50s") }()
		}
		for range leases {
			go func() { leased <- scholar.post(t, "/api/v1/inbox/lease?wait=5s", map[string]any{"device": "desk"}) }()
		}
		synctest.Wait()
		before := record.reads.Load()
		eliza.offer(t, map[string]any{"to": scholar.did, "title": "Cite three sources"})
		for range polls {
			if got := <-answers; got.Status != http.StatusOK || !strings.Contains(got.Text, "Cite three sources") {
				t.Errorf("answered %d %s", got.Status, got.Text)
			}
		}
		if n := record.reads.Load() - before; n > 2 {
			t.Errorf("%d clients read the inbox %d times", polls, n)
		}
		given := 0
		for range leases {
			given += len(decode[contract.Leases](t, <-leased, http.StatusOK).Items)
		}
		if given != 1 {
			t.Errorf("the one that waits was leased %d times", given)
		}
	})
}

func TestTopicShowsAClientItsOwnAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
		answers, lasting := make(chan answer, 2), make(chan answer, 1)
		for range cap(answers) {
			go func() { answers <- scholar.get(t, "/api/v1/inbox?wait=50s") }()
		}
		synctest.Wait()
		eliza.offer(t, map[string]any{"to": scholar.did, "title": "x"})
		cursor := decode[contract.InboxPage](t, <-answers, http.StatusOK).NextCursor
		go func() { lasting <- scholar.get(t, "/api/v1/inbox?wait=50s&cursor="+cursor) }() // for as long as one waits, pages are kept
		<-answers
		synctest.Wait()
		if got := scholar.post(t, "/api/v1/inbox/ack", map[string]any{"device": "desk", "cursor": cursor}); got.Status != http.StatusNoContent {
			t.Fatalf("an ack is answered %d %s", got.Status, got.Text)
		}
		page := decode[contract.InboxPage](t, scholar.get(t, "/api/v1/inbox?wait=1s"), http.StatusOK)
		if len(page.Items) != 1 || page.Items[0].Waits {
			t.Errorf("after the ack %+v", page.Items)
		}
		if got := decode[contract.InboxPage](t, <-lasting, http.StatusOK); len(got.Items) != 0 {
			t.Errorf("the client that waited for more has %+v", got.Items)
		}
	})
}

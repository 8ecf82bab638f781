package main_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/admin"
)

func TestPurgeEndsOffersOfABlockedSource(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	mallory, eliza, bob := logIn(t, v.url()), logIn(t, v.url()), logIn(t, v.url())
	theirs := mallory.offer(t, map[string]any{"title": "junk", "to": string(bob.did)})
	taken := mallory.offer(t, map[string]any{"title": "more junk", "to": string(bob.did)})
	bob.step(t, taken, "accept", nil)
	mallory.offer(t, map[string]any{"title": "first contact", "to": v.scout.DID})
	kept := eliza.offer(t, map[string]any{"title": "work", "to": string(bob.did)})

	var planned, done, again admin.Blocked
	block := []string{"block", "add", string(mallory.did), "--purge", "--yes", "--for", "1h", "--reason", "floods"}
	v.asks(t, &planned, append(block, "--dry-run")...)
	mallory.must(t, http.StatusOK, http.MethodGet, "inbox", nil, nil)
	v.asks(t, &done, block...)
	if done.Purged == nil || done.Purged.Handoffs != 3 || done.Purged.Inbox == 0 || done.Purged.Messages == 0 || *planned.Purged != *done.Purged || !planned.DryRun {
		t.Errorf("a purge did %+v, and was to do %+v", done.Purged, planned.Purged)
	}
	if life := done.Expires; life.IsZero() || done.Reason != "floods" {
		t.Errorf("the block is %+v", done.Block)
	}
	v.asks(t, &again, block...)
	if *again.Purged != (admin.Purged{}) {
		t.Errorf("a second purge did %+v", again.Purged)
	}

	var shown struct {
		State string
		Steps []struct{ Note string }
	}
	for id, want := range map[string]string{theirs: "expired", taken: "expired", kept: "offered"} {
		if v.asks(t, &shown, "handoff", "show", id); shown.State != want {
			t.Errorf("handoff %s is %s, want %s", id, shown.State, want)
		}
	}
	var titles []string
	for _, entry := range bob.reads(t, "") {
		titles = append(titles, entry.Step.Verb+" "+entry.Step.Title+entry.Step.Note)
	}
	if all := strings.Join(titles, "|"); strings.Contains(all, "junk") || !strings.Contains(all, "offer work") || !strings.Contains(all, "blocked the offerer") {
		t.Errorf("the inbox of the other party has %s", all)
	}
	mallory.must(t, http.StatusForbidden, http.MethodPost, "handoffs", map[string]any{"title": "again", "to": string(bob.did)}, nil)

	var audit struct{ Items []admin.Change }
	v.asks(t, &audit, "audit", "list")
	if len(audit.Items) != 2 || audit.Items[0].What != "block add, purge" || audit.Items[0].Subject != string(mallory.did) || audit.Items[0].Reason != "floods" {
		t.Errorf("the audit log has %+v", audit.Items)
	}
	if out, err := v.command(t, "block", "add", string(mallory.did), "--purge").Output(); err == nil {
		t.Errorf("a purge is made without a question: %s", out)
	}
	for _, what := range []string{"192.0.2.0/24", "mallory!*@lab"} {
		if out, err := v.command(t, "block", "add", what, "--purge", "--yes").Output(); err == nil {
			t.Errorf("a purge of %s is made: %s", what, out)
		}
	}
	for _, what := range []string{"did:web:gw.test", "host:gw.test", "x!*@nolink", "no one"} {
		if out, err := v.command(t, "block", "add", what).Output(); err == nil {
			t.Errorf("%s can be blocked: %s", what, out)
		}
	}
	var listed struct{ Items []admin.Block }
	v.asks(t, &listed, "block", "list")
	if len(listed.Items) != 1 || listed.Items[0].What != string(mallory.did) {
		t.Errorf("blocks are %+v", listed.Items)
	}

	// It holds after a restart of the gateway, and top counts it.
	v.stop(t)
	v.start(t)
	v.ready(t)
	mallory.must(t, http.StatusForbidden, http.MethodGet, "inbox", nil, nil)
	eliza.offer(t, map[string]any{"title": "counted", "to": string(bob.did)})
	var top struct{ Items []admin.Sender }
	v.asks(t, &top, "top")
	if len(top.Items) != 2 || top.Items[0].Name != string(eliza.did) || top.Items[0].Steps != 1 || top.Items[0].Bytes == 0 || top.Items[1].Blocked != 1 {
		t.Errorf("top is %+v", top.Items)
	}
	v.asks(t, &struct{}{}, "block", "remove", string(mallory.did))
	mallory.must(t, http.StatusOK, http.MethodGet, "inbox", nil, nil)
}

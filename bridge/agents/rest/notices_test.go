package rest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

// tell does the gateway's work of each second: a step under way for five minutes is
// delayed, and due notices are sent.
func (w *world) tell(t *testing.T) {
	t.Helper()
	now := time.Now()
	if _, err := w.record.Delay(t.Context(), now.Add(-federation.DelayNotice), now, 100); err != nil {
		t.Fatal(err)
	}
	due, err := storetest.DueNotices(t.Context(), w.record, federation.InboxLink, now, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range due {
		if err := w.link.Notify(t.Context(), *d.Notice); err != nil {
			t.Fatal(err)
		}
	}
	if err := storetest.EndNotices(t.Context(), w.record, federation.InboxLink, now, due...); err != nil {
		t.Fatal(err)
	}
}

// notices returns the notices of an agent after a cursor.
func (a *agent) notices(t *testing.T, cursor string) (said []string, next string) {
	t.Helper()
	page := decode[contract.NoticePage](t, a.get(t, "/api/v1/notices?cursor="+cursor), http.StatusOK)
	for _, n := range page.Items {
		said = append(said, saidBy(n))
	}
	return said, page.NextCursor
}

// saidBy returns the kind and the subject of a notice.
func saidBy(n contract.Notice) string { return n.Notice + " " + n.EventID + n.WebhookID }

func TestNoticeInformsTheSigner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.call(t)
		eliza, scout := w.login(t, "eliza"), w.login(t, "scout")
		eliza.hook(t, "https://eliza.example/hook")
		watched, stop, _ := eliza.look(t, "")
		defer stop()
		offer := eliza.offer(t, map[string]any{"to": scout.did, "title": "Cite three sources"})
		w.tell(t)
		if said, _ := eliza.notices(t, ""); len(said) != 0 || watched.shows() != ": here\n\n" {
			t.Errorf("told at once: %v", said)
		}
		time.Sleep(federation.DelayNotice)
		w.tell(t)
		said, cursor := eliza.notices(t, "")
		if d := cmp.Diff([]string{"delayed " + offer}, said); d != "" {
			t.Fatalf("after five minutes (-want +got):\n%s", d)
		}
		inbox := decode[contract.InboxPage](t, scout.get(t, "/api/v1/inbox"), http.StatusOK)
		scout.post(t, "/api/v1/inbox/ack", map[string]any{"device": "desk", "cursor": inbox.NextCursor})
		w.tell(t)
		w.tell(t)
		if later, _ := eliza.notices(t, cursor); cmp.Diff([]string{"delivered " + offer}, later) != "" {
			t.Errorf("after it was read: %v", later)
		}
		if other, _ := scout.notices(t, ""); len(other) != 0 {
			t.Errorf("somebody else is told %v", other)
		}
		refused(t, scout.get(t, "/api/v1/notices?cursor="+cursor), http.StatusBadRequest, "usage")

		shown := watched.shows()
		if strings.Count(shown, "event: notice\n") != 2 || strings.Count(shown, "id: ") != 2 || !strings.Contains(shown, "id: ."+cursor+"\n") {
			t.Errorf("who watches is shown %q", shown)
		}
		time.Sleep(time.Second)
		var posted []string
		bodies, _ := w.outside.got()
		for _, b := range bodies {
			posted = append(posted, b.Type+" "+b.Notice.EventID)
		}
		if d := cmp.Diff([]string{"notice.delayed " + offer, "notice.delivered " + offer}, posted); d != "" {
			t.Errorf("posted (-want +got):\n%s", d)
		}
	})
}

func TestNoticesAreReadUpToTheLastEventID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		eliza, scout := w.login(t, "eliza"), w.login(t, "scout")
		watched, stop, _ := eliza.look(t, "")
		defer stop()
		eliza.offer(t, map[string]any{"to": scout.did, "title": "whose signer is told that it takes time"})
		time.Sleep(federation.DelayNotice)
		w.tell(t)
		ack := func(waiting int) {
			t.Helper()
			_, last, _ := strings.Cut(watched.shows(), "id: ")
			id, _, _ := strings.Cut(last, "\n")
			if got := eliza.post(t, "/api/v1/inbox/ack", map[string]any{"device": "desk", "cursor": id}); got.Status != http.StatusNoContent {
				t.Errorf("an ack of %q is answered %d %s", id, got.Status, got.Text)
			}
			if desk := decode[contract.InboxPage](t, eliza.get(t, "/api/v1/inbox?device=desk"), http.StatusOK); len(desk.Items) != waiting {
				t.Errorf("after the event %q %d entries wait, want %d", id, len(desk.Items), waiting)
			}
		}
		ack(0) // of a notice, before the first entry
		scout.offer(t, map[string]any{"to": eliza.did, "title": "that is watched"})
		ack(0)
		scout.offer(t, map[string]any{"to": eliza.did, "title": "that nobody saw"})
		refused(t, eliza.post(t, "/api/v1/inbox/ack", map[string]any{"device": "desk", "cursor": "elsewhere.elsewhere"}), http.StatusBadRequest, "usage")
	})
}

func TestNoticeOfADisabledWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, eliza, scout, id := hooked(t)
		watched, stop, _ := scout.look(t, "")
		defer stop()
		for range 2 {
			w.outside.answer(http.StatusGone)
			eliza.offer(t, map[string]any{"to": scout.did, "title": "x"})
			time.Sleep(time.Second)
			w.tell(t)
			if shown := watched.shows(); strings.Count(shown, "event: notice\n") != 1 || !strings.Contains(shown, "410 Gone") {
				t.Errorf("who watches is shown %q", shown)
			}
			w.outside.answer(http.StatusOK)
			scout.post(t, "/api/v1/webhooks/"+id+"/enable", nil)
		}
		if said, _ := scout.notices(t, ""); cmp.Diff([]string{"disabled " + id}, said) != "" {
			t.Errorf("what is kept of it: %v", said)
		}
		time.Sleep(time.Second)
		bodies, _ := w.outside.got()
		if last := bodies[len(bodies)-1]; last.Type != "handoff.offer" {
			t.Errorf("the webhook itself is posted %+v", last)
		}
	})
}

// note files a notice about a step of an agent.
func (w *world) note(t *testing.T, of *agent, n int) {
	t.Helper()
	ev := federation.Event{ID: federation.EventID{byte(n)}, Handoff: federation.EventID{1}, Verb: federation.Progress, From: of.did}
	ev.Arrival.Link, ev.Arrival.ReadsInbox = "rest", true
	notice := federation.Notice{Kind: federation.NoticeDelayed, Event: ev, Why: fmt.Sprint(n), At: time.Now()}
	if err := w.record.Notify(t.Context(), notice); err != nil {
		t.Fatal(err)
	}
	if err := w.link.Notify(t.Context(), notice); err != nil {
		t.Fatal(err)
	}
}

// A watcher cut off after each event, and reconnecting with its id, is shown each step
// and each notice once.
func TestNoticesAreSeenOnceOverReconnections(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewServer(w.mux)
	defer http.DefaultClient.CloseIdleConnections()
	defer server.Close()
	eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
	const each = 60 // more than a page
	for n := range each {
		eliza.offer(t, map[string]any{"to": scholar.did, "title": fmt.Sprint(n)})
		w.note(t, scholar, n+1)
	}
	var steps, notices, overSocket []string
	last := ""
	for len(steps)+len(notices) < 2*each {
		scholar.watch(t, server.URL, last, func(e sent) bool {
			last = e.id
			data := answer{Status: http.StatusOK, Text: e.data}
			if e.kind == "step" {
				steps = append(steps, decode[contract.Entry](t, data, http.StatusOK).Step.Title)
			} else {
				notices = append(notices, decode[contract.Notice](t, data, http.StatusOK).Why)
			}
			return true
		})
	}
	entry, notice := "", ""
	for len(overSocket) < 2*each {
		line := scholar.call(t, server.URL, "?cursor="+entry+"."+notice, nil)
		for range 7 {
			if len(overSocket) == 2*each {
				break
			}
			told := line.hear(t)
			if told.Entry.Cursor != "" {
				entry = told.Entry.Cursor
				overSocket = append(overSocket, "step "+told.Entry.Step.Title)
			} else {
				notice = told.Notice.Cursor
				overSocket = append(overSocket, "notice "+told.Notice.Why)
			}
		}
		line.hang()
	}
	var wantSteps, wantNotices []string
	for n := range each {
		wantSteps, wantNotices = append(wantSteps, fmt.Sprint(n)), append(wantNotices, fmt.Sprint(n+1))
	}
	if d := cmp.Diff(wantSteps, steps); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	if d := cmp.Diff(wantNotices, notices); d != "" {
		t.Errorf("notices (-want +got):\n%s", d)
	}
	if slices.Sort(overSocket); len(slices.Compact(overSocket)) != 2*each {
		t.Errorf("%d different messages of %d came over a WebSocket", len(overSocket), 2*each)
	}
}

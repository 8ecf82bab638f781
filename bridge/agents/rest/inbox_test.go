package rest_test

import (
	"maps"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

func TestInboxReadChangesNothing(t *testing.T) {
	w := newWorld(t)
	eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
	for i := range 3 {
		eliza.offer(t, map[string]any{"to": scholar.did, "title": "offer " + strconv.Itoa(i)})
	}
	first := decode[contract.InboxPage](t, scholar.get(t, "/api/v1/inbox?limit=2"), http.StatusOK)
	again := decode[contract.InboxPage](t, scholar.get(t, "/api/v1/inbox?limit=2"), http.StatusOK)
	if len(first.Items) != 2 || first.NextCursor != again.NextCursor || !again.Items[0].Waits {
		t.Errorf("first %+v, then %+v", first, again)
	}
	rest := decode[contract.InboxPage](t, scholar.get(t, "/api/v1/inbox?cursor="+first.NextCursor), http.StatusOK)
	if len(rest.Items) != 1 || rest.Items[0].Step.Title != "offer 2" {
		t.Errorf("after the cursor come %+v", rest.Items)
	}
	refused(t, scholar.get(t, "/api/v1/inbox?cursor=elsewhere"), http.StatusBadRequest, "usage")
	if got := scholar.post(t, "/api/v1/inbox/ack", map[string]any{"device": "desk", "cursor": first.NextCursor}); got.Status != http.StatusNoContent {
		t.Errorf("an ack is answered %d %s", got.Status, got.Text)
	}
	desk := decode[contract.InboxPage](t, scholar.get(t, "/api/v1/inbox?device=desk"), http.StatusOK)
	phone := decode[contract.InboxPage](t, scholar.get(t, "/api/v1/inbox?device=phone"), http.StatusOK)
	if len(desk.Items) != 1 || len(phone.Items) != 3 || phone.Items[0].Waits {
		t.Errorf("the desk has %d, the phone %+v", len(desk.Items), phone.Items)
	}
	if theirs := decode[contract.InboxPage](t, eliza.get(t, "/api/v1/inbox"), http.StatusOK); len(theirs.Items) != 0 {
		t.Errorf("another DID reads %+v", theirs.Items)
	}
}

func TestLeaseBelongsToOneDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
		eliza.offer(t, map[string]any{"to": scholar.did, "title": "x"})
		lease := func(device string, seconds int) []contract.Lease {
			t.Helper()
			return decode[contract.Leases](t, scholar.post(t, "/api/v1/inbox/lease", map[string]any{"device": device, "seconds": seconds}), http.StatusOK).Items
		}
		did := func(what string, l contract.Lease, more map[string]any) answer {
			t.Helper()
			body := map[string]any{"cursor": l.Cursor, "device": l.Device, "delivery_count": l.DeliveryCount}
			maps.Copy(body, more)
			return scholar.post(t, "/api/v1/inbox/"+what, body)
		}
		first := lease("desk", 10)
		if len(first) != 1 || first[0].DeliveryCount != 1 || len(lease("phone", 10)) != 0 {
			t.Fatalf("leased %+v", first)
		}
		if got := did("extend", first[0], map[string]any{"seconds": 20}); got.Status != http.StatusNoContent {
			t.Errorf("extend is answered %d %s", got.Status, got.Text)
		}
		time.Sleep(11 * time.Second)
		if again := lease("phone", 10); len(again) != 0 {
			t.Errorf("an extended lease is given out: %+v", again)
		}
		time.Sleep(10 * time.Second)
		second := lease("phone", 10)
		if len(second) != 1 || second[0].DeliveryCount != 2 {
			t.Fatalf("leased %+v", second)
		}
		refused(t, did("ack", first[0], nil), http.StatusConflict, "conflict")
		if got := did("nack", second[0], map[string]any{"delay_seconds": 5}); got.Status != http.StatusNoContent || len(lease("desk", 10)) != 0 {
			t.Errorf("nack is answered %d %s", got.Status, got.Text)
		}
		time.Sleep(5 * time.Second)
		third := lease("desk", 10)
		if len(third) != 1 {
			t.Fatalf("leased %+v", third)
		}
		for range 2 {
			if got := did("ack", third[0], nil); got.Status != http.StatusNoContent {
				t.Errorf("ack is answered %d %s", got.Status, got.Text)
			}
		}
		time.Sleep(5 * time.Minute)
		if got := lease("desk", 10); len(got) != 0 {
			t.Errorf("after the ack %+v is leased", got)
		}
	})
}

func TestPollWaitsForArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
		answers, began := make(chan answer, 2), time.Now()
		go func() { answers <- scholar.get(t, "/api/v1/inbox?wait=50s") }()
		go func() { answers <- scholar.post(t, "/api/v1/inbox/lease?wait=10m", map[string]any{"device": "desk"}) }()
		synctest.Wait()
		time.Sleep(7 * time.Second)
		eliza.offer(t, map[string]any{"to": scholar.did, "title": "x"})
		for range 2 {
			if got := <-answers; got.Status != http.StatusOK || !time.Now().Equal(began.Add(7*time.Second)) {
				t.Errorf("after %s answered %d %s", time.Since(began), got.Status, got.Text)
			}
		}
		began = time.Now()
		if got := eliza.get(t, "/api/v1/inbox?wait=99m"); got.Status != http.StatusOK || time.Since(began) != 50*time.Second {
			t.Errorf("after %s answered %d %s", time.Since(began), got.Status, got.Text)
		}
	})
}

// A step over plain HTTP has a way to its end as one over any network: it waits, takes
// long, and is delivered once its reader says so, or expires.
func TestAckMarksAStepDelivered(t *testing.T) {
	for name, ack := range map[string]func(t *testing.T, reader *agent) answer{
		"a cursor": func(t *testing.T, reader *agent) answer {
			t.Helper()
			page := decode[contract.InboxPage](t, reader.get(t, "/api/v1/inbox"), http.StatusOK)
			return reader.post(t, "/api/v1/inbox/ack", map[string]any{"device": "desk", "cursor": page.NextCursor})
		},
		"a lease": func(t *testing.T, reader *agent) answer {
			t.Helper()
			lease := decode[contract.Leases](t, reader.post(t, "/api/v1/inbox/lease", map[string]any{"device": "desk"}), http.StatusOK).Items[0]
			return reader.post(t, "/api/v1/inbox/ack", map[string]any{"device": "desk", "cursor": lease.Cursor, "delivery_count": lease.DeliveryCount})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
				id := eliza.offer(t, map[string]any{"to": scholar.did, "title": "x"})
				w.became(t, id, scholar, federation.DeliveryWaiting, time.Time{})
				time.Sleep(federation.DelayNotice)
				if n, err := w.record.Delay(t.Context(), time.Now().Add(-federation.DelayNotice), time.Now(), 10); err != nil || n != 1 {
					t.Errorf("%d signers are told that it takes time, %v", n, err)
				}
				read := time.Now().Add(time.Minute)
				time.Sleep(time.Minute)
				if got := ack(t, scholar); got.Status != http.StatusNoContent {
					t.Errorf("an ack is answered %d %s", got.Status, got.Text)
				}
				w.became(t, id, scholar, federation.DeliveryDelivered, read)
				if diff := cmp.Diff([]federation.NoticeKind{federation.NoticeDelayed, federation.NoticeDelivered}, w.told(t)); diff != "" {
					t.Errorf("the signer is told (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestUnreadStepExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
		id := eliza.offer(t, map[string]any{"to": scholar.did, "title": "x"})
		const keep = 168 * time.Hour
		time.Sleep(keep)
		if filed, _, err := w.Home.ExpireUndelivered(t.Context(), time.Now().Add(-keep), time.Now()); err != nil || len(filed) != 1 {
			t.Fatalf("%d offers end, %v", len(filed), err)
		}
		w.became(t, id, scholar, federation.DeliveryExpired, time.Now())
	})
}

// became checks the outcome of a handoff's first step, and its time.
func (w *world) became(t *testing.T, id string, reader *agent, want federation.DeliveryState, ended time.Time) {
	t.Helper()
	handoff, err := federation.ParseEventID(id)
	if err != nil {
		t.Fatal(err)
	}
	found, err := w.record.Deliveries(t.Context(), handoff, nil)
	if err != nil || len(found) == 0 {
		t.Fatalf("there are no deliveries, %v", err)
	}
	first := federation.Delivered{Event: handoff, Link: federation.InboxLink, Participant: string(reader.did), State: want, Ended: ended}
	if diff := cmp.Diff(first, found[0]); diff != "" {
		t.Errorf("the first delivery (-want +got):\n%s", diff)
	}
}

// told returns the notices due to signers of steps.
func (w *world) told(t *testing.T) []federation.NoticeKind {
	t.Helper()
	due, err := storetest.DueNotices(t.Context(), w.record, federation.InboxLink, time.Now(), 10)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []federation.NoticeKind
	for _, d := range due {
		kinds = append(kinds, d.Notice.Kind)
	}
	return kinds
}

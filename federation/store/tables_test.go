package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store"
	"github.com/baton-gateway/baton/federation/store/postgrestest"
	"github.com/baton-gateway/baton/federation/store/queue"
)

// bare opens a record without the tables of a network.
func bare(t *testing.T, engine string) *store.Record {
	t.Helper()
	begin := func() (*store.Record, error) {
		if engine == "postgres" {
			return store.OpenPostgres(t.Context(), postgrestest.Start(t).Schema(t), nil, prometheus.NewRegistry())
		}
		return store.Open(t.Context(), at(t.TempDir()), nil, prometheus.NewRegistry())
	}
	record, err := begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = record.Close() })
	return record
}

func TestRecordWorksWithoutNetworkTables(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			record := bare(t, engine)
			offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
			offer.Links = []string{"lab"}
			if _, err := record.Append(t.Context(), offer); err != nil {
				t.Fatal(err)
			}
			hook := federation.Webhook{ID: federationtest.ID(9), DID: bob, Participant: "bob", URL: "https://bob.example", Since: federationtest.At(1)}
			relay := federation.PeerDelivery{Peer: "peer.example", Sender: "bob", Message: "m", Document: []byte("{}"), Queued: federationtest.At(1)}
			now := federationtest.At(5000)
			for name, call := range map[string]func() error{
				"Deliveries": func() error { _, err := record.Deliveries(t.Context(), offer.View.ID, []string{"lab"}); return err },
				"Acquainted": func() error { _, _, err := record.Acquainted(t.Context(), bob); return err },
				"Used":       func() error { _, err := record.Used(t.Context()); return err },
				"AddHook":    func() error { return record.AddWebhook(t.Context(), hook, 1) },
				"PushAgain":  func() error { _, err := record.PushAgain(t.Context(), hook.ID, "m", now); return ignoreMissing(err) },
				"Turn": func() error {
					_, err := record.Rows().Turn(t.Context(), federation.WebhookName(hook.ID), "", now, 9)
					return err
				},
				"PendingOf": func() error {
					_, err := record.Rows().PendingOf(t.Context(), federation.WebhookName(hook.ID), "system", 9)
					return ignoreMissing(err)
				},
				"Enqueue": func() error { return record.Enqueue(t.Context(), relay) },
				"Settle": func() error {
					given := federation.Settlement{State: federation.DeliveryDead, Dead: federation.DeadFailed, Why: "away", At: now}
					return errors.Join(record.Enqueue(t.Context(), relay), record.Rows().Settle(t.Context(), federation.PeerDestination("peer.example"), []int64{queue.FirstDocument + 1}, given))
				},
				"WaitingFor": func() error {
					_, _, err := record.WaitingFor(t.Context(), federation.WaitingFilter{}, "", 10)
					return err
				},
				"DeadLetters": func() error { _, err := record.DeadLetters(t.Context(), federation.DeadFilter{}, 0, 10); return err },
				"Purge": func() error {
					_, err := record.Purge(t.Context(), []federation.DID{federationtest.Person("cleo")}, nil, now, false)
					return err
				},
				"Prune":        func() error { _, _, err := record.Prune(t.Context(), now, now, "", 10); return err },
				"Delay":        func() error { _, err := record.Delay(t.Context(), now, now, 10); return err },
				"ExpireUnread": func() error { return record.ExpireUnread(t.Context(), bob, []federation.EventID{offer.Event.ID}, now) },
				"Expire":       func() error { _, err := record.Expire(t.Context(), time.Time{}, now, 10); return err },
				"StartSession": func() error { return record.StartSession(t.Context(), federation.Session{ID: "s", Participant: "bob"}) },
			} {
				if err := call(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, federation.ErrNotFound) {
		return nil
	}
	return err
}

func TestAppendRefusesUnknownEffects(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]*store.Record{
		"no tables":    bare(t, "sqlite"),
		"other tables": open(t, t.TempDir(), prometheus.NewRegistry()).Record,
	} {
		offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
		offer.Effects = []federation.Effect{"an effect of some other network"}
		if _, err := record.Append(t.Context(), offer); err == nil {
			t.Errorf("%s: the step was filed", name)
		}
		if v, err := record.View(t.Context(), offer.View.ID); err != nil || v.Exists() {
			t.Errorf("%s: the view is %+v, %v", name, v, err)
		}
	}
}

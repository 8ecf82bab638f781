package store_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/postgrestest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

func checkViews(t *testing.T, record *registry.Record, rows func(query string) []string) {
	t.Helper()
	hook := federation.Webhook{ID: federationtest.ID(900), DID: bob, URL: "https://hooks.example/", Since: federationtest.At(1)}
	if err := record.AddWebhook(t.Context(), hook, 1); err != nil {
		t.Fatal(err)
	}
	offer := federationtest.File(federationtest.Offer(1, ada, bob), federation.View{})
	offer.Inboxes, offer.Links = []federation.DID{bob}, []string{"oftc"}
	mustAppend(t, record, offer)
	accept := federationtest.File(federationtest.Step(2, offer.Event, federation.Accept, bob), offer.View)
	accept.Inboxes, accept.Links = []federation.DID{ada}, nil
	mustAppend(t, record, accept)
	if _, err := record.KeepLine(t.Context(), lineAt(1, "a")); err != nil {
		t.Fatal(err)
	}
	first, second := offer.Event.ID.String(), accept.Event.ID.String()
	const moved, opened = "2026-11-21T12:00:02Z", "2026-11-21T12:00:01Z"
	for query, want := range map[string][]string{
		`SELECT id || ' ' || state || ' ' || steps || ' ' || offerer || ' ' || offeree || ' ' || assignee || ' ' || title || ' ' || moved FROM handoffs`: {
			first + " assigned 2 " + string(ada) + " " + string(bob) + " " + string(bob) + " Review patch 1 " + moved,
		},
		`SELECT handoff || ' ' || version || ' ' || id || ' ' || signer || ' ' || state || ' ' || filed || ' ' || document FROM steps ORDER BY seq`: {
			first + " 1 " + first + " " + string(ada) + " offered " + opened + " " + strings.Join(strings.Fields(offer.Event.Signature.Document), " "),
			first + " 2 " + second + " " + string(bob) + " assigned " + moved + " " + strings.Join(strings.Fields(accept.Event.Signature.Document), " "),
		},
		`SELECT did || ' ' || number || ' ' || event || ' ' || handoff || ' ' || state || ' ' || filed FROM inboxes ORDER BY filed`: {
			string(bob) + " 1 " + first + " " + first + " waiting " + opened, string(ada) + " 1 " + second + " " + first + " waiting " + moved,
		},
		`SELECT destination || ' ' || item || ' ' || handoff || ' ' || state || ' ' || attempt || ' ' || since FROM deliveries ORDER BY destination DESC`: {
			"oftc " + first + " " + first + " waiting 0 " + opened, "https://hooks.example/ " + first + " " + first + " waiting 0 " + opened,
		},
		`SELECT place || ' ' || said || ' ' || id || ' ' || author || ' ' || coalesce(recipient, 'nobody') || ' ' || command || ' ' || text FROM chat`: {
			"#ops " + opened + " a " + string(ada) + " nobody PRIVMSG \x02line\x02 a",
		},
	} {
		if diff := cmp.Diff(want, rows(query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

func TestViewsOfAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	checkViews(t, open(t, dir, prometheus.NewRegistry()), func(query string) []string { return rowsOf(t, "sqlite", at(dir), query) })
}

func TestViewsOnPostgreSQL(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Start(t).Schema(t)
	checkViews(t, openServer(t, dsn), func(query string) []string { return rowsOf(t, "pgx", dsn, query) })
}

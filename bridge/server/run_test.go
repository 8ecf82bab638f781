package server_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/routing"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
	"github.com/baton-gateway/baton/translate/dialect"
)

// noWakes implements [bridge.PubSub] and wakes no subscriber.
type noWakes struct{}

func (noWakes) Wake(...string) {}

func (noWakes) Subscribe(string) (<-chan struct{}, func()) { return nil, func() {} }

// newGateway returns a gateway on a record, without links. The changes are made before it is.
func newGateway(record *registry.Record, change ...func(*server.Deps, *home.Home)) *server.Gateway {
	metrics, log := bridge.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler)
	owners := routing.Owners{
		Record: record, DIDKey: identity.ParseKeyDID,
		Kept: func(name string) federation.SigningKey { return federationtest.Signer(federation.DID(name)) },
	}
	links := server.NewLinkSet(server.LinkDeps{Outbox: record.Rows(), RunExclusive: record.RunExclusive, PubSub: noWakes{}, Metrics: metrics, Log: log})
	deps := server.Deps{
		Record: storetest.Bound(record), Links: links, Owners: owners,
		Locator: routing.New(routing.Config{
			Home: "gw.test", Record: storetest.Bound(record), Owners: owners, Outboxes: record, Peers: server.HomeLinks{Links: links}, Log: log,
		}),
		Keys: &server.KeyLookups{}, Addresses: credential.NewAddresses(func() int { return 0 }, time.Minute),
		DIDs: home.NewRates(), Strangers: home.NewStrangers(),
		PubSub: noWakes{}, Metrics: metrics, Log: log,
	}
	judges := &home.Home{
		Rules: home.Rules{ID: "gw.test", Kinds: lifecycle.Shipped()}, Key: federationtest.Signer("did:web:gw.test"),
		Record: record, Entropy: rand.Reader, Rates: deps.DIDs, Strangers: deps.Strangers,
		Write: dialect.Write, Read: dialect.Read,
	}
	for _, c := range change {
		c(&deps, judges)
	}
	g := server.NewGateway(deps)
	judges.Route, judges.Same = g.Route, g.Same
	g.Configure(server.Config{Retention: defaultRetention(), Home: judges})
	return g
}

var errStopped = errors.New("stopped")

func TestRunAbandonsTasksThatDoNotEnd(t *testing.T) {
	const stopWait = 10 * time.Second // at most, from SIGTERM to the end of the process
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { stop(errStopped) })
		begun, release := time.Now(), make(chan struct{})
		stuck := func(context.Context) error { <-release; return nil }
		if err := newGateway(storetest.Open(t)).Run(ctx, stuck); !errors.Is(err, errStopped) {
			t.Errorf("ended with %v, want why it was stopped", err)
		}
		if took := time.Since(begun) - time.Minute; took >= stopWait || took < stopWait/2 {
			t.Errorf("took %s from the stop, want somewhat less than %s", took, stopWait)
		}
		close(release)
	})
}

func TestRunEndsWithAFailedTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := func(context.Context) error { time.Sleep(time.Minute); return errStopped }
		if err := newGateway(storetest.Open(t)).Run(t.Context(), fails); !errors.Is(err, errStopped) {
			t.Errorf("ended with %v, want the error of the task", err)
		}
	})
}

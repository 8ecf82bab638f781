package server_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"baton/bridge"
	"baton/bridge/server"
	"baton/federation"
	"baton/federation/home"
	"baton/federation/lifecycle"
	"baton/federation/store/registry"
	"baton/federation/store/storetest"
)

// noWakes implements [bridge.Wakes] and wakes no subscriber.
type noWakes struct{}

func (noWakes) Wake(...string) {}

func (noWakes) Subscribe(string) (<-chan struct{}, func()) { return nil, func() {} }

// noKeys implements [server.KeyFetcher] and fetches no key.
type noKeys struct{}

func (noKeys) Await(context.Context, federation.KeyQuery) {}
func (noKeys) Seek(context.Context, federation.KeyQuery)  {}
func (noKeys) Cancel(string)                              {}

// noRates implements [server.AddressRates] without a limit.
type noRates struct{}

func (noRates) Wait(netip.Prefix, time.Time) time.Duration    { return 0 }
func (noRates) Left(netip.Prefix, time.Time) bridge.Allowance { return bridge.Allowance{} }

// noNames implements [server.Names] without a name.
type noNames struct{}

func (noNames) Of(context.Context, federation.DID) ([]federation.BoundName, error) { return nil, nil }

// noParticipants implements [server.Participants] and knows no participant.
type noParticipants struct{}

func (noParticipants) WithHandle(context.Context, string) (server.Participant, error) {
	return server.Participant{}, federation.ErrNotFound
}

func (noParticipants) WithDID(context.Context, federation.DID) (server.Participant, error) {
	return server.Participant{}, federation.ErrNotFound
}

func (noParticipants) Binding(context.Context, federation.DID) (federation.Binding, error) {
	return federation.Binding{}, federation.ErrNotFound
}

// newGateway returns a gateway on a record, without links.
func newGateway(record *registry.Record) *server.Gateway {
	return newGatewayOf(record, noParticipants{}, record)
}

// newGatewayOf is newGateway for some participants and leases.
func newGatewayOf(record *registry.Record, participants server.Participants, leases server.Leases) *server.Gateway {
	strangers, rates := home.NewStrangers(), home.NewRates()
	g := server.New(server.Deps{
		Handoffs: record, Participants: participants, Names: noNames{}, Notices: record, Deliveries: record, Deferred: record, Outbox: record, DeadLetters: record,
		Blocks: record, Pruner: record, Growth: record, Counts: record, Leases: leases,
		Keys: noKeys{}, Addresses: noRates{}, DIDs: rates, Strangers: strangers,
		Wakes: noWakes{}, Metrics: bridge.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
	})
	g.Configure(server.Config{Retention: defaultRetention(), Home: &home.Home{
		Rules: home.Rules{ID: "gw.test", Kinds: lifecycle.Shipped()}, Snapshots: record, Log: record, Overdue: record, Rulings: record, Entropy: rand.Reader,
		Route: g.Links().Route, Offers: record, Same: g.Same, Rates: rates, Strangers: strangers,
	}})
	return g
}

var errStopped = errors.New("stopped")

func TestWorkThatDoesNotEndIsLeftBehind(t *testing.T) {
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

func TestATaskThatFailsEndsTheGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := func(context.Context) error { time.Sleep(time.Minute); return errStopped }
		if err := newGateway(storetest.Open(t)).Run(t.Context(), fails); !errors.Is(err, errStopped) {
			t.Errorf("ended with %v, want the error of the task", err)
		}
	})
}

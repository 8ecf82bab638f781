package main_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store"
)

// BenchmarkLanes is a link that comes up and is owed steps of so many handoffs, as many of
// each, from a record in a file. The metric ns/delivery is to be the same for 10000 as for
// 100. Of 10 handoffs no more than ten steps are under way at a time, and share an fsync:
//
//	go test ./cmd/baton -run=^$ -bench=Lanes -benchtime=20000x
func BenchmarkLanes(b *testing.B) {
	for _, lanes := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprintf("lanes=%d", lanes), func(b *testing.B) {
			each := (b.N + lanes - 1) / lanes
			drainLanes(b, lanes, each)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(lanes*each), "ns/delivery")
		})
	}
}

// drainLanes makes a record and delivers its backlog, with this many steps of each
// handoff. The timer runs only for the latter.
func drainLanes(b *testing.B, lanes, each int) {
	b.Helper()
	record, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "baton.db"), nil, prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	defer record.Close()
	for lane := range lanes {
		oweLane(b, record, lane*each, each)
	}
	link := quickLink{make(chan struct{}, lanes*each)}
	supervisor := bridge.NewSupervisor(link, record.Rows(), noWakes{}, bridge.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	b.ResetTimer()
	go func() { done <- supervisor.Run(ctx) }()
	for range lanes * each {
		<-link.taken
	}
	b.StopTimer()
	stop()
	<-done // it was stopped: the error says so
}

// oweLane files so many steps of one handoff after the n-th, each owed to the link.
func oweLane(b *testing.B, record *store.Record, n, steps int) {
	b.Helper()
	alice, bob := federationtest.Person("alice"), federationtest.Person("bob")
	offer := federationtest.Offer(n+1, alice, bob)
	var view federation.View
	for i := range steps {
		ev := offer
		if i > 0 {
			ev = federationtest.Step(n+1+i, offer, federation.Accept, bob)
		}
		f := federationtest.File(ev, view)
		f.Links = []string{"lab"}
		if _, err := record.Append(b.Context(), f); err != nil {
			b.Fatal(err)
		}
		view = f.View
	}
}

// quickLink has a peer that takes everything at once.
type quickLink struct{ taken chan struct{} }

func (quickLink) Name() string    { return "lab" }
func (quickLink) Network() string { return "spanningtree" }

func (quickLink) Carries(context.Context, federation.Event, federation.View) (bool, error) {
	return true, nil
}

func (quickLink) Run(ctx context.Context, up func()) error {
	up()
	<-ctx.Done()
	return context.Cause(ctx)
}

func (q quickLink) Deliver(context.Context, federation.Delivery) error {
	q.taken <- struct{}{}
	return nil
}

// noWakes wakes no waiter.
type noWakes struct{}

func (noWakes) Wake(...string)                             {}
func (noWakes) Subscribe(string) (<-chan struct{}, func()) { return nil, func() {} }

package main_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"baton/bridge"
	"baton/federation"
	"baton/federation/federationtest"
	"baton/federation/store"
)

// laneRows is how many steps of each handoff wait.
const laneRows = 3

// BenchmarkLanes is a link that comes up and is owed steps of so many handoffs, from a
// record in a file. The metric ns/delivery is to be the same for 1000 as for 100. Of 10
// handoffs no more than ten steps are under way at a time, and share an fsync:
//
//	go test ./cmd/baton -run=^$ -bench=Lanes -benchtime=5x
func BenchmarkLanes(b *testing.B) {
	for _, lanes := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("lanes=%d", lanes), func(b *testing.B) {
			for b.Loop() {
				drainLanes(b, lanes)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*lanes*laneRows), "ns/delivery")
		})
	}
}

// drainLanes makes a record and delivers what is owed from it. The timer runs for the
// latter alone.
func drainLanes(b *testing.B, lanes int) {
	b.Helper()
	b.StopTimer()
	record, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "baton.db"), prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	defer record.Close()
	for lane := range lanes {
		oweLane(b, record, lane*laneRows)
	}
	link := quickLink{make(chan struct{}, lanes*laneRows)}
	supervisor := bridge.NewSupervisor(link, record, noWakes{}, bridge.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	b.StartTimer()
	go func() { done <- supervisor.Run(ctx) }()
	for range lanes * laneRows {
		<-link.taken
	}
	b.StopTimer()
	stop()
	<-done // it was stopped: the error says so
	b.StartTimer()
}

// oweLane files the steps of one handoff after the n-th, each owed to the link.
func oweLane(b *testing.B, record federation.Store, n int) {
	b.Helper()
	alice, bob := federationtest.Person("alice"), federationtest.Person("bob")
	offer := federationtest.Offer(n+1, alice, bob)
	var view federation.View
	for i := range laneRows {
		ev := offer
		if i > 0 {
			ev = federationtest.Step(n+1+i, offer, federation.Accept, bob)
		}
		f := federationtest.File(ev, view)
		f.Feeds = []string{"lab"}
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

// noWakes wakes nobody.
type noWakes struct{}

func (noWakes) Wake(...string)                             {}
func (noWakes) Subscribe(string) (<-chan struct{}, func()) { return nil, func() {} }

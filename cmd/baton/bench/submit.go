package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/store/bare"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/dialect"
	"github.com/baton-gateway/baton/translate/handofftag"
)

// signers is the number of signers of the offers. A home limits the unfinished ones of each.
const signers = 1024

// measureSubmit measures the steps per second filed by a home in a record in this process: each is
// decoded from its tags, verified, judged and on disk, with an inbox and a pending delivery.
func (r *run) measureSubmit(ctx context.Context) (err error) {
	dir, err := r.folder("submit")
	if err != nil {
		return err
	}
	record, err := registry.Open(ctx, filepath.Join(dir, "baton.db"), prometheus.NewRegistry())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, record.Close()) }()
	for _, callers := range []int{64, 256} {
		row := Row{
			Name: fmt.Sprintf("submit-%d", callers), What: fmt.Sprintf("steps without HTTP, %d at a time", callers), Unit: "/s",
			Floor: "bare verifications", Goal: ">= 0.20",
		}
		row.Value, row.Bare, err = r.submitByTurns(ctx, newHome(record), callers, func() float64 {
			return rate(r.Floor/turns, runtime.GOMAXPROCS(0), r.verify)
		})
		if err != nil {
			return err
		}
		r.report.add(row)
	}
	return nil
}

const postgresCallers = 64

// measurePostgres is measureSubmit with a record on a PostgreSQL server. The floor is commits of
// one row of 1 KiB each, by as many callers.
func (r *run) measurePostgres(ctx context.Context) (err error) {
	row := Row{
		Name: "postgres-64", What: "steps without HTTP on PostgreSQL, 64 at a time", Unit: "/s", Floor: "commits of one row by the same server", Goal: ">= 0.35",
	}
	if r.postgres == "" {
		row.Missing = "no PostgreSQL named"
		r.report.add(row)
		return nil
	}
	filed, err := bare.NewSchema(ctx, r.postgres)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, filed.Close(ctx)) }()
	record, err := registry.OpenPostgres(ctx, filed.DSN, prometheus.NewRegistry())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, record.Close()) }()
	floor, err := bare.NewSchema(ctx, r.postgres)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, floor.Close(ctx)) }()
	table, err := floor.OpenTable(ctx, postgresCallers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, table.Close()) }()
	body := strings.Repeat("x", kib)
	row.Value, row.Bare, err = r.submitByTurns(ctx, newHome(record), postgresCallers, func() float64 {
		return rate(r.Floor/turns, postgresCallers, func() error { return table.Put(ctx, body) })
	})
	r.report.add(row)
	return err
}

// submitByTurns returns the steps per second filed by a home, and the mean of a raw rate measured
// alternately.
func (r *run) submitByTurns(ctx context.Context, h *home.Home, callers int, raw func() float64) (filed, floor float64, err error) {
	people := make([]federation.SigningKey, signers)
	for i := range people {
		people[i] = newKey()
	}
	each := max(callers, r.Submits/turns)
	var took time.Duration
	for range turns {
		floor += raw() / turns
		steps, err := spokenOffers(ctx, people, each)
		if err != nil {
			return 0, 0, err
		}
		begun := time.Now()
		if err := submitAll(ctx, h, steps, callers); err != nil {
			return 0, 0, err
		}
		took += time.Since(begun)
	}
	return float64(each*turns) / took.Seconds(), floor, nil
}

func submitAll(ctx context.Context, h *home.Home, steps []translate.Tagged, callers int) error {
	var next atomic.Int64
	errs := make([]error, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for n := next.Add(1); n <= int64(len(steps)) && errs[i] == nil; n = next.Add(1) {
				ev, err := handofftag.Codec{}.Decode(steps[n-1])
				if err == nil {
					ev.Arrival = federation.Arrival{Network: "irc", Link: "bench", Name: "alice", Received: time.Now()}
					_, err = h.Submit(ctx, ev, time.Now())
				}
				errs[i] = err
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func spokenOffers(ctx context.Context, people []federation.SigningKey, n int) ([]translate.Tagged, error) {
	steps := make([]translate.Tagged, n)
	for i := range steps {
		ev, err := sealOffer(ctx, people[i%signers], federation.Event{
			To: people[(i+1)%signers].DID, Venue: channel, Context: `"` + strings.Repeat("x", 400) + `"`, Deadline: time.Now().Add(time.Hour),
		})
		if err != nil {
			return nil, err
		}
		steps[i] = translate.Tagged{Command: "TAGMSG", Target: channel, Tags: translate.Wire(ev, nil)}
	}
	return steps, nil
}

func newHome(record *registry.Record) *home.Home {
	key := newKey()
	key.DID = federation.HomeID(homeName).DID()
	inbox := federation.InboxLimits{Events: unbounded, EventsPerSender: unbounded}
	return &home.Home{
		Rules: home.Rules{
			ID: homeName, Kinds: lifecycle.Shipped(),
			Limits: home.Limits{ClockSkew: time.Hour, MaxDeadline: 24 * time.Hour, Inbox: inbox, OpenHandoffs: unbounded},
		},
		Key: key, Record: record, Entropy: rand.Reader,
		Keys:  identity.NewKeySource(identity.KeySourceConfig{}, identity.NewDirectory(identity.DirectoryConfig{}, nil, key), nil, record),
		Route: oneLink{}.Route, Rates: home.NewRates(), Same: func(_ context.Context, a, b federation.DID) (bool, error) { return a == b, nil },
		Write: dialect.Write, Read: dialect.Read,
	}
}

const unbounded = 1 << 30

type oneLink struct{}

// Route implements the router of [home.Home].
func (oneLink) Route(context.Context, federation.Event, federation.View) (federation.Fanout, error) {
	return federation.Fanout{Links: []string{"other"}}, nil
}

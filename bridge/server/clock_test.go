package server_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"baton/bridge"
	"baton/bridge/server"
	"baton/federation"
	"baton/federation/federationtest"
	"baton/federation/home"
	"baton/federation/lifecycle"
	"baton/federation/store/registry"
	"baton/federation/store/storetest"
)

// machine has the clocks compared by a gateway.
type machine struct {
	wall   time.Time
	up     time.Duration
	synced bool
	others []time.Duration
	mark   string
}

// newMachine returns a machine that started an hour ago.
func newMachine(t *testing.T) *machine {
	t.Helper()
	return &machine{wall: federationtest.At(0), up: time.Hour, mark: filepath.Join(t.TempDir(), "clock")}
}

func (m *machine) passes(length time.Duration) {
	m.wall, m.up = m.wall.Add(length), m.up+length
}

func (m *machine) clock(newest time.Time) *server.Clock {
	return server.NewClock(server.ClockConfig{
		Wall: func() time.Time { return m.wall }, Uptime: func() time.Duration { return m.up }, Synced: func() bool { return m.synced },
		Others: func(time.Time) []time.Duration { return m.others }, Mark: m.mark, Newest: newest,
	}, slog.New(slog.DiscardHandler))
}

const jump = 400 * 24 * time.Hour

func TestClockGoesOnByTheUptimeWhileItIsInDoubt(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.clock(time.Time{})
	m.passes(time.Minute)
	start := m.wall
	if got := c.Now(); !got.Equal(start) || c.Doubt() != "" {
		t.Fatalf("at the start it is %s, in doubt: %q", got, c.Doubt())
	}
	m.wall = m.wall.Add(jump)
	m.passes(10 * time.Second)
	if got := c.Now(); !got.Equal(start.Add(10*time.Second)) || c.Doubt() != "it jumped by 9600h0m0s" {
		t.Errorf("after the jump it is %s, in doubt: %q", got, c.Doubt())
	}
	if n := testutil.ToFloat64(c.ClockCollector()); n != 1 {
		t.Errorf("the metric is %v", n)
	}
	m.wall = m.wall.Add(-jump)
	if got := c.Now(); !got.Equal(start.Add(10*time.Second)) || c.Doubt() != "" {
		t.Errorf("after it came back it is %s, in doubt: %q", got, c.Doubt())
	}
	m.wall = m.wall.Add(-jump)
	if got := c.Now(); !got.Equal(m.wall) || c.Doubt() == "" {
		t.Errorf("a clock that went back is %s, later than that of the machine, in doubt: %q", got, c.Doubt())
	}
	if n := testutil.ToFloat64(c.ClockCollector()); n != 1 {
		t.Errorf("the metric is %v", n)
	}
}

// Steps and slews of up to a minute are normal, and a suspended machine has not jumped.
func TestClockIsNotDoubtedForWhatIsUsual(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.clock(time.Time{})
	for range 100 {
		m.passes(time.Second)
		m.wall = m.wall.Add(50 * time.Second)
		if got := c.Now(); !got.Equal(m.wall) || c.Doubt() != "" {
			t.Fatalf("a step of 50 s makes %s, in doubt: %q", got, c.Doubt())
		}
	}
	m.passes(9 * time.Hour) // asleep
	if got := c.Now(); !got.Equal(m.wall) || c.Doubt() != "" {
		t.Errorf("after its sleep it is %s, in doubt: %q", got, c.Doubt())
	}
}

func TestClockIsDoubtedAtAStartFarFromTheLastTime(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		mark, newest time.Duration // before the start; 0 for none
		doubted      bool
	}{
		{name: "new"},
		{name: "a restart", mark: 5 * time.Minute},
		{name: "a quiet gateway", mark: 5 * time.Minute, newest: jump},
		{name: "no mark, newest row of late", newest: 30 * time.Minute},
		{name: "off for weeks", mark: 30 * 24 * time.Hour, newest: 30 * 24 * time.Hour, doubted: true},
		{name: "no mark, old rows", newest: jump, doubted: true},
		{name: "rows of a wrong time", mark: jump, newest: time.Minute, doubted: true},
		{name: "back in time", mark: -jump, newest: -jump, doubted: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			var newest time.Time
			if tt.newest != 0 {
				newest = m.wall.Add(-tt.newest)
			}
			if tt.mark != 0 {
				if err := os.WriteFile(m.mark, []byte(m.wall.Add(-tt.mark).Format(time.RFC3339)+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c := m.clock(newest)
			if doubt := c.Doubt(); (doubt != "") != tt.doubted {
				t.Errorf("in doubt: %q", doubt)
			}
			last := newest
			if tt.mark != 0 {
				last = m.wall.Add(-tt.mark)
			}
			if got := c.Now(); tt.doubted && last.Before(m.wall) && !got.Equal(last) {
				t.Errorf("it is %s, want the last confirmed time %s", got, last)
			}
			if c.Accept("root") != tt.doubted || c.Doubt() != "" || !c.Now().Equal(m.wall) {
				t.Errorf("accepted, it is %s, in doubt: %q", c.Now(), c.Doubt())
			}
		})
	}
}

// asked is a record that keeps the latest expiry time used by each job.
type asked struct {
	*registry.Record

	mu     sync.Mutex
	latest map[string]time.Time
}

func (a *asked) note(job string, by time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.latest[job].Before(by) {
		a.latest[job] = by
	}
}

// Due implements [home.Overdue].
func (a *asked) Due(ctx context.Context, clock federation.Clock, before time.Time, limit int) ([]federation.View, error) {
	a.note("sweep", before)
	return a.Record.Due(ctx, clock, before, limit)
}

// Prune implements [server.Pruner].
func (a *asked) Prune(ctx context.Context, before, now time.Time, after federation.Cursor, limit int) (int, federation.Cursor, error) {
	a.note("retention", now)
	return a.Record.Prune(ctx, before, now, after, limit)
}

// Expire implements [server.Deliveries].
func (a *asked) Expire(ctx context.Context, before, now time.Time, limit int) (int, error) {
	a.note("deliveries", now)
	return a.Record.Expire(ctx, before, now, limit)
}

// No job expires anything by an unconfirmed clock, until NTP or another home confirms it.
func TestJobsEndNothingByAClockInDoubt(t *testing.T) {
	for name, confirm := range map[string]func(m *machine){
		"nobody":             nil,
		"two of three homes": func(m *machine) { m.others = []time.Duration{jump, time.Second, -time.Second} },
		"NTP":                func(m *machine) { m.synced = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, begun := newMachine(t), time.Now()
				var mu sync.Mutex
				started, confirmed := m.wall, false
				clock := server.NewClock(server.ClockConfig{
					Wall:   func() time.Time { return started.Add(time.Since(begun) + jump) },
					Uptime: func() time.Duration { return time.Since(begun) },
					Synced: func() bool { mu.Lock(); defer mu.Unlock(); return confirmed && m.synced },
					Others: func(time.Time) []time.Duration {
						mu.Lock()
						defer mu.Unlock()
						if !confirmed {
							return []time.Duration{jump, jump, 0}
						}
						return m.others
					},
					Mark: m.mark, Newest: started,
				}, slog.New(slog.DiscardHandler))
				record := &asked{Record: storetest.Open(t), latest: map[string]time.Time{}}
				strangers, rates := home.NewStrangers(), home.NewRates()
				g := server.New(server.Deps{
					Handoffs: record, Participants: noParticipants{}, Names: noNames{}, Notices: record, Deliveries: record, Deferred: record, Outbox: record, DeadLetters: record,
					Blocks: record, Pruner: record, Growth: record, Counts: record, Leases: record, Clock: clock,
					Keys: noKeys{}, Addresses: noRates{}, DIDs: rates, Strangers: strangers,
					Wakes: noWakes{}, Metrics: bridge.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
				})
				g.Configure(server.Config{Retention: defaultRetention(), Home: &home.Home{
					Rules: home.Rules{ID: "gw.test", Kinds: lifecycle.Shipped()}, Snapshots: record, Log: record, Overdue: record, Rulings: record, Entropy: rand.Reader,
					Route: g.Links().Route, Offers: record, Same: g.Same, Rates: rates, Strangers: strangers,
				}})
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- g.Run(ctx) }()
				check := func(when string, after, until time.Time) {
					t.Helper()
					time.Sleep(5 * time.Minute)
					synctest.Wait()
					record.mu.Lock()
					defer record.mu.Unlock()
					for _, job := range []string{"sweep", "retention", "deliveries"} {
						if by := record.latest[job]; by.Before(after) || by.After(until) {
							t.Errorf("%s, %s goes by %s, want %s to %s", when, job, by, after, until)
						}
					}
				}
				check("in doubt", started, started.Add(5*time.Minute))
				if _, err := os.Stat(m.mark); err == nil {
					t.Error("a time that is not confirmed is noted")
				}
				if confirm != nil {
					mu.Lock()
					confirm(m)
					confirmed = true
					mu.Unlock()
					check("confirmed", started.Add(jump), started.Add(jump+10*time.Minute))
					if text, err := os.ReadFile(m.mark); err != nil || !strings.HasPrefix(string(text), started.Add(jump).UTC().Format("2006-01-02")) {
						t.Errorf("noted is %q, %v", text, err)
					}
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

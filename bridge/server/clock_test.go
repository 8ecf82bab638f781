package server_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
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

func TestClockFollowsTheUptimeWhileInDoubt(t *testing.T) {
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

// due files three handoffs that a confirmed clock ends a year later: one is overdue then, one was over for
// long, and the delivery of one waited for long.
func due(t *testing.T, record *registry.Record) (overdue, over, undelivered federation.HandoffID) {
	t.Helper()
	ada, bob := federationtest.Person("ada"), federationtest.Person("bob")
	file := func(f federation.Filing) federation.View {
		t.Helper()
		if _, err := record.Append(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		return f.View
	}
	first := federationtest.Offer(1, ada, bob)
	open := federationtest.File(first, federation.View{})
	open.View.Home, open.View.Clock, open.View.Since = "gw.test", federation.DeadlineClock, first.Deadline
	file(open)
	second := federationtest.Offer(2, ada, bob)
	file(federationtest.File(federationtest.Step(3, second, federation.Decline, bob), file(federationtest.File(second, federation.View{}))))
	third := federationtest.Offer(4, ada, bob)
	third.Deadline = time.Time{}
	pending := federationtest.File(third, federation.View{})
	pending.Links = []string{"lab"}
	file(pending)
	return first.ID, second.ID, third.ID
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
				record := storetest.Open(t)
				overdue, over, undelivered := due(t, record)
				g := newGateway(record, func(d *server.Deps, _ *home.Home) { d.Clock = clock })
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- g.Run(ctx) }()
				check := func(when string, after, until time.Time) {
					t.Helper()
					time.Sleep(5 * time.Minute)
					synctest.Wait()
					expired := until.After(started.Add(jump / 2))
					view, err := record.View(t.Context(), overdue)
					if err != nil || view.Over != expired || expired && (view.Moved.Before(after) || view.Moved.After(until)) {
						t.Errorf("%s, the overdue handoff is %s at %s, %v", when, view.State, view.Moved, err)
					}
					if view, err := record.View(t.Context(), over); err != nil || view.Exists() == expired {
						t.Errorf("%s, the finished handoff is on record: %t, %v", when, view.Exists(), err)
					}
					dead, err := record.DeadLetters(t.Context(), federation.DeadFilter{To: "lab"}, 0, 10)
					if err != nil || len(dead) > 1 || (len(dead) == 1) != expired || expired && (dead[0].Handoff != undelivered || dead[0].Died.Before(after) || dead[0].Died.After(until)) {
						t.Errorf("%s, given up are %+v, %v", when, dead, err)
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

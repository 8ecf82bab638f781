package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
)

const (
	clockStep  = time.Minute // tolerated difference between clock and uptime; NTP adjusts by less
	clockGap   = time.Hour   // maximum time from the last confirmed time to a start
	clockLook  = time.Second
	clockMark  = time.Minute // interval at which the confirmed time is written
	clockAgree = 2 * time.Minute
)

// Clock is the confirmed time, by which handoffs and keys expire and rows are deleted. It follows
// the wall clock until the wall clock jumps relative to the uptime of the machine, or is more than
// an hour ahead of the last confirmed time at startup. Then it advances with the uptime, until
// another home, NTP or an operator confirms the wall clock, or the wall clock is correct again.
// Expiry may therefore be late, but never early.
type Clock struct {
	cfg ClockConfig
	log *slog.Logger

	mu     sync.Mutex
	zero   time.Time // confirmed time at uptime 0
	doubt  string    // "" if confirmed
	since  time.Time // start of the doubt, by the wall clock
	by     string    // of the last confirmation
	logged string
	marked time.Duration
}

// ClockConfig has the time sources of a [Clock].
type ClockConfig struct {
	Wall   func() time.Time
	Uptime func() time.Duration // monotonic, including suspended time; any zero
	Synced func() bool
	// Others is like [LinkSet.OtherClocks].
	Others func(since time.Time) []time.Duration
	Mark   string    // file with the last confirmed time
	Newest time.Time // newest recorded time, for a start without that file; zero for none
}

// NewClock returns a started clock.
func NewClock(cfg ClockConfig, log *slog.Logger) *Clock {
	c := &Clock{cfg: cfg, log: log}
	now, up := cfg.Wall(), cfg.Uptime()
	last := cfg.Newest
	if text, err := os.ReadFile(cfg.Mark); err == nil {
		if at, err := time.Parse(time.RFC3339, strings.TrimSpace(string(text))); err == nil {
			last = at
		}
	}
	c.zero = now.Add(-up)
	if gap := now.Sub(last); !last.IsZero() && gap.Abs() > clockGap {
		c.zero = last.Add(-up)
		c.doubt, c.since = fmt.Sprintf("it is %s from the last confirmed time, %s", gap.Round(time.Second), last.UTC().Format(time.RFC3339)), now
	}
	return c
}

// Now returns the confirmed time. It is never later than the wall clock.
func (c *Clock) Now() time.Time {
	if c == nil {
		return time.Now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now, up := c.cfg.Wall(), c.cfg.Uptime()
	moved := now.Add(-up).Sub(c.zero)
	switch {
	case moved.Abs() <= clockStep && c.doubt != "":
		c.confirm(now, up, "it came back")
	case moved.Abs() <= clockStep:
		c.zero = now.Add(-up)
	case c.doubt == "":
		c.doubt, c.since = fmt.Sprintf("it jumped by %s", moved.Round(time.Second)), now
	}
	if confirmed := c.zero.Add(up); confirmed.Before(now) {
		return confirmed
	}
	return now
}

// Doubt returns the reason why the clock is unconfirmed, or "".
func (c *Clock) Doubt() string {
	if c == nil {
		return ""
	}
	c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubt
}

// Accept confirms the wall clock, and reports whether it was in doubt.
func (c *Clock) Accept(by string) bool {
	if c.Doubt() == "" {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.confirm(c.cfg.Wall(), c.cfg.Uptime(), by)
	return true
}

// confirm ends a doubt. The caller holds c.mu.
func (c *Clock) confirm(now time.Time, up time.Duration, by string) {
	c.zero, c.doubt, c.by, c.marked = now.Add(-up), "", by, 0
}

func (c *Clock) run(ctx context.Context) {
	if c == nil {
		return
	}
	tick := time.NewTicker(clockLook)
	defer tick.Stop()
	for ctx.Err() == nil {
		c.look(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (c *Clock) look(ctx context.Context) {
	c.mu.Lock()
	since := c.since
	c.mu.Unlock()
	switch {
	case c.Doubt() == "":
		if err := c.save(); err != nil {
			c.log.LogAttrs(ctx, slog.LevelWarn, "confirmed time not saved", slog.Any("err", err))
		}
	case c.cfg.Synced():
		c.Accept("NTP")
	case agree(c.cfg.Others(since)):
		c.Accept("the clocks of other homes")
	}
	c.announce(ctx)
}

func (c *Clock) announce(ctx context.Context) {
	c.mu.Lock()
	doubt, by, logged := c.doubt, c.by, c.logged
	c.logged = doubt
	c.mu.Unlock()
	switch doubt {
	case logged:
	case "":
		c.log.LogAttrs(ctx, slog.LevelInfo, "clock confirmed", slog.String("by", by))
	default:
		c.log.LogAttrs(ctx, slog.LevelWarn, "clock not confirmed: nothing expires until another home, NTP or baton clock accept confirms it", slog.String("why", doubt))
	}
}

func agree(ahead []time.Duration) bool {
	near := 0
	for _, each := range ahead {
		if each.Abs() <= clockAgree {
			near++
		}
	}
	return 2*near > len(ahead)
}

// save writes the confirmed time, at most once per clockMark.
func (c *Clock) save() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	up := c.cfg.Uptime()
	if c.marked != 0 && up-c.marked < clockMark {
		return nil
	}
	c.marked = up
	draft := filepath.Join(filepath.Dir(c.cfg.Mark), "."+filepath.Base(c.cfg.Mark))
	if err := os.WriteFile(draft, []byte(c.zero.Add(up).UTC().Format(time.RFC3339)+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(draft, c.cfg.Mark)
}

// ClockCollector returns the metric of the clock.
func (c *Clock) ClockCollector() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "baton", Name: "clock_unconfirmed", Help: "1 while the clock is unconfirmed and nothing expires, else 0.",
	}, func() float64 {
		if c.Doubt() != "" {
			return 1
		}
		return 0
	})
}

// OtherClocks returns how far the wall clock is ahead of the clock of each home compared since the
// given time.
func (l *LinkSet) OtherClocks(since time.Time) []time.Duration {
	var ahead []time.Duration
	for home := range able[skewed](l) {
		if !home.Compared().IsZero() && !home.Compared().Before(since) && !home.Compared().After(time.Now()) {
			ahead = append(ahead, home.Skew())
		}
	}
	return ahead
}

// clocks returns how far the local clock is ahead of each home's clock, by the Date of its profile
// or the last comparison through the hub. It omits homes with neither, and blocks on the homes.
func (h *homes) clocks(ctx context.Context) map[string]time.Duration {
	ctx, cancel := context.WithTimeout(ctx, clockTime)
	defer cancel()
	var mu sync.Mutex
	ahead := map[string]time.Duration{}
	var group fault.Group
	for _, peer := range h.peers() {
		group.Go(func() {
			by, err := h.askDate(ctx, peer.URL())
			if err != nil && peer.Compared().IsZero() {
				return
			}
			if err != nil {
				by = peer.Skew()
			}
			mu.Lock()
			defer mu.Unlock()
			ahead[peer.Name()] = by
		})
	}
	group.Wait()
	return ahead
}

const clockTime = 5 * time.Second

// askDate returns how far the local clock is ahead of the Date of a host, in whole seconds.
func (h *homes) askDate(ctx context.Context, base string) (time.Duration, error) {
	address, err := federation.JoinURL(base, federation.ProfilePath, nil)
	if err != nil {
		return 0, err
	}
	asked := time.Now()
	_, header, err := h.client.Do(ctx, http.MethodGet, address, nil, nil)
	if err != nil {
		return 0, err
	}
	answered := time.Now()
	date, err := http.ParseTime(header.Get("Date"))
	switch {
	case err != nil:
		return 0, err
	case date.Add(time.Second).Before(asked):
		return asked.Sub(date.Add(time.Second)), nil
	case date.After(answered):
		return answered.Sub(date), nil
	}
	return 0, nil
}

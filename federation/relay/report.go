package relay

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"baton/federation"
)

// reportEvery is the interval between two log lines about refused messages of one home for one
// reason: a home can send garbage at any rate.
const reportEvery = time.Minute

// reportLimiter admits one log line in an interval for each key, and counts the others. Its keys are
// names of peers and codes, both from closed sets. It is safe for concurrent use; the zero value is
// ready.
type reportLimiter struct {
	mu   sync.Mutex
	last map[reportKey]reportCount
}

// reportKey is what a line is about.
type reportKey struct {
	from federation.HomeID // "" over HTTPS, where the sender may be any client
	code string
}

// reportCount is when the last line was written, and how many were not since.
type reportCount struct {
	passed  time.Time
	skipped int
}

// pass reports whether to write a line, and how many were skipped since the last one.
func (r *reportLimiter) pass(key reportKey, now time.Time) (skipped int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := r.last[key]
	if !count.passed.IsZero() && now.Sub(count.passed) < reportEvery {
		count.skipped++
		r.last[key] = count
		return 0, false
	}
	if r.last == nil {
		r.last = map[reportKey]reportCount{}
	}
	r.last[key] = reportCount{passed: now}
	return count.skipped, true
}

// report counts a refused message of another home, and logs it once a minute for each home and code.
// A message that cannot be verified now waits, so its line is a warning.
func (h *PeerHandler) report(ctx context.Context, from federation.HomeID, p problem) {
	if h.Deps.BadInput != nil && p.code != codeLater {
		h.Deps.BadInput(from, p.code)
	}
	skipped, ok := h.reports.pass(reportKey{from, p.code}, h.Deps.Now())
	if !ok {
		return
	}
	log := h.Deps.Log.With(slog.String("network", Network), slog.String("peer", string(from)), slog.String("code", p.code), slog.Int("more", skipped))
	if p.code == codeUnverifiable {
		log.LogAttrs(ctx, slog.LevelWarn, "message of another home not verified", slog.Any("err", p.err))
		return
	}
	log.LogAttrs(ctx, slog.LevelInfo, "message of another home not taken", slog.Any("err", p.err))
}

package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"baton/federation"
)

// When the clocks of two homes are compared, and how far apart they may be.
const (
	clockSlip   = time.Second      // that the clocks of two machines may differ
	clockSkew   = 30 * time.Second // above which the log warns: steps are refused from two minutes on, unless configured otherwise
	clockEvery  = 10 * time.Minute // between two comparisons through a hub
	clockRepeat = time.Hour        // between two warnings
)

// Skew returns by how much the clock here is ahead of that of the other home; zero before the
// first comparison. It includes the time that the last question took to arrive over HTTPS.
func (p *Peer) Skew() time.Duration { return time.Duration(p.skew.Load()) }

// Compared returns the local time of the last clock comparison; zero for none.
func (p *Peer) Compared() time.Time {
	if at := p.compared.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// noteSkew keeps by how much the clock here is ahead, and warns of a large difference once an
// hour.
func (p *Peer) noteSkew(ctx context.Context, skew time.Duration) {
	p.skew.Store(int64(skew))
	p.compared.Store(p.deps.Now().UnixNano())
	if skew.Abs() <= clockSkew {
		p.skewed.Store(0)
		return
	}
	now := p.deps.Now().UnixNano()
	if last := p.skewed.Load(); last != 0 && now-last < int64(clockRepeat) || !p.skewed.CompareAndSwap(p.skewed.Load(), now) {
		return
	}
	p.log.LogAttrs(ctx, slog.LevelWarn, "the clocks of the homes differ: deadlines and ids go by the clock; set it by NTP on both machines",
		slog.Duration("ahead_here", skew.Round(time.Second)))
}

// watchClock compares the clocks through the hub, now and every ten minutes, until ctx ends. A
// batch says nothing about a clock there: the hub stores it for any time.
func (p *Peer) watchClock(ctx context.Context) error {
	for p.ByHub() {
		if _, err := p.profile(ctx); err != nil && ctx.Err() == nil {
			p.log.LogAttrs(ctx, slog.LevelDebug, "clocks not compared", slog.Any("err", err))
		}
		timer := time.NewTimer(clockEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// profile reads the profile of the other home through the hub, and notes how far its clock is
// from the one here. It returns how long the answer took.
func (p *Peer) profile(ctx context.Context) (took time.Duration, err error) {
	asked := p.deps.Now()
	document, err := p.Lookup(ctx, federation.ProfilePath)
	if err != nil {
		return 0, err
	}
	heard := p.deps.Now()
	answer := document.Answer
	if _, err := p.deps.Signer.Verify(ctx, p.cfg.Home, heard, answer.Body, answer.Signature); err != nil {
		return 0, fmt.Errorf("its answer is not verified: %w", err)
	}
	profile, err := federation.ParseHomeProfile(document.Body)
	switch {
	case err != nil:
		return 0, fmt.Errorf("its profile cannot be read: %w", err)
	case profile.Home != p.cfg.Home:
		return 0, fmt.Errorf("its profile is that of %s", profile.Home)
	case !profile.Speaks():
		return 0, errors.New("it speaks no version of this home: upgrade the older one")
	}
	// The profile was sent between the two moments.
	switch {
	case profile.Sent.Before(asked):
		p.noteSkew(ctx, asked.Sub(profile.Sent))
	case profile.Sent.After(heard):
		p.noteSkew(ctx, heard.Sub(profile.Sent))
	default:
		p.noteSkew(ctx, 0)
	}
	return heard.Sub(asked), nil
}

// checkHome asks another home through the hub, and says whether it answers and its key is known.
func (p *Peer) checkHome(ctx context.Context) federation.Finding {
	f := federation.Finding{What: "home " + p.Name(), State: federation.FindingOK}
	took, err := p.profile(ctx)
	if err != nil {
		return federation.Finding{What: f.What, State: federation.FindingFail, Detail: err.Error()}
	}
	f.Detail = fmt.Sprintf("answers through the hub in %s, clock as here", took.Round(time.Millisecond))
	if skew := p.Skew(); skew.Abs() > clockSlip {
		f.State, f.Detail = federation.FindingWarn, fmt.Sprintf("answers through the hub, clock %s apart; deadlines and ids go by the clock", skew.Abs().Round(time.Second))
	}
	return f
}

package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
)

var (
	errAway = errors.New("not reached")
	errHeld = errors.New("on hold")
	// The session ends after an operator blocked or allowed the home.
	errModeChanged = errors.New("an operator changed its mode")
)

// Peer is one other home. A supervisor of links runs it and delivers its outbox.
type Peer struct {
	cfg       PeerConfig
	deps      Deps
	log       *slog.Logger
	live      atomic.Pointer[exchange]
	heard     atomic.Int64  // unix nanoseconds
	back      chan struct{} // holds a token after a message from the home
	limiter   modeLimiter
	hubPaused atomic.Int64 // unix nanoseconds; before, the hub is not used
	skew      atomic.Int64 // see [Peer.Skew]
	compared  atomic.Int64 // see [Peer.Compared]
	// skewed is the last skew warning, in unix nanoseconds.
	skewed atomic.Int64
	// operatorMode is set by an operator. modeChanged holds a token after a change.
	operatorMode atomic.Pointer[Mode]
	modeChanged  chan struct{}
	history      history
	reported     reported
}

// NewPeer returns a home, idle until [Peer.Run].
func NewPeer(cfg PeerConfig, deps Deps) *Peer {
	return &Peer{
		cfg: cfg, deps: deps, back: make(chan struct{}, 1), limiter: newModeLimiter(), modeChanged: make(chan struct{}, 1), history: newHistory(),
		log: deps.Log.With(slog.String("network", Network), slog.String("peer", string(cfg.Home))),
	}
}

// Name returns the name of the other home.
func (p *Peer) Name() string { return string(p.cfg.Home) }

// Home returns the other home.
func (p *Peer) Home() federation.HomeID { return p.cfg.Home }

// URL returns the other home's address without a path.
func (p *Peer) URL() string { return p.cfg.URL }

// Key returns the other home's configured key ID, or "".
func (p *Peer) Key() string { return p.cfg.Key }

// Fetch reads an address of the other home over HTTPS, with the errors of [Poster]. It blocks on the
// network.
func (p *Peer) Fetch(ctx context.Context, address string) ([]byte, error) {
	e, err := p.deps.Poster.Get(ctx, address)
	return e.Body, err
}

// Path returns the path to the other home.
func (p *Peer) Path() Path { return p.cfg.Path }

// Network returns [Network].
func (*Peer) Network() string { return Network }

// Carries returns false, because the mailbox locator selects the homes for a step.
func (*Peer) Carries(context.Context, federation.Event, federation.View) (bool, error) {
	return false, nil
}

// Heard returns the arrival time of the last signed message.
func (p *Peer) Heard() time.Time {
	if at := p.heard.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Reconnected returns a channel that holds a token after a message from the other home.
func (p *Peer) Reconnected() <-chan struct{} { return p.back }

func (p *Peer) noteHeard() {
	p.heard.Store(p.deps.Now().UnixNano())
	select {
	case p.back <- struct{}{}:
	default:
	}
}

// Run exchanges steps with the other home until ctx ends or the home stops answering, and returns the
// reason. It calls up when the home has answered.
func (p *Peer) Run(ctx context.Context, up func()) error {
	if p.Mode() == Block {
		up() // nothing to wait for
		if err := p.whileBlocked(ctx, true); err != nil {
			return err
		}
		return errModeChanged
	}
	if err := p.greet(ctx); err != nil {
		return err
	}
	e := &exchange{asks: make(chan *ask, maxItems), quiet: time.NewTimer(quietAfter), over: make(chan struct{})}
	defer e.quiet.Stop()
	p.live.Store(e)
	up()
	if p.deps.Linked != nil {
		p.deps.Linked(ctx)
	}
	group, ctx := errgroup.WithContext(ctx)
	for range exchanges {
		group.Go(fault.Func(func() error { return p.send(ctx, e) }))
	}
	group.Go(fault.Func(func() error { return p.askPending(ctx) }))
	group.Go(fault.Func(func() error { return p.compareHistories(ctx) }))
	group.Go(fault.Func(func() error { return p.watchClock(ctx) }))
	group.Go(fault.Func(func() error {
		if err := p.whileBlocked(ctx, false); err != nil {
			return err
		}
		return errModeChanged
	}))
	err := group.Wait()
	p.live.Store(nil)
	close(e.over)
	return err
}

func (p *Peer) unavailable(err error) error {
	return &federation.UnavailableError{What: "home " + p.Name(), Err: err}
}

// PeerConfig configures the path to another home.
type PeerConfig struct {
	Home federation.HomeID
	URL  string // without a path; "" if only reached through the hub
	Path Path   // "" for [ByHTTPS]
	Mode Mode
	// Key is the ID of the key that signs the other home's DID document, if received through a hub. The
	// operators exchange it out of band. It may be "".
	Key string
}

// Path is the transport to a home.
type Path string

// The paths.
const (
	ByRelay Path = "relay" // through the hub, with HTTPS as the fallback
	ByHTTPS Path = "https"
)

// Check calls mistake with the key and the reason of each invalid value. The own name is that of this
// home.
func (c PeerConfig) Check(own federation.HomeID, mistake func(key, why string)) {
	switch c.Home {
	case "":
		mistake("name", "required: its home.name, such as b.example")
	case own:
		mistake("name", "it is this gateway's own")
	case federation.UnroutedLink:
		mistake("name", `"`+federation.UnroutedLink+`" is the feed of deliveries without a known home`)
	}
	switch {
	case c.URL == "" && c.Path == ByHTTPS:
		mistake("url", `required with path = "https": https:// and a host, without a path`)
	case c.URL != "" && federation.CheckOrigin(c.URL) != nil:
		mistake("url", `want https:// and a host, without a path, or "" for a home that the hub alone reaches`)
	}
	if c.Path != ByRelay && c.Path != ByHTTPS {
		mistake("path", `want "relay" or "https"`)
	}
	if !slices.Contains([]Mode{Allow, Limit, Hold, Block}, c.Mode) {
		mistake("mode", `want "allow", "limit", "hold" or "block"`)
	}
}

// Known returns the other home's address data.
func (p *Peer) Known() federation.KnownHome {
	return federation.KnownHome{Home: p.Home(), URL: p.URL(), Path: string(p.Path())}
}

// Blocked reports whether an operator blocked the other home.
func (p *Peer) Blocked() bool { return p.Mode() == Block }

// Mode restricts the exchange with another home.
type Mode string

// The modes.
const (
	Allow Mode = "allow" // both directions
	Limit Mode = "limit" // both directions, but only a few steps per second
	Hold  Mode = "hold"  // the home must retry later, and deliveries to it wait
	Block Mode = "block" // the home is refused, and deliveries to it become dead letters
)

// Steps per second of a home in mode limit.
const limitedRate = 10

// SetOperatorMode overrides the configured mode; "" restores it. It also affects exchanges in progress.
func (p *Peer) SetOperatorMode(mode Mode) {
	if before := p.operatorMode.Swap(&mode); before == nil || *before != mode {
		select {
		case p.modeChanged <- struct{}{}:
		default: // one token suffices
		}
	}
}

// OperatorMode returns the mode set by an operator, or "".
func (p *Peer) OperatorMode() Mode {
	if mode := p.operatorMode.Load(); mode != nil {
		return *mode
	}
	return ""
}

// Mode returns the effective mode of the other home.
func (p *Peer) Mode() Mode { return cmp.Or(p.OperatorMode(), p.cfg.Mode) }

// If blocked is false, it waits for a block. It returns early when ctx ends.
func (p *Peer) whileBlocked(ctx context.Context, blocked bool) error {
	for (p.Mode() == Block) == blocked {
		select {
		case <-p.modeChanged:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Safe for concurrent use.
type modeLimiter struct{ flow *rate.Limiter }

func newModeLimiter() modeLimiter { return modeLimiter{flow: rate.NewLimiter(limitedRate, maxItems)} }

func (t modeLimiter) admits(mode Mode, steps int, now time.Time) bool {
	return steps == 0 || mode != Hold && (mode != Limit || t.flow.AllowN(now, steps))
}

const (
	clockSlip   = time.Second      // tolerated difference of two machines
	clockSkew   = 30 * time.Second // threshold for warnings; by default, steps are refused at two minutes
	clockEvery  = 10 * time.Minute // between comparisons
	clockRepeat = time.Hour        // between warnings
)

// Skew returns how far the local clock is ahead, or zero before the first comparison. Over HTTPS, it
// includes the latency of the last request.
func (p *Peer) Skew() time.Duration { return time.Duration(p.skew.Load()) }

// Compared returns the time of the last clock comparison, or zero.
func (p *Peer) Compared() time.Time {
	if at := p.compared.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// noteSkew warns at most once an hour.
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

// Batches do not show the clock, because the hub may store them for any time.
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

// profile also records the clock difference.
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
		return 0, errors.New("it has no protocol version in common with this home: upgrade the older one")
	}
	// The profile was stamped between asked and heard. Any difference beyond that is skew.
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

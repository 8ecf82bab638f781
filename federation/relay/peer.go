package relay

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/federation"
	"baton/federation/fault"
)

var (
	errAway = errors.New("not reached")
	errHeld = errors.New("on hold")
	// Ends the session of a home that an operator blocked or allowed.
	errModeChanged = errors.New("an operator changed its mode")
)

// Peer is one other home. A supervisor of links runs it and delivers its outbox; the steps that wait
// for a ruling of the other home are read from the record.
type Peer struct {
	cfg       PeerConfig
	deps      Deps
	log       *slog.Logger
	live      atomic.Pointer[exchange]
	heard     atomic.Int64  // unix nanoseconds
	back      chan struct{} // holds a token once a message of the home arrived
	limiter   modeLimiter
	hubPaused atomic.Int64 // unix nanoseconds until which the hub is not used
	skew      atomic.Int64 // see [Peer.Skew]
	compared  atomic.Int64 // see [Peer.Compared]
	// skewed is when the log was warned of a skew, in unix nanoseconds.
	skewed atomic.Int64
	// operatorMode is the mode that an operator chose, and modeChanged holds a token once it
	// changed.
	operatorMode atomic.Pointer[Mode]
	modeChanged  chan struct{}
	history      history
	reported     reported
}

// NewPeer returns a home. It exchanges nothing before [Peer.Run].
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

// URL returns where the other home is reached, without a path.
func (p *Peer) URL() string { return p.cfg.URL }

// Key returns the id of the key that the configuration has for the other home; "" for none.
func (p *Peer) Key() string { return p.cfg.Key }

// Fetch reads an address of the other home by HTTPS. It blocks on the network, and has the
// errors of [Poster].
func (p *Peer) Fetch(ctx context.Context, address string) ([]byte, error) {
	e, err := p.deps.Poster.Get(ctx, address)
	return e.Body, err
}

// Path returns the way on which the other home is reached.
func (p *Peer) Path() Path { return p.cfg.Path }

// Network returns [Network].
func (*Peer) Network() string { return Network }

// Carries returns false: the mailbox locator names the homes that a step goes to, once for all
// homes.
func (*Peer) Carries(context.Context, federation.Event, federation.View) (bool, error) {
	return false, nil
}

// Heard returns when the last signed message of the other home arrived.
func (p *Peer) Heard() time.Time {
	if at := p.heard.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Back returns a channel that holds a token once a message of the other home arrived.
func (p *Peer) Back() <-chan struct{} { return p.back }

// noteHeard notes that a signed message of the other home arrived.
func (p *Peer) noteHeard() {
	p.heard.Store(p.deps.Now().UnixNano())
	select {
	case p.back <- struct{}{}:
	default:
	}
}

// Run exchanges steps with the other home until ctx ends or the home stops answering, and returns
// the reason. It calls up once the home has answered.
func (p *Peer) Run(ctx context.Context, up func()) error {
	if p.Mode() == Block {
		up() // there is nothing to wait for
		if err := p.whileBlocked(ctx, true); err != nil {
			return err
		}
		return errModeChanged
	}
	if err := p.greet(ctx); err != nil {
		return err
	}
	e := &exchange{asks: make(chan *ask, maxItems), over: make(chan struct{})}
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

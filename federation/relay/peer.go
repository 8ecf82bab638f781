package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/federation"
)

// Mode is what another home may do here.
type Mode string

// The modes.
const (
	Allow Mode = "allow" // steps go both ways
	Limit Mode = "limit" // the same, a few a second
	Hold  Mode = "hold"  // the home is told to send later, and deliveries to it wait
	Block Mode = "block" // the home is refused, and deliveries to it end as dead letters
)

// hubPause is how long only HTTPS is used after the hub brought no answer.
const hubPause = time.Minute

// Waits and bounds of the exchange with one home.
const (
	exchanges   = 2                // batches in flight: one is prepared while another is answered
	quietAfter  = 30 * time.Second // without an exchange the other home is asked whether it answers
	limitedRate = 10               // steps a second of a home in mode limit
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
	// skewed is when the log was warned of a skew, in unix nanoseconds.
	skewed atomic.Int64
	// operatorMode is the mode that an operator chose, and modeChanged holds a token once it
	// changed.
	operatorMode atomic.Pointer[Mode]
	modeChanged  chan struct{}
	history      history
	reported     reported
}

// exchange is the sending side of one session.
type exchange struct {
	asks chan *ask
	over chan struct{}
}

// ask is one step on its way to the other home.
type ask struct {
	item  item
	path  []federation.HomeID // see [Envelope]
	trace string              // see [Envelope]
	bytes int
	done  chan reply // holds the one reply
}

type reply struct {
	result result
	err    error
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
		group.Go(func() error { return p.send(ctx, e) })
	}
	group.Go(func() error { return p.askPending(ctx) })
	group.Go(func() error { return p.compareHistories(ctx) })
	group.Go(func() error { return p.watchClock(ctx) })
	group.Go(func() error {
		if err := p.whileBlocked(ctx, false); err != nil {
			return err
		}
		return errModeChanged
	})
	err := group.Wait()
	p.live.Store(nil)
	close(e.over)
	return err
}

// send posts queued steps, batch by batch, until ctx ends or a batch fails.
func (p *Peer) send(ctx context.Context, e *exchange) error {
	quiet := time.NewTimer(quietAfter)
	defer quiet.Stop()
	for {
		select {
		case first := <-e.asks:
			if err := p.sendBatch(ctx, gather(first, e.asks)); err != nil {
				return err
			}
		case <-quiet.C:
			if err := p.greet(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		quiet.Reset(quietAfter)
	}
}

// gather returns the steps that are queued now, up to the size of a batch.
func gather(first *ask, more <-chan *ask) []*ask {
	asks, size := []*ask{first}, first.bytes
	for len(asks) < maxItems && size < batchBytes {
		select {
		case next := <-more:
			asks, size = append(asks, next), size+next.bytes
		default:
			return asks
		}
	}
	return asks
}

// sendBatch sends steps in their order, in one batch for each path that they came on.
func (p *Peer) sendBatch(ctx context.Context, asks []*ask) error {
	for len(asks) > 0 {
		end := slices.IndexFunc(asks, func(a *ask) bool { return !slices.Equal(a.path, asks[0].path) })
		if end < 0 {
			end = len(asks)
		}
		items := make([]item, end)
		for i, a := range asks[:end] {
			items[i] = a.item
		}
		results, err := p.post(ctx, Envelope{Path: asks[0].path, Trace: asks[0].trace}, items)
		if err != nil {
			for _, a := range asks {
				a.done <- reply{err: err}
			}
			return err
		}
		for i, a := range asks[:end] {
			a.done <- reply{result: results[i]}
		}
		asks = asks[end:]
	}
	return nil
}

// greet asks whether the other home answers.
func (p *Peer) greet(ctx context.Context) error {
	_, err := p.post(ctx, Envelope{Path: []federation.HomeID{p.deps.Home}}, []item{})
	return err
}

// post sends a batch in an envelope and returns the signed result of each step.
func (p *Peer) post(ctx context.Context, e Envelope, items []item) ([]result, error) {
	b := batch{heading: p.deps.ask(typeSteps, p.cfg.Home), Items: items}
	body, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("write steps for %s: %w", p.cfg.Home, err)
	}
	e.Body = body
	text, err := p.request(ctx, e)
	if err != nil {
		return nil, err
	}
	results, err := parseAnswer(text, b, body)
	if err != nil {
		return nil, p.unavailable(fmt.Errorf("its answer cannot be read: %w", err))
	}
	return results, nil
}

// request signs the body of an envelope, sends it, and returns the signed answer of the other home.
func (p *Peer) request(ctx context.Context, e Envelope) ([]byte, error) {
	signature, err := p.deps.Signer.Sign(ctx, e.Body)
	if err != nil {
		return nil, fmt.Errorf("sign for %s: %w", p.cfg.Home, err)
	}
	e.Signature = signature
	answer, err := p.carry(ctx, e)
	if err != nil {
		return nil, p.unavailable(err)
	}
	if _, err := p.deps.Signer.Verify(ctx, p.cfg.Home, p.deps.Now(), answer.Body, answer.Signature); err != nil {
		return nil, p.unavailable(fmt.Errorf("its answer is not signed by it: %w", err))
	}
	p.heard.Store(p.deps.Now().UnixNano())
	p.history.started(bootOf(answer.Body))
	return answer.Body, nil
}

// carry sends an envelope through the hub, if the home is reached by one, and over HTTPS where the
// hub brings no answer. A message that arrives twice has no further effect.
func (p *Peer) carry(ctx context.Context, e Envelope) (Envelope, error) {
	now := p.deps.Now().UnixNano()
	if p.cfg.Path == ByRelay && p.deps.Hub != nil && now >= p.hubPaused.Load() {
		answer, err := p.deps.Hub.Carry(ctx, p.cfg.Home, e)
		if err == nil || ctx.Err() != nil {
			return answer, err
		}
		if !errors.Is(err, errNoStream) { // without a stream the next message tries the hub again
			p.hubPaused.Store(now + int64(hubPause))
		}
		p.log.LogAttrs(ctx, slog.LevelInfo, "hub brings no answer", slog.Any("err", err))
		if p.cfg.URL == "" {
			p.hubPaused.Store(0)
			return answer, err
		}
	}
	if p.cfg.URL == "" {
		return Envelope{}, p.unavailable(errNoWay)
	}
	address, err := federation.JoinURL(p.cfg.URL, StepsPath, nil)
	if err != nil {
		return Envelope{}, p.unavailable(err)
	}
	answer, err := p.deps.Poster.Post(ctx, address, e)
	if err != nil {
		p.hubPaused.Store(0) // HTTPS failed too: the next message tries the hub
	}
	return answer, err
}

func (p *Peer) unavailable(err error) error {
	return &federation.UnavailableError{What: "home " + p.Name(), Err: err}
}

// ask sends one step on a path, and waits for the result.
func (p *Peer) ask(ctx context.Context, path []federation.HomeID, it item) (result, error) {
	if p.Mode() == Hold {
		return result{}, p.unavailable(errHeld)
	}
	e := p.live.Load()
	if e == nil {
		return result{}, p.unavailable(errAway)
	}
	a := &ask{item: it, path: path, bytes: it.size(), done: make(chan reply, 1)}
	if p.deps.Traces != nil {
		a.trace = p.deps.Traces.Parent(ctx, it.Step.ID)
	}
	select {
	case e.asks <- a:
	case <-e.over:
		return result{}, p.unavailable(errAway)
	case <-ctx.Done():
		return result{}, p.unavailable(ctx.Err())
	}
	select {
	case r := <-a.done:
		return r.result, r.err
	case <-ctx.Done():
		return result{}, p.unavailable(ctx.Err())
	case <-e.over:
	}
	select {
	case r := <-a.done: // the result arrived as the session ended
		return r.result, r.err
	default:
		return result{}, p.unavailable(errAway)
	}
}

// size returns about how many bytes a step takes in a batch.
func (it item) size() int {
	n := len(it.Step.Document) + len(it.Step.Signature) + 512 // names, ids and times
	if it.Step.Evidence != nil {
		n += len(it.Step.Evidence.Content)
	}
	if it.Ruling != nil {
		n += len(it.Ruling.Document) + len(it.Ruling.Signature)
	}
	return n
}

// Deliver sends a filed step with the ruling of the home of its handoff, after the steps that the
// other home lacks. It blocks until the other home answers. Nil means that the other home signed
// that the step is on its disk. A [*federation.RefusalError] is final, and so is the
// [*federation.GivenUpError] for a home that an operator blocked.
func (p *Peer) Deliver(ctx context.Context, d federation.Delivery) error {
	path := p.deps.hops(d.View.Home, d.Entry.Event)
	switch isText := d.Entry.Event.IsMessage(); {
	case d.Entry.Version == 0 && !isText:
		return nil // a receipt: homes get the ruling instead
	case p.Mode() == Block:
		return &federation.GivenUpError{Reason: federation.DeadBlocked, Why: "home " + p.Name() + " is blocked"}
	case isText:
		return p.deliverText(ctx, d.Entry.Event)
	case slices.Contains(path, p.cfg.Home):
		return nil // the step came through that home
	}
	it, err := p.deps.filed(ctx, d.View.Home, d.Entry)
	if err != nil {
		return err
	}
	r, err := p.ask(ctx, path, it)
	if err == nil && r.Outcome == outcomeGap {
		r, err = p.refill(ctx, d.View.Home, d.Entry, r.Have)
	}
	if err != nil {
		return err
	}
	p.learn(ctx, r.Moved)
	return p.deliveryError(d.Entry.Event, r)
}

// refill sends the steps of a handoff that the other home lacks, up to a step, and returns the
// result of that step.
func (p *Peer) refill(ctx context.Context, of federation.HomeID, upTo federation.Entry, have federation.Version) (result, error) {
	var last result
	for entry, err := range p.deps.Record.Log(ctx, upTo.Event.Handoff, have) {
		if err != nil {
			return last, fmt.Errorf("read log of %s: %w", upTo.Event.Handoff, err)
		}
		if entry.Event.Erased != nil {
			return result{Outcome: outcomeRefused, Code: string(federation.TerminalHandoff), Detail: erasedDetail}, nil
		}
		it, err := p.deps.filed(ctx, of, entry)
		if err != nil {
			return last, err
		}
		if last, err = p.ask(ctx, p.deps.hops(of, entry.Event), it); err != nil {
			return last, err
		}
		if entry.Version == upTo.Version || last.Outcome != outcomeStored && last.Outcome != outcomeDuplicate {
			break
		}
	}
	return last, nil
}

// deliveryError returns nil for a delivered step, a refusal, or why the delivery is retried.
func (p *Peer) deliveryError(ev federation.Event, r result) error {
	switch r.Outcome {
	case outcomeStored, outcomeDuplicate:
		return nil
	case outcomeRefused, outcomeConflict:
		return federation.Refuse(ev, federation.RefusalCode(r.Code), r.Detail)
	case outcomeGap, outcomeLater:
	}
	return p.unavailable(fmt.Errorf("it answers %q", r.Outcome))
}

// filed returns a step with the ruling of the home of its handoff: a new one for a handoff of this
// home, else the ruling by which the step was filed here.
func (d Deps) filed(ctx context.Context, of federation.HomeID, entry federation.Entry) (item, error) {
	it, err := d.carry(ctx, entry.Event)
	if err != nil {
		return it, err
	}
	if of != d.Home {
		it.Ruling = &signed{}
		it.Ruling.Document, it.Ruling.Signature, err = d.Record.RulingOn(ctx, entry.Event.Handoff, entry.Version)
		return it, err
	}
	chain, err := d.Record.Chain(ctx, entry.Event.Handoff, entry.Version)
	if err != nil {
		return item{}, err
	}
	document, err := writeRuling(d.Home, entry, chain)
	if err != nil {
		return item{}, fmt.Errorf("write ruling on %s: %w", entry.Event.ID, err)
	}
	signature, err := d.Signer.Sign(ctx, document)
	if err != nil {
		return item{}, fmt.Errorf("sign ruling on %s: %w", entry.Event.ID, err)
	}
	it.Ruling = &signed{Document: string(document), Signature: signature}
	return it, nil
}

// carry returns a step with the evidence behind it.
func (d Deps) carry(ctx context.Context, ev federation.Event) (item, error) {
	var original []byte
	if ev.Evidence != nil {
		var err error
		if original, err = d.Record.Evidence(ctx, ev.Evidence.Digest); err != nil {
			return item{}, fmt.Errorf("read evidence of %s: %w", ev.ID, err)
		}
	}
	return item{Step: carry(ev, original)}, nil
}

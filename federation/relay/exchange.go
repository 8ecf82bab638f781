package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// After a timeout of the hub, only HTTPS is used for this time.
const hubPause = time.Minute

const (
	exchanges  = 2                // one is prepared while another is answered
	quietAfter = 30 * time.Second // idle time before the other home is checked
)

type exchange struct {
	asks  chan *ask
	quiet *time.Timer // shared by all senders
	over  chan struct{}
}

type ask struct {
	item  item
	path  []federation.HomeID // see [Envelope]
	trace string              // see [Envelope]
	bytes int
	done  chan reply // receives one reply
}

type reply struct {
	result result
	err    error
}

// send returns an error if ctx ends or a batch fails.
func (p *Peer) send(ctx context.Context, e *exchange) error {
	for {
		select {
		case first := <-e.asks:
			if err := p.sendBatch(ctx, gather(first, e.asks)); err != nil {
				return err
			}
		case <-e.quiet.C:
			if err := p.greet(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		e.quiet.Reset(quietAfter)
	}
}

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

// Each path needs its own batch.
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

func (p *Peer) greet(ctx context.Context) error {
	_, err := p.post(ctx, Envelope{Path: []federation.HomeID{p.deps.Home}}, []item{})
	return err
}

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

// Question and answer are signed.
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

// HTTPS is used if the home does not use the hub, or the hub returns no answer. Duplicates have no
// effect.
func (p *Peer) carry(ctx context.Context, e Envelope) (Envelope, error) {
	now := p.deps.Now().UnixNano()
	if p.cfg.Path == ByRelay && p.deps.Hub != nil && now >= p.hubPaused.Load() {
		answer, err := p.deps.Hub.Carry(ctx, p.cfg.Home, e)
		if err == nil || ctx.Err() != nil {
			return answer, err
		}
		if !errors.Is(err, errNoStream) { // if a stream is missing, the next message tries the hub again
			p.hubPaused.Store(now + int64(hubPause))
		}
		p.log.LogAttrs(ctx, slog.LevelInfo, "no response from the hub", slog.Any("err", err))
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
		p.hubPaused.Store(0) // HTTPS failed too: try the hub again
	}
	return answer, err
}

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
	case r := <-a.done: // the session ended, but the result arrived
		return r.result, r.err
	default:
		return result{}, p.unavailable(errAway)
	}
}

func (it item) size() int {
	n := len(it.Step.Document) + len(it.Step.Signature) + 512 // names, IDs and times
	if it.Step.Evidence != nil {
		n += len(it.Step.Evidence.Content)
	}
	if it.Ruling != nil {
		n += len(it.Ruling.Document) + len(it.Ruling.Signature)
	}
	return n
}

// HTTPClient sends requests to configured hosts.
type HTTPClient interface {
	// Do sends a body, if not nil, and returns the body and the header of a response with status 200.
	// For any other response, the error wraps [*federation.UnavailableError]. It blocks on the network.
	Do(ctx context.Context, method, address string, body []byte, header http.Header) ([]byte, http.Header, error)
}

// HTTPSPoster is a [Poster] over an HTTP client.
type HTTPSPoster struct{ Client HTTPClient }

var _ Poster = HTTPSPoster{}

// Post implements [Poster].
func (p HTTPSPoster) Post(ctx context.Context, address string, e Envelope) (Envelope, error) {
	answer, header, err := p.Client.Do(ctx, http.MethodPost, address, e.Body, e.Header())
	return NewEnvelope(answer, header), err
}

// Get implements [Poster].
func (p HTTPSPoster) Get(ctx context.Context, address string) (Envelope, error) {
	answer, header, err := p.Client.Do(ctx, http.MethodGet, address, nil, nil)
	return NewEnvelope(answer, header), err
}

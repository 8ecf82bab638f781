package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
)

// Run reads the messages of other homes from the hub until ctx ends. A home's stream is read once the
// home is a peer and the stream exists or can be created.
func (h *Hub) Run(ctx context.Context, handler *PeerHandler, peers func() []*Peer) {
	r := &hubReader{hub: h, handler: handler, streams: map[federation.HomeID]jetstream.ConsumeContext{}, lastLogged: map[federation.HomeID]string{}}
	r.processing.Caught = handler.caught(ctx)
	defer r.close()
	tick := time.NewTicker(hubLook)
	defer tick.Stop()
	for ctx.Err() == nil {
		if h.Ready() == nil {
			r.warn(ctx)
			r.read(ctx, peers())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// A hubReader is used by one goroutine.
type hubReader struct {
	hub        *Hub
	handler    *PeerHandler
	processing fault.Group // messages in process
	streams    map[federation.HomeID]jetstream.ConsumeContext
	lastLogged map[federation.HomeID]string // reasons for not reading a stream
	warned     bool
}

// close blocks until received messages are judged.
func (r *hubReader) close() {
	for _, each := range r.streams {
		each.Stop()
		<-each.Closed()
	}
	r.processing.Wait()
}

func (r *hubReader) warn(ctx context.Context) {
	if r.warned {
		return
	}
	r.warned = true
	if account, err := r.hub.whoami(ctx); err == nil && account.Data.Account == globalAccount {
		r.hub.log.LogAttrs(ctx, slog.LevelWarn, "the hub has no accounts: steps are signed, but every client of it can delete waiting batches")
	}
}

func (r *hubReader) read(ctx context.Context, peers []*Peer) {
	for home, stream := range r.streams {
		select {
		case <-stream.Closed():
			delete(r.streams, home)
			r.hub.noteRead(home, false)
		default:
		}
	}
	for _, peer := range peers {
		if r.streams[peer.Home()] != nil || peer.cfg.Path != ByRelay {
			continue
		}
		stream, err := r.hub.listen(ctx, peer.Home(), r.handler, &r.processing)
		r.logOnce(ctx, peer.Home(), err)
		if err == nil {
			r.streams[peer.Home()] = stream
			r.hub.noteRead(peer.Home(), true)
		}
	}
}

// The reader retries every second, so each reason is logged once.
func (r *hubReader) logOnce(ctx context.Context, from federation.HomeID, err error) {
	r.hub.noteUnread(from, err)
	switch {
	case err == nil:
		delete(r.lastLogged, from)
	case r.lastLogged[from] != err.Error():
		r.lastLogged[from] = err.Error()
		r.hub.log.LogAttrs(ctx, slog.LevelWarn, "stream of a home not read", slog.String("peer", string(from)), slog.Any("err", err))
	}
}

func (h *Hub) noteRead(from federation.HomeID, is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.read[from] = is
}

func (h *Hub) noteUnread(from federation.HomeID, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unread[from] = err
}

func (h *Hub) listen(ctx context.Context, from federation.HomeID, handler *PeerHandler, processing *fault.Group) (jetstream.ConsumeContext, error) { //nolint:ireturn // the type of NATS
	stream, err := h.stream(ctx, from)
	if err != nil {
		return nil, err
	}
	consumer, err := stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: hubConsumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: hubAckWait, MaxAckPending: hubPending,
	})
	if told, ok := errors.AsType[jetstream.JetStreamError](err); ok && told.APIError() != nil && told.APIError().ErrorCode == jetstream.JSErrCodeConsumerCreate {
		return nil, h.renew(ctx, from, told)
	}
	if err != nil {
		return nil, err
	}
	in := &inflow{hub: h, from: from, handler: handler, processing: processing, batches: make(chan struct{}, hubBatches), lookups: make(chan struct{}, hubLookups)}
	sort := func(m jetstream.Msg) {
		if err := fault.Catch(func() error { in.sort(ctx, m); return nil }); err != nil { // the client calls this in a goroutine
			handler.caught(ctx)(err)
		}
	}
	return consumer.Consume(sort, jetstream.PullExpiry(hubPull),
		jetstream.ConsumeErrHandler(func(consume jetstream.ConsumeContext, err error) {
			h.log.LogAttrs(ctx, slog.LevelDebug, "stream of a home not read on", slog.String("peer", string(from)), slog.Any("err", err))
			// The next check reopens a deleted stream or consumer. Unlike Stop, Drain keeps the
			// received messages, which would be redelivered only after hubAckWait.
			consume.Drain()
		}))
}

// renew deletes a stream if damaged files prevent its reader. The next poll recreates the stream, and
// the other home resends its messages.
func (h *Hub) renew(ctx context.Context, from federation.HomeID, cause error) error {
	name := streamName(h.home, from)
	damaged := fmt.Errorf("the files of its reader are damaged at the hub (%w)", cause)
	h.mu.Lock()
	soon := time.Since(h.renewed[from]) < hubRenew
	if !soon {
		h.renewed[from] = time.Now()
	}
	before := h.unread[from]
	h.mu.Unlock()
	if soon && before != nil {
		return before
	}
	deleting, cancel := context.WithTimeout(ctx, hubAck)
	defer cancel()
	if err := h.js.DeleteStream(deleting, name); err != nil {
		return fmt.Errorf("%w: stop the server, delete the folder streams/%s/obs/%s in its store_dir, and start it; nothing is lost", damaged, name, hubConsumer)
	}
	return fmt.Errorf("%w: the stream is made again, and nothing is lost", damaged)
}

func (h *PeerHandler) caught(ctx context.Context) func(err error) {
	return func(err error) {
		if h.Deps.Caught != nil {
			h.Deps.Caught(ctx, err)
		}
	}
}

// Judging a batch may need a response of the same home, such as its key. Batches must not delay
// responses or lookups.
type inflow struct {
	hub        *Hub
	from       federation.HomeID
	handler    *PeerHandler
	processing *fault.Group
	batches    chan struct{} // one token per batch in process
	lookups    chan struct{} // one token per lookup in process
}

// sort does not block. The server limits waiting batches by number and size.
func (in *inflow) sort(ctx context.Context, m jetstream.Msg) {
	received, judging := time.Now(), context.WithoutCancel(ctx)
	switch kind := m.Subject()[strings.LastIndexByte(m.Subject(), '.')+1:]; kind {
	case typeResults:
		in.hub.answered(NewEnvelope(m.Data(), http.Header(m.Headers())))
		_ = m.Ack()
	case typeLookup:
		in.processing.Go(func() {
			if in.acquire(ctx, in.lookups, received) {
				defer func() { <-in.lookups }()
				in.answer(judging, m, in.handler.find)
			}
		})
	default:
		in.processing.Go(func() {
			if in.acquire(ctx, in.batches, received) {
				defer func() { <-in.batches }()
				in.answer(judging, m, in.handler.process)
			}
		})
	}
}

// acquire returns false if the server redelivers the message or ctx ends.
func (in *inflow) acquire(ctx context.Context, turns chan<- struct{}, received time.Time) bool {
	again := time.NewTimer(hubAckWait - time.Since(received))
	defer again.Stop()
	select {
	case turns <- struct{}{}:
		return true
	case <-again.C:
	case <-ctx.Done():
	}
	return false
}

// An unacknowledged message is redelivered as a duplicate.
func (in *inflow) answer(ctx context.Context, m jetstream.Msg, judge func(context.Context, federation.HomeID, Envelope) (Envelope, *problem)) {
	answer, p := judge(ctx, in.from, NewEnvelope(m.Data(), http.Header(m.Headers())))
	switch {
	case p != nil && p.status == http.StatusServiceUnavailable:
		in.handler.report(ctx, in.from, *p)
		_ = m.NakWithDelay(laterAfter)
		return
	case p != nil:
		in.handler.report(ctx, in.from, *p)
		_ = m.Term()
		return
	}
	publishing, cancel := context.WithTimeout(ctx, hubAnswer)
	defer cancel()
	if err := in.hub.publishUntilAcked(publishing, in.from, typeResults, answer); err != nil {
		in.hub.log.LogAttrs(ctx, slog.LevelInfo, "answer not sent", slog.String("peer", string(in.from)), slog.Any("err", err)) // the other home retries
	}
	_ = m.Ack()
}

// The waiting exchange verifies the answer.
func (h *Hub) answered(e Envelope) {
	var a struct {
		Of string `json:"of"`
	}
	if err := federation.DecodeJSON(e.Body, &a); err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if waiting := h.waiting[a.Of]; waiting != nil {
		select {
		case waiting <- e:
		default: // duplicate answer
		}
	}
}

// A hub with an account for each home vouches for homes.
func (h *Hub) vouches(ctx context.Context) (bool, error) {
	if err := h.Ready(); err != nil {
		return false, err
	}
	account, err := h.whoami(ctx)
	if err != nil {
		return false, err
	}
	return account.Data.Account != globalAccount && len(account.Data.Permissions) > 0, nil
}

// HubVouches reports whether the hub vouches for the other home's name: with an account for each home,
// no other client can publish in its stream. It blocks for at most five seconds.
func (p *Peer) HubVouches(ctx context.Context) (bool, error) {
	if !p.ByHub() {
		return false, errors.New("it is not reached through a hub")
	}
	return p.deps.Hub.vouches(ctx)
}

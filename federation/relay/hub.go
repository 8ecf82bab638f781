package relay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"baton/federation"
)

// HubConfig says which NATS server homes meet at.
type HubConfig struct {
	ServerConfig

	// Replicas and MaxBytes are what the streams to this home are made with: their copies,
	// on as many servers, 0 for one; and how large one may grow, 0 for 16 MiB, which the
	// server keeps free for it. A full one takes no more, and rows wait.
	Replicas int
	MaxBytes int64
	// Ours says that the server is this operator's: a stream that is there becomes as it
	// would be made now. At one of others it is used as it is: how long it keeps what, and
	// on how many servers, is for them to say.
	Ours bool
}

// Bounds of what goes through a hub.
const (
	hubAnswer   = 10 * time.Second    // within which the other home answers; then the batch goes another way
	hubAge      = 14 * 24 * time.Hour // of a batch that nobody fetched
	hubBytes    = 16 << 20            // of one stream: few batches are under way, and what waits is in the record
	hubTakes    = 8                   // batches of one home that are judged at a time
	hubAckWait  = time.Minute         // after which a batch is handed out again that was not judged
	hubPull     = 5 * time.Second     // of one request for more; a server that is silent for half of it is asked anew
	hubLook     = time.Second         // how often it is looked for homes to listen to
	hubPending  = 1024                // batches that were handed out and not judged
	hubConsumer = "home"              // the durable consumer of each stream
)

var (
	// Returned while the hub is not connected.
	errHubAway = errors.New("the hub is not connected")
	// Returned while one of the two homes has not made the stream that leads to it: the
	// batch, or the answer, would go nowhere. It costs no wait.
	errNoStream = errors.New("no stream there between the homes yet")
)

// Hub is a NATS server that homes meet at. From each home to each other one there is a
// stream of its own, "FED_<to>__<from>" on "fed.<to>.<from>.>", with the batches and the
// answers of [StepsPath]: the same bytes, with the signature in the same header. So the
// server can forge nothing, and what it loses is sent again from the record. The home
// that a stream leads to makes it: see [WriteAccounts].
//
// A message is acknowledged once its steps are on disk. The ids of messages mean
// nothing: who reads compares what was signed.
type Hub struct {
	home    federation.HomeID
	conn    *nats.Conn
	js      jetstream.JetStream
	streams jetstream.StreamConfig // what those to this home have in common
	ours    bool                   // see [HubConfig]
	log     *slog.Logger

	mu      sync.Mutex
	waiting map[string]chan Envelope   // by the SHA-256 of the batch
	heard   map[federation.HomeID]bool // whose stream is read, which brings answers too
	cut     chan struct{}              // closed when the connection breaks, and then another one
}

// OpenHub begins to connect, and goes on until [Hub.Close]: a hub that is away now is no
// error, a file that cannot be read is.
func OpenHub(cfg HubConfig, home federation.HomeID, log *slog.Logger) (*Hub, error) {
	conn, err := cfg.connect(home, log)
	if err != nil {
		return nil, fmt.Errorf("open hub: %w", err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("open hub: %w", err)
	}
	h := &Hub{
		home: home, conn: conn, js: js, streams: cfg.streams(), ours: cfg.Ours, log: log,
		waiting: map[string]chan Envelope{}, heard: map[federation.HomeID]bool{}, cut: make(chan struct{}),
	}
	conn.SetDisconnectErrHandler(func(*nats.Conn, error) { h.broken() })
	return h, nil
}

// broken ends the wait of all who wait for an answer: what they sent may be lost, and is
// sent again sooner than the answer would be missed.
func (h *Hub) broken() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.cut)
	h.cut = make(chan struct{})
}

// Close ends the connection.
func (h *Hub) Close() { h.conn.Close() }

// Ready returns nil while the hub is connected.
func (h *Hub) Ready() error {
	if h.conn.Status() != nats.CONNECTED {
		return errHubAway
	}
	return nil
}

// token returns how a home is called in subjects and names of streams, where dots have
// a meaning. No host name has an underscore, so no two homes share one.
func token(home federation.HomeID) string { return strings.ReplaceAll(string(home), ".", "_") }

func streamName(to, from federation.HomeID) string { return "FED_" + token(to) + "__" + token(from) }

// hubSubject returns the subjects of what goes from one home to another.
func hubSubject(to, from federation.HomeID) string {
	return "fed." + token(to) + "." + token(from) + ".>"
}

// Carry sends an envelope to another home and waits for the answer, for ten seconds at most.
// The error wraps [*federation.UnavailableError] where there was none: then nobody knows
// whether the batch arrived.
func (h *Hub) Carry(ctx context.Context, to federation.HomeID, e Envelope) (Envelope, error) {
	if err := h.open(to); err != nil {
		return Envelope{}, &federation.UnavailableError{What: "hub", Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, hubAnswer)
	defer cancel()
	of, answered := digestOf(string(e.Body)), make(chan Envelope, 1)
	h.mu.Lock()
	h.waiting[of] = answered
	cut := h.cut
	h.mu.Unlock()
	go func() {
		select {
		case <-cut:
			cancel()
		case <-ctx.Done():
		}
	}()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.waiting, of)
	}()
	if err := h.publish(ctx, to, typeSteps, e); err != nil {
		return Envelope{}, &federation.UnavailableError{What: "hub", Err: err}
	}
	select {
	case answer := <-answered:
		return answer, nil
	case <-ctx.Done():
		return Envelope{}, &federation.UnavailableError{What: "home " + string(to), Err: fmt.Errorf("no answer through the hub: %w", ctx.Err())}
	}
}

// open returns nil while an answer of the home would be read here.
func (h *Hub) open(to federation.HomeID) error {
	if err := h.Ready(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.heard[to] {
		return errNoStream
	}
	return nil
}

// publish puts a message into the stream to another home. Until that has been there and
// made the stream, nobody takes it.
func (h *Hub) publish(ctx context.Context, to federation.HomeID, kind string, e Envelope) error {
	_, err := h.js.PublishMsg(ctx, &nats.Msg{
		Subject: strings.TrimSuffix(hubSubject(to, h.home), ">") + kind, Data: e.Body, Header: nats.Header(e.Header()),
	}, jetstream.WithRetryAttempts(0))
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		return errNoStream
	}
	return err
}

// streams returns what a stream is made with, but for its name and its subjects.
func (cfg HubConfig) streams() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Storage: jetstream.FileStorage, MaxAge: hubAge, MaxMsgSize: maxBatchBytes, Discard: jetstream.DiscardNew,
		Retention: jetstream.WorkQueuePolicy, // what was judged need not be kept
		Replicas:  cmp.Or(cfg.Replicas, 1), MaxBytes: cmp.Or(cfg.MaxBytes, hubBytes),
	}
}

// stream returns the stream from another home.
func (h *Hub) stream(ctx context.Context, from federation.HomeID) (jetstream.Stream, error) { //nolint:ireturn // NATS has no other type
	cfg := h.streams
	cfg.Name, cfg.Subjects = streamName(h.home, from), []string{hubSubject(h.home, from)}
	stream, err := h.js.Stream(ctx, cfg.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return h.js.CreateStream(ctx, cfg)
	case err != nil || !h.ours:
		return stream, err
	}
	if is := stream.CachedInfo().Config; is.Replicas != cfg.Replicas || is.MaxBytes != cfg.MaxBytes {
		return h.js.UpdateStream(ctx, cfg)
	}
	return stream, nil
}

// Run takes what other homes send through the hub until ctx ends. A home is listened to
// as soon as it is a peer and its stream can be had.
func (h *Hub) Run(ctx context.Context, handler *PeerHandler, peers func() []*Peer) {
	takes := &sync.WaitGroup{}
	defer takes.Wait() // for what was handed out before the streams were left
	listening := map[federation.HomeID]jetstream.ConsumeContext{}
	defer func() {
		for _, each := range listening {
			each.Stop()
			<-each.Closed()
		}
	}()
	tick := time.NewTicker(hubLook)
	defer tick.Stop()
	warned, told := false, map[federation.HomeID]string{}
	for ctx.Err() == nil {
		if !warned && h.Ready() == nil {
			warned = true
			h.warn(ctx)
		}
		for home, consume := range listening {
			select {
			case <-consume.Closed():
				delete(listening, home)
				h.hear(home, false)
			default:
			}
		}
		for _, peer := range peers() {
			if listening[peer.Home()] != nil || peer.cfg.Path != ByRelay || h.Ready() != nil {
				continue
			}
			consume, err := h.listen(ctx, peer.Home(), handler, takes)
			if h.tell(ctx, told, peer.Home(), err); err != nil {
				continue
			}
			listening[peer.Home()] = consume
			h.hear(peer.Home(), true)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// tell tells the log why the stream from a home is not read, once: it is tried for every
// second. What was told is no more once the stream is read.
func (h *Hub) tell(ctx context.Context, told map[federation.HomeID]string, from federation.HomeID, err error) {
	switch {
	case err == nil:
		delete(told, from)
	case told[from] != err.Error():
		told[from] = err.Error()
		h.log.LogAttrs(ctx, slog.LevelWarn, "stream of a home not read", slog.String("peer", string(from)), slog.Any("err", err))
	}
}

// hear notes whether the stream from a home is read.
func (h *Hub) hear(from federation.HomeID, is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard[from] = is
}

// warn tells the log of a server without accounts. It blocks until the server says so.
func (h *Hub) warn(ctx context.Context) {
	who, err := h.whoami(ctx)
	if err == nil && who.Data.Account == globalAccount {
		h.log.LogAttrs(ctx, slog.LevelWarn, "the hub has no accounts: steps are signed, but whoever connects can delete what waits")
	}
}

// listen reads the stream from another home.
func (h *Hub) listen(ctx context.Context, from federation.HomeID, handler *PeerHandler, takes *sync.WaitGroup) (jetstream.ConsumeContext, error) { //nolint:ireturn // NATS has no other type
	stream, err := h.stream(ctx, from)
	if err != nil {
		return nil, err
	}
	consumer, err := stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: hubConsumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: hubAckWait, MaxAckPending: hubPending,
	})
	if err != nil {
		return nil, err
	}
	room := make(chan struct{}, hubTakes)
	return consumer.Consume(func(m jetstream.Msg) {
		room <- struct{}{}
		takes.Go(func() {
			defer func() { <-room }()
			h.receive(context.WithoutCancel(ctx), from, m, handler)
		})
	}, jetstream.PullExpiry(hubPull), jetstream.ConsumeErrHandler(func(consume jetstream.ConsumeContext, err error) {
		h.log.LogAttrs(ctx, slog.LevelDebug, "stream of a home not read on", slog.String("peer", string(from)), slog.Any("err", err))
		consume.Stop() // and is listened to anew: stream and consumer may be gone
	}))
}

// receive takes one message. What cannot be acknowledged is handed out again, and is
// known then.
func (h *Hub) receive(ctx context.Context, from federation.HomeID, m jetstream.Msg, handler *PeerHandler) {
	e := NewEnvelope(m.Data(), http.Header(m.Headers()))
	if strings.HasSuffix(m.Subject(), "."+typeResults) {
		h.answered(e)
		_ = m.Ack()
		return
	}
	answer, p := handler.take(ctx, from, e)
	switch {
	case p != nil && p.status == http.StatusServiceUnavailable:
		_ = m.NakWithDelay(p.after)
		return
	case p != nil:
		h.log.LogAttrs(ctx, slog.LevelInfo, "steps of another home not taken", slog.String("network", Network),
			slog.String("peer", string(from)), slog.String("code", p.code), slog.Any("err", p.err))
		_ = m.Term()
		return
	}
	if err := h.publish(ctx, from, typeResults, answer); err != nil {
		h.log.LogAttrs(ctx, slog.LevelInfo, "answer not sent", slog.String("peer", string(from)), slog.Any("err", err)) // it asks again
	}
	_ = m.Ack()
}

// answered hands an answer to whoever waits for it. It is verified there.
func (h *Hub) answered(e Envelope) {
	var a struct {
		Of string `json:"of"`
	}
	if err := json.Unmarshal(e.Body, &a); err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if waiting := h.waiting[a.Of]; waiting != nil {
		select {
		case waiting <- e:
		default: // it has one
		}
	}
}

package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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

	// Replicas and MaxBytes say how the streams to this home are made: their copies, on as
	// many servers, 0 for one; and how large one may grow, 0 for 16 MiB, which the server keeps
	// free for it. A full one takes no more, and rows wait. A stream that is there gets the
	// copies that are named here.
	Replicas int
	MaxBytes int64
	// Ours says that the server is this operator's: a stream that is there becomes as it
	// would be made now. At a server of another operator its size and age stay as they are.
	Ours bool
}

// Bounds of what goes through a hub.
const (
	hubAnswer   = 10 * time.Second    // within which the other home answers; then the batch goes another way
	hubResend   = 3 * time.Second     // without an answer; a message that arrives twice does no harm
	hubAck      = 2 * time.Second     // within which the hub acknowledges a message; then it is sent again, which does no harm
	hubAge      = 14 * 24 * time.Hour // of a batch that no home fetched
	hubBytes    = 16 << 20            // of one stream: few batches are under way, and what waits is in the record
	hubTakes    = 8                   // batches of one home that are judged at a time
	hubAckWait  = time.Minute         // after which a batch is handed out again that was not judged
	hubPull     = 2 * time.Second     // of one request for more; a server that is silent for so long is asked anew, such as one of a cluster that stopped
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
// nothing: the reader compares the signed documents.
type Hub struct {
	home    federation.HomeID
	conn    *nats.Conn
	js      jetstream.JetStream
	streams jetstream.StreamConfig // what those to this home have in common
	ours    bool                   // see [HubConfig]
	copies  bool                   // the configuration says how many copies a stream has
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
		home: home, conn: conn, js: js, streams: cfg.streams(), ours: cfg.Ours, copies: cfg.Ours || cfg.Replicas > 0, log: log,
		waiting: map[string]chan Envelope{}, heard: map[federation.HomeID]bool{}, cut: make(chan struct{}),
	}
	conn.SetDisconnectErrHandler(func(*nats.Conn, error) { h.broken() })
	return h, nil
}

// broken ends all waits for answers: the messages may be lost, and are sent again sooner than
// the waits would end.
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
// The error wraps [*federation.UnavailableError] where none came: the batch may have arrived.
func (h *Hub) Carry(ctx context.Context, to federation.HomeID, e Envelope) (Envelope, error) {
	return h.exchange(ctx, to, typeSteps, e)
}

// ask sends a lookup to another home and waits for the answer, as [Hub.Carry] does.
func (h *Hub) ask(ctx context.Context, to federation.HomeID, e Envelope) (Envelope, error) {
	return h.exchange(ctx, to, typeLookup, e)
}

// exchange sends a message of a kind and waits for the answer.
func (h *Hub) exchange(ctx context.Context, to federation.HomeID, kind string, e Envelope) (Envelope, error) {
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
	again := time.NewTicker(hubResend)
	defer again.Stop()
	for {
		if err := h.insist(ctx, to, kind, e); err != nil {
			return Envelope{}, &federation.UnavailableError{What: "hub", Err: err}
		}
		select {
		case answer := <-answered:
			return answer, nil
		case <-again.C: // a gateway or a server that was killed took the message with it
		case <-ctx.Done():
			return Envelope{}, &federation.UnavailableError{What: "home " + string(to), Err: fmt.Errorf("no answer through the hub: %w", ctx.Err())}
		}
	}
}

// insist publishes a message until the hub acknowledges it, or ctx ends. A stream of a cluster
// has no leader for a second or two when a server stops, and takes the message then.
func (h *Hub) insist(ctx context.Context, to federation.HomeID, kind string, e Envelope) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, hubAck)
		err := h.publish(attempt, to, kind, e)
		cancel()
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
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

// publish puts a message into the stream to another home. The other home makes
// the stream: before that, the error is errNoStream.
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
	case err != nil:
		return nil, err
	}
	return h.changed(ctx, stream, cfg), nil
}

// changed returns a stream that is there, as the configuration wants it: its copies where the
// configuration names them, and its size at a server of this operator. A server that does not
// allow it is used as it is; relay check shows the difference.
func (h *Hub) changed(ctx context.Context, stream jetstream.Stream, want jetstream.StreamConfig) jetstream.Stream { //nolint:ireturn // NATS has no other type
	is := stream.CachedInfo().Config
	cfg := is
	if h.copies {
		cfg.Replicas = want.Replicas
	}
	if h.ours {
		cfg = want
	}
	if is.Replicas == cfg.Replicas && is.MaxBytes == cfg.MaxBytes {
		return stream
	}
	updated, err := h.js.UpdateStream(ctx, cfg)
	if err != nil {
		h.log.LogAttrs(ctx, slog.LevelWarn, "stream not changed at the hub", slog.String("stream", cfg.Name), slog.Any("err", err))
		return stream
	}
	return updated
}

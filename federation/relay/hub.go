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

	"github.com/baton-gateway/baton/federation"
)

// HubConfig configures the connection to a hub.
type HubConfig struct {
	ServerConfig

	// Replicas is the number of servers with a copy of each stream to this home, 0 for one. It also
	// changes existing streams.
	Replicas int
	// MaxBytes is the maximum size of a stream to this home, reserved by the server; 0 for 16 MiB. A
	// full stream rejects messages, and deliveries wait.
	MaxBytes int64
	// Ours is true if the server belongs to this operator. Then this configuration also changes
	// existing streams. At another operator's server, their size and age do not change.
	Ours bool
}

const (
	hubAnswer   = 10 * time.Second    // timeout for a response of the other home, before sending over HTTPS
	hubResend   = 3 * time.Second     // interval of retries without an answer
	hubAck      = 2 * time.Second     // timeout for the hub's acknowledgement of a message, before a retry
	hubAge      = 14 * 24 * time.Hour // lifetime of an unfetched batch
	hubBytes    = 16 << 20            // size of one stream: few batches are in flight, and pending deliveries are in the record
	hubBatches  = 8                   // batches of one home judged at a time
	hubAckWait  = time.Minute         // time before an unjudged batch is redelivered
	hubPull     = 2 * time.Second     // timeout of one request for messages; the next request may reach another server of the cluster
	hubLook     = time.Second         // interval of checks for streams to read
	hubPending  = 1024                // received batches that are not judged yet
	hubRenew    = time.Minute         // interval of attempts to recreate a damaged stream
	hubConsumer = "home"              // durable consumer of each stream
)

var (
	// Returned while the hub is not connected.
	errHubAway = errors.New("the hub is not connected")
	// Returned if one of the two streams does not exist yet: the batch or the answer would be
	// lost.
	errNoStream = errors.New("the hub has no stream between the homes yet")
)

// Hub is a NATS server that connects homes. Each pair of homes has a stream in each direction,
// "FED_<to>__<from>" on the subjects "fed.<to>.<from>.>". The receiver creates it; see
// [WriteAccounts]. It contains the messages of [StepsPath], with the same bytes and headers. The
// server therefore cannot forge anything, and homes resend lost messages.
//
// The reader acknowledges a message after its steps are on disk. It compares signed documents, and
// ignores message IDs.
type Hub struct {
	home    federation.HomeID
	server  ServerConfig
	conn    *nats.Conn
	js      jetstream.JetStream
	streams jetstream.StreamConfig // common to all streams to this home
	ours    bool                   // see [HubConfig]
	copies  bool                   // the number of copies is configured
	log     *slog.Logger

	mu      sync.Mutex
	waiting map[string]chan Envelope    // by the SHA-256 of the batch
	read    map[federation.HomeID]bool  // homes whose streams, which also carry answers, are read
	unread  map[federation.HomeID]error // reasons for not reading the streams of other homes
	renewed map[federation.HomeID]time.Time
	cut     chan struct{} // closed and replaced when the connection breaks
}

// OpenHub starts connecting without waiting for a connection, and retries until [Hub.Close]. It
// returns an error if a file cannot be read.
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
		home: home, server: cfg.ServerConfig, conn: conn, js: js, streams: cfg.streams(), ours: cfg.Ours, copies: cfg.Ours || cfg.Replicas > 0, log: log,
		waiting: map[string]chan Envelope{}, read: map[federation.HomeID]bool{}, unread: map[federation.HomeID]error{}, renewed: map[federation.HomeID]time.Time{}, cut: make(chan struct{}),
	}
	conn.SetDisconnectErrHandler(func(*nats.Conn, error) { h.broken() })
	return h, nil
}

// broken ends all waits for responses after a disconnect. Their messages may be lost, and are sent
// again at once.
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

// Away returns the URL and the cause of each failed connection, or nil if the hub is connected. It
// blocks for up to three seconds per server.
func (h *Hub) Away(ctx context.Context) error {
	if h.Ready() == nil {
		return nil
	}
	return cmp.Or(h.server.Probe(ctx, h.home), h.Ready())
}

// Watch logs disconnections of the hub, once per cause, and reconnections. It blocks until ctx ends.
func (h *Hub) Watch(ctx context.Context) {
	tick := time.NewTicker(hubLook)
	defer tick.Stop()
	logged := ""
	for {
		cause := ""
		if err := h.Away(ctx); err != nil {
			cause = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		switch {
		case ctx.Err() != nil:
			return
		case cause == logged:
		case cause == "":
			h.log.LogAttrs(ctx, slog.LevelInfo, "hub connected", slog.String("url", h.conn.ConnectedUrlRedacted()))
		default:
			h.log.LogAttrs(ctx, slog.LevelWarn, "hub not connected; compare [relay.hub] with its operator, then run baton relay check", slog.String("err", cause))
		}
		logged = cause
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Dots have a meaning in subjects and stream names. Host names have no underscores, so no two homes
// have the same token.
func token(home federation.HomeID) string { return strings.ReplaceAll(string(home), ".", "_") }

func streamName(to, from federation.HomeID) string { return "FED_" + token(to) + "__" + token(from) }

func hubSubject(to, from federation.HomeID) string {
	return "fed." + token(to) + "." + token(from) + ".>"
}

// Carry sends an envelope to another home and waits at most ten seconds for the answer. The error
// wraps [*federation.UnavailableError] if no response arrived; the other home may have received the
// batch.
func (h *Hub) Carry(ctx context.Context, to federation.HomeID, e Envelope) (Envelope, error) {
	return h.exchange(ctx, to, typeSteps, e)
}

func (h *Hub) ask(ctx context.Context, to federation.HomeID, e Envelope) (Envelope, error) {
	return h.exchange(ctx, to, typeLookup, e)
}

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
		if err := h.publishUntilAcked(ctx, to, kind, e); err != nil {
			return Envelope{}, &federation.UnavailableError{What: "hub", Err: err}
		}
		select {
		case answer := <-answered:
			return answer, nil
		case <-again.C: // a killed gateway or server may have lost the message
		case <-ctx.Done():
			return Envelope{}, &federation.UnavailableError{What: "home " + string(to), Err: fmt.Errorf("no answer through the hub: %w", ctx.Err())}
		}
	}
}

// After the loss of a server, a clustered stream has no leader for a second or two.
func (h *Hub) publishUntilAcked(ctx context.Context, to federation.HomeID, kind string, e Envelope) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, hubAck)
		err := h.publish(attempt, to, kind, e)
		cancel()
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}

// open returns nil if this home reads the stream from a home, and so its answers.
func (h *Hub) open(to federation.HomeID) error {
	if err := h.Ready(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.read[to] {
		return errNoStream
	}
	return nil
}

// The error is errNoStream if the other home has not created the stream yet.
func (h *Hub) publish(ctx context.Context, to federation.HomeID, kind string, e Envelope) error {
	_, err := h.js.PublishMsg(ctx, &nats.Msg{
		Subject: strings.TrimSuffix(hubSubject(to, h.home), ">") + kind, Data: e.Body, Header: nats.Header(e.Header()),
	}, jetstream.WithRetryAttempts(0))
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		return errNoStream
	}
	return err
}

func (cfg HubConfig) streams() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Storage: jetstream.FileStorage, MaxAge: hubAge, MaxMsgSize: maxBatchBytes, Discard: jetstream.DiscardNew,
		Retention: jetstream.WorkQueuePolicy, // judged messages are not kept
		Replicas:  cmp.Or(cfg.Replicas, 1), MaxBytes: cmp.Or(cfg.MaxBytes, hubBytes),
	}
}

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

// changed updates the replicas of a stream if configured, and its size at a server of this operator.
// If the server does not allow it, the stream is unchanged, and relay check shows the difference.
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

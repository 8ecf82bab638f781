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

	// Replicas is the number of copies of each stream to this home; 0 means one. It also applies to
	// existing streams.
	Replicas int
	// MaxBytes is the maximum size of a stream to this home, reserved by the server; 0 for 16 MiB. A
	// full stream rejects messages, and deliveries wait.
	MaxBytes int64
	// Ours is true if this operator runs the server. The configuration then also applies to existing
	// streams. Otherwise their size and age do not change.
	Ours bool
}

const (
	hubAnswer   = 10 * time.Second    // timeout for the other home's answer, before HTTPS is used
	hubResend   = 3 * time.Second     // retry interval
	hubAck      = 2 * time.Second     // timeout for the hub's acknowledgement, before a retry
	hubAge      = 14 * 24 * time.Hour // lifetime of an unread batch
	hubBytes    = 16 << 20            // limit of one stream: few batches are in flight, and pending deliveries are in the record
	hubBatches  = 8                   // concurrent batches of one home
	hubAckWait  = time.Minute         // redelivery of an unjudged batch
	hubPull     = 2 * time.Second     // timeout of one request for messages; the next one may reach another server
	hubLook     = time.Second         // polling interval for new streams
	hubPending  = 1024                // received batches that are not judged
	hubRenew    = time.Minute         // minimum interval of recreating a damaged stream
	hubConsumer = "home"              // durable consumer of each stream
)

var (
	errHubAway = errors.New("the hub is not connected")
	// If one of the two streams is missing, the batch or the answer would be lost.
	errNoStream = errors.New("the hub has no stream between the homes yet")
)

// Hub is a NATS server that connects homes. For each pair of homes there is a stream per direction,
// "FED_<to>__<from>" on the subjects "fed.<to>.<from>.>". The receiver creates it, see [WriteAccounts].
// Its messages have the same bytes and headers as over HTTPS, so that the server cannot forge any.
// Homes resend lost messages.
//
// The reader acknowledges a message when its steps are on disk. Duplicates are detected by signed
// documents, not by message IDs.
type Hub struct {
	home    federation.HomeID
	server  ServerConfig
	conn    *nats.Conn
	js      jetstream.JetStream
	streams jetstream.StreamConfig // common settings of the streams to this home
	ours    bool                   // see [HubConfig]
	copies  bool                   // Replicas is configured
	log     *slog.Logger

	mu      sync.Mutex
	waiting map[string]chan Envelope    // by SHA-256 of the batch
	read    map[federation.HomeID]bool  // homes whose streams are read; answers arrive there too
	unread  map[federation.HomeID]error // reasons for not reading the other streams
	renewed map[federation.HomeID]time.Time
	cut     chan struct{} // closed and replaced when the connection breaks
}

// OpenHub connects in the background, and retries until [Hub.Close]. It returns an error if a file
// cannot be read.
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

// Messages may be lost with the connection: all waiting senders retry at once.
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

// Watch logs each disconnection once per cause, and reconnections. It blocks until ctx ends.
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

// A dot has a meaning in subjects and stream names. Host names have no underscores, so the token is
// unique.
func token(home federation.HomeID) string { return strings.ReplaceAll(string(home), ".", "_") }

func streamName(to, from federation.HomeID) string { return "FED_" + token(to) + "__" + token(from) }

func hubSubject(to, from federation.HomeID) string {
	return "fed." + token(to) + "." + token(from) + ".>"
}

// Carry sends an envelope to another home, and waits up to ten seconds for the answer. The error wraps
// [*federation.UnavailableError] if none arrived, although the other home may have received the batch.
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
		case <-again.C: // the message may be lost after a crash
		case <-ctx.Done():
			return Envelope{}, &federation.UnavailableError{What: "home " + string(to), Err: fmt.Errorf("no answer through the hub: %w", ctx.Err())}
		}
	}
}

// A clustered stream has no leader for a second or two after the loss of a server.
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

// Answers arrive only if this home reads the stream.
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
		Retention: jetstream.WorkQueuePolicy, // delete judged messages
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

// changed updates the replicas of a stream if configured, and its size at a server of this operator. A
// rejected change is only visible in relay check.
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

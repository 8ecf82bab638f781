package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/baton-gateway/baton/federation"
)

const (
	checkWait = 5 * time.Second // per response
	checkLag  = 100             // waiting batches
)

const (
	userInfoSubject   = "$SYS.REQ.USER.INFO"
	serverInfoSubject = "$SYS.REQ.SERVER.PING.VARZ"
)

const globalAccount = "$G"

// Check checks the hub from this home, and for each peer the stream and the response. It blocks up to
// five seconds for each missing response. A nil hub means no hub.
func (h *Hub) Check(ctx context.Context, peers []*Peer, now func() time.Time) []federation.Finding {
	if h == nil {
		return []federation.Finding{{What: "hub", State: federation.FindingOK, Detail: "none: homes are reached by HTTPS"}}
	}
	if err := h.Away(ctx); err != nil {
		return []federation.Finding{{What: "hub", State: federation.FindingFail, Detail: strings.ReplaceAll(err.Error(), "\n", "; ")}}
	}
	found := []federation.Finding{h.checkConnection(), h.checkPayload()}
	found = append(found, h.checkAccount(ctx, now)...)
	found = append(found, h.checkSync(ctx), h.checkQuota(ctx))
	for _, p := range peers {
		if p.cfg.Path == ByRelay && p.Mode() != Block {
			found = append(found, h.checkStream(ctx, p.cfg.Home), p.checkHome(ctx))
		}
	}
	return found
}

func (h *Hub) checkConnection() federation.Finding {
	f := federation.Finding{What: "hub", State: federation.FindingOK}
	trip, err := h.conn.RTT()
	if err != nil {
		return federation.Finding{What: f.What, State: federation.FindingFail, Detail: err.Error()}
	}
	f.Detail = fmt.Sprintf("%s, NATS %s, %s away", h.conn.ConnectedUrlRedacted(), h.conn.ConnectedServerVersion(), trip.Round(time.Microsecond))
	return f
}

func (h *Hub) checkPayload() federation.Finding {
	if most := h.conn.MaxPayload(); most < hubPayloadBytes {
		return federation.Finding{What: "max_payload", State: federation.FindingWarn, Detail: fmt.Sprintf("%d bytes: large steps go by HTTPS or wait; want %d", most, hubPayloadBytes)}
	}
	return federation.Finding{What: "max_payload", State: federation.FindingOK, Detail: fmt.Sprintf("%d bytes", h.conn.MaxPayload())}
}

type serverAnswer[T any] struct {
	Server struct {
		Time time.Time `json:"time"`
	} `json:"server"`
	Data T `json:"data"`
}

func inquire[T any](ctx context.Context, h *Hub, subject string) (serverAnswer[T], error) {
	ctx, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	var answer serverAnswer[T]
	message, err := h.conn.RequestWithContext(ctx, subject, nil)
	if err == nil {
		err = federation.DecodeJSON(message.Data, &answer)
	}
	return answer, err
}

type user struct {
	Account     string          `json:"account"`
	Permissions json.RawMessage `json:"permissions"`
}

func (h *Hub) whoami(ctx context.Context) (serverAnswer[user], error) {
	return inquire[user](ctx, h, userInfoSubject)
}

func (h *Hub) checkAccount(ctx context.Context, now func() time.Time) []federation.Finding {
	asked := now()
	answer, err := h.whoami(ctx)
	if err != nil {
		return []federation.Finding{{What: "account", State: federation.FindingWarn, Detail: "the server does not name the account of this home: " + err.Error()}}
	}
	account, clock := federation.Finding{What: "account", State: federation.FindingOK, Detail: answer.Data.Account}, federation.Finding{What: "clock", State: federation.FindingOK}
	switch {
	case answer.Data.Account == globalAccount:
		account.State, account.Detail = federation.FindingWarn, "shared by all homes: each client of the hub can delete waiting batches; messages forged as another home are rejected; see baton relay accounts"
	case len(answer.Data.Permissions) == 0:
		account.State, account.Detail = federation.FindingWarn, answer.Data.Account+", without permissions: see baton relay accounts"
	}
	back := now()
	slip := max(asked.Sub(answer.Server.Time), answer.Server.Time.Sub(back), 0)
	if clock.Detail = "as here"; slip > clockSlip {
		clock.State, clock.Detail = federation.FindingWarn, fmt.Sprintf("%s apart; deadlines and signatures go by the clock", slip.Round(time.Second))
	}
	return []federation.Finding{account, clock}
}

// Acknowledged messages must be on the server's disk.
func (h *Hub) checkSync(ctx context.Context) federation.Finding {
	answer, err := inquire[struct {
		JetStream struct {
			Config *struct {
				SyncAlways   bool          `json:"sync_always"`
				SyncInterval time.Duration `json:"sync_interval"`
			} `json:"config"`
		} `json:"jetstream"`
	}](ctx, h, serverInfoSubject)
	config := answer.Data.JetStream.Config
	switch {
	case err != nil:
		return federation.Finding{What: "sync_interval", State: federation.FindingWarn, Detail: "the server does not report it to this home; want always"}
	case config == nil:
		return federation.Finding{What: "sync_interval", State: federation.FindingFail, Detail: "the server has no JetStream: turn it on"}
	case !config.SyncAlways:
		return federation.Finding{What: "sync_interval", State: federation.FindingWarn, Detail: config.SyncInterval.String() + ": a power cut there loses what it acknowledged, which is sent again later; want always"}
	}
	return federation.Finding{What: "sync_interval", State: federation.FindingOK, Detail: "always"}
}

func (h *Hub) checkQuota(ctx context.Context) federation.Finding {
	ctx, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	info, err := h.js.AccountInfo(ctx)
	switch {
	case err != nil:
		return federation.Finding{What: "streams", State: federation.FindingFail, Detail: "JetStream does not answer: " + err.Error()}
	case info.Limits.MaxStore > 0 && info.Store > uint64(info.Limits.MaxStore)*9/10:
		return federation.Finding{What: "streams", State: federation.FindingWarn, Detail: fmt.Sprintf("%d of %d bytes: when they are full, rows wait", info.Store, info.Limits.MaxStore)}
	}
	return federation.Finding{What: "streams", State: federation.FindingOK, Detail: fmt.Sprintf("%d, with %d bytes", info.Streams, info.Store)}
}

func (h *Hub) checkStream(ctx context.Context, from federation.HomeID) federation.Finding {
	ctx, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	f := federation.Finding{What: "from " + string(from), State: federation.FindingOK}
	stream, err := h.js.Stream(ctx, streamName(h.home, from))
	if err != nil {
		return federation.Finding{What: f.What, State: federation.FindingFail, Detail: "no stream: " + reason(err)}
	}
	consumer, err := stream.Consumer(ctx, hubConsumer)
	if err != nil {
		why := reason(err)
		h.mu.Lock()
		if unread := h.unread[from]; unread != nil {
			why = unread.Error()
		}
		h.mu.Unlock()
		return federation.Finding{What: f.What, State: federation.FindingFail, Detail: "no gateway reads it: " + why}
	}
	read, state := consumer.CachedInfo(), stream.CachedInfo()
	var wrong []string
	if state.Config.Storage != jetstream.FileStorage {
		wrong = append(wrong, "it is in memory, and is lost when the server stops")
	}
	if h.copies && state.Config.Replicas != h.streams.Replicas {
		wrong = append(wrong, fmt.Sprintf("it must have %d copies, not %d", h.streams.Replicas, state.Config.Replicas))
	}
	if state.Config.MaxMsgSize > 0 && state.Config.MaxMsgSize < maxBatchBytes {
		wrong = append(wrong, fmt.Sprintf("it takes no message above %d bytes, want %d", state.Config.MaxMsgSize, maxBatchBytes))
	}
	if waiting := read.NumPending + uint64(max(read.NumAckPending, 0)); waiting > checkLag {
		wrong = append(wrong, fmt.Sprintf("%d batches wait to be read, and %d to be judged", read.NumPending, read.NumAckPending))
	}
	f.Detail = fmt.Sprintf("%d batches so far, %d waiting", state.State.LastSeq, read.NumPending+uint64(max(read.NumAckPending, 0)))
	if len(wrong) > 0 {
		f.State, f.Detail = federation.FindingWarn, strings.Join(wrong, "; ")
	}
	return f
}

func reason(err error) string {
	if told, ok := errors.AsType[jetstream.JetStreamError](err); ok && told.APIError() != nil {
		return told.APIError().Description
	}
	return err.Error()
}

package irc

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// RefTag contains the handoff of a line, for clients that support tags.
//
// spec: handofftag "Humans"
const RefTag = "+freeq.at/ref"

// internalError reports a failure of this gateway rather than a refusal.
const internalError = "INTERNAL_ERROR"

// Reply is the answer to a user about its step.
type Reply struct {
	Code     string // also the label of the refusal counter
	Subject  string // step ID, or "*"
	Sentence string
	Ref      string // may be empty
}

// Text returns the reply as one line.
func (r Reply) Text() string { return Text(r.Code + " " + r.Subject + " " + r.Sentence) }

// Replies turns errors about steps into replies, and counts and logs them. It may be used
// concurrently.
//
// spec: handofftag "The client's side"
type Replies struct {
	Metrics *bridge.Metrics
	Log     *slog.Logger
	Network string
}

// To returns the reply to an error about a step, and counts it. It returns false for an error without
// a reply: an outage or a shutdown.
func (r Replies) To(ctx context.Context, err error) (Reply, bool) {
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		reply := Refusal(refused)
		r.Count(reply)
		return reply, true
	}
	if _, ok := errors.AsType[*federation.UnavailableError](err); ok || errors.Is(err, context.Canceled) {
		return Reply{}, false
	}
	r.Log.LogAttrs(ctx, slog.LevelError, "step not judged", slog.Any("err", err))
	return Reply{Code: internalError, Subject: "*", Sentence: "the gateway could not judge the step"}, true
}

// Refusal returns the reply to a refused step.
func Refusal(r *federation.RefusalError) Reply {
	return Reply{Code: r.Code.Upper(), Subject: r.Subject(), Sentence: r.Sentence(), Ref: r.Handoff.String()}
}

// Count counts a refusal by its reply.
func (r Replies) Count(reply Reply) {
	r.Metrics.Refusals.WithLabelValues(r.Network, reply.Code).Inc()
	if reply.Code == federation.RateLimited.Upper() {
		r.Metrics.Limited.WithLabelValues(r.Network).Inc()
	}
}

// LogRefusal logs a refusal by the link. Refusals by the gateway are logged elsewhere.
func (r Replies) LogRefusal(ctx context.Context, err error) {
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		r.Log.LogAttrs(ctx, slog.LevelInfo, "step refused", slog.String("event_id", refused.Event.String()),
			slog.String("handoff_id", refused.Handoff.String()), slog.String("reason", refused.Error()))
	}
}

func noticeRef(n federation.Notice) string {
	if n.Text != nil {
		return n.Text.About.String()
	}
	return n.Event.Handoff.String()
}

// NoticeReply returns a notice as a reply. It returns false for a delivery notice, which needs no
// reply.
func NoticeReply(n federation.Notice) (r Reply, has bool) {
	if n.Kind == federation.NoticeDelivered {
		return Reply{}, false
	}
	return Reply{Code: strings.ToUpper(string(n.Kind)), Subject: n.About().String(), Sentence: n.Sentence(), Ref: noticeRef(n)}, true
}

// Reasons for [Pass] to return without an answer.
var (
	errNotConnected = errors.New("not connected")
	errCut          = errors.New("connection lost before the other server had read the step")
)

// Unavailable returns the error for a link that temporarily cannot deliver.
func Unavailable(link string, why error) error {
	return &federation.UnavailableError{What: "link " + link, Err: why}
}

// Disconnected returns the error for a link without a session.
func Disconnected(link string) error { return Unavailable(link, errNotConnected) }

// NoPlace returns the reason why a step cannot be written on a link: a refusal or a record error.
func NoPlace(ev federation.Event, link string, err error) error {
	if err != nil {
		return err
	}
	return federation.Refuse(ev, federation.InvalidTarget, "no place of link "+link)
}

// Pass passes a row of a link's feed to the session, and blocks until the session has answered. The
// answer is nil once the peer has proved that it read the row. The answer channel has capacity one;
// over is closed when the session ends.
//
// Without an answer, the error is [Unavailable], and the row may have been written.
func Pass[Row any](ctx context.Context, link string, rows chan<- Row, row Row, answer <-chan error, over <-chan struct{}) error {
	select {
	case rows <- row:
	case <-over:
		return Disconnected(link)
	case <-ctx.Done():
		return Unavailable(link, ctx.Err())
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return Unavailable(link, ctx.Err())
	case <-over:
	}
	select {
	case err := <-answer: // answered at the same time
		return err
	default:
		return Unavailable(link, errCut)
	}
}

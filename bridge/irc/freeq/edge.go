package freeq

import (
	"context"
	"errors"
	"log/slog"

	"baton/federation"
)

// vendorPrefix begins the name of each tag that servers know.
const vendorPrefix = "+freeq.at/"

// errNotOurs is why a private step is dropped: it is for no participant of this gateway.
// A server sends every private message to all its peers.
var errNotOurs = errors.New("freeq: for nobody of this gateway")

// errEcho is why a step is dropped that this gateway has written itself: a server repeats
// all that it has on file in answer to a catch-up, and routes the steps of our own users
// back to us.
var errEcho = errors.New("freeq: said by this gateway itself")

// refuse counts and logs a step that was not filed. It sends nothing: servers do not
// report refusals to each other.
//
// spec: freeq-s2s "Home, unconfirmed moves, receipts"
func (s *session) refuse(ctx context.Context, in *inbound, err error) {
	attrs := []slog.Attr{
		slog.String("event_id", in.ev.ID.String()), slog.String("handoff_id", in.ev.Handoff.String()), slog.Any("err", err),
	}
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	switch {
	case errors.Is(err, errNotOurs), errors.Is(err, errEcho), errors.Is(err, context.Canceled):
	case isRefusal:
		s.link.deps.Metrics.Refusals.WithLabelValues(network, code(refused.Code)).Inc()
		s.log.LogAttrs(ctx, slog.LevelInfo, "step refused", attrs...)
	default:
		s.log.LogAttrs(ctx, slog.LevelError, "step not judged", attrs...)
	}
}

// code returns the word of this network for a refusal: the label of the counter.
//
// spec: handofftag "The client's side"
func code(c federation.RefusalCode) string {
	switch c {
	case federation.NeedSignature:
		return "SIGNATURE_REQUIRED"
	case federation.UnknownHandoff:
		return "UNKNOWN_TASK"
	case federation.TerminalHandoff:
		return "TERMINAL_TASK"
	case federation.InvalidContext, federation.WrongReference, federation.InvalidTag:
		return federation.InvalidTarget.Upper()
	case federation.DuplicateTag:
		return federation.MixedTags.Upper()
	case federation.QuotaExceeded, federation.InboxFull:
		return federation.RateLimited.Upper()
	case federation.SignatureInvalid, federation.SignatureUnverifiable, federation.AccountRequired, federation.ActorMismatch, federation.WrongSender,
		federation.UnknownVerb, federation.IllegalStep, federation.DeadlinePassed, federation.EventIDInUse,
		federation.InvalidEventID, federation.EventIDClockSkew, federation.InvalidTarget, federation.MissingRequirement,
		federation.WrongVenue, federation.MixedTags, federation.UnknownKind, federation.MissingCapability, federation.RateLimited,
		federation.ReplacesNotTerminal, federation.PolicyDenied:
	}
	return c.Upper()
}

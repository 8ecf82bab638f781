package a2aclient

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

// away wraps an error after which the delivery is retried.
func (l *Link) away(err error) error {
	var after time.Duration
	if status, ok := errors.AsType[*statusError](err); ok {
		after = status.after
	}
	return &federation.UnavailableError{What: "agent " + l.cfg.Name, RetryAfter: after, Err: err}
}

func refusals() []error {
	return []error{
		wire.ErrInvalidParams, wire.ErrInvalidRequest, wire.ErrMethodNotFound, wire.ErrParseError, wire.ErrUnsupportedOperation,
		wire.ErrUnsupportedContentType, wire.ErrVersionNotSupported, wire.ErrExtensionSupportRequired, wire.ErrPushNotificationNotSupported,
	}
}

func isAny(err error, of ...error) bool {
	for _, each := range of {
		if errors.Is(err, each) {
			return true
		}
	}
	return false
}

// sendError returns the error for the outbox. If unsent is true, the agent certainly does not have the
// message.
func (l *Link) sendError(ev federation.Event, err error) (unsent bool, reported error) {
	if isAny(err, refusals()...) {
		return true, federation.Refuse(ev, federation.PolicyDenied, l.cfg.Name+" refused the message: "+err.Error())
	}
	if isAny(err, wire.ErrUnauthenticated, wire.ErrUnauthorized, errRedirect, identity.ErrNotAllowed) || isDial(err) {
		return true, l.away(err)
	}
	if status, ok := errors.AsType[*statusError](err); ok {
		unsent := status.code == http.StatusUnauthorized || status.code == http.StatusForbidden || status.code == http.StatusTooManyRequests
		return unsent, l.away(err)
	}
	if isNetwork(err) {
		return false, l.away(err)
	}
	return false, err // counted: repeated failures make the delivery a dead letter
}

func isDial(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// isNetwork reports whether the connection failed, rather than the agent.
func isNetwork(err error) bool {
	_, isNet := errors.AsType[net.Error](err)
	return isNet || isAny(err, context.DeadlineExceeded, context.Canceled)
}

// isOutage reports whether a later request may succeed.
func isOutage(err error) bool {
	status, answered := errors.AsType[*statusError](err)
	return isNetwork(err) || answered && (status.code >= http.StatusInternalServerError || status.code == http.StatusTooManyRequests)
}

func cannotList(err error) bool {
	return isAny(err, wire.ErrUnsupportedOperation, wire.ErrMethodNotFound, wire.ErrUnauthenticated, wire.ErrUnauthorized)
}

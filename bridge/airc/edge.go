package airc

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"baton/federation"
	"baton/federation/agents"
	"baton/translate"
)

// code is what an answer that is no 2xx says in "error": a flat string, because
// deployed peers copy that member as one.
type code string

// The codes of the specification, then ours.
//
// spec: airc-v0.1.1 §11.5
const (
	codeBadRequest       code = "bad_request"
	codeUnauthorized     code = "unauthorized"
	codeInvalidSignature code = "invalid_signature"
	codeInvalidTimestamp code = "invalid_timestamp"
	// Between registries, in capitals.

	codeFederationBlocked        code = "FEDERATION_BLOCKED"
	codeFederationUnavailable    code = "FEDERATION_UNAVAILABLE"
	codeRemoteIdentityNotFound   code = "REMOTE_IDENTITY_NOT_FOUND"
	codeRemoteConsentRequired    code = "REMOTE_CONSENT_REQUIRED" // read only: here messages are held
	codeRemoteConsentBlocked     code = "REMOTE_CONSENT_BLOCKED"
	codeInvalidRegistrySignature code = "INVALID_REGISTRY_SIGNATURE"

	codeNotYourHandle    code = "not_your_handle"
	codeKeyRevoked       code = "key_revoked"
	codeKeyExpired       code = "key_expired"
	codeChallengeInvalid code = "challenge_invalid"
	codeChallengeExpired code = "challenge_expired"
	codeTokenExpired     code = "token_expired"
	codeConsentBlocked   code = "consent_blocked"
	codeAudienceMismatch code = "audience_mismatch"
	codeIdentityNotFound code = "identity_not_found"
	codeHandleTaken      code = "handle_taken"
	codeDuplicateMessage code = "duplicate_message"
	codePayloadTooLarge  code = "payload_too_large"
	codeInvalidHandle    code = "invalid_handle"
	codeInvalidPublicKey code = "invalid_public_key"
	codeRateLimited      code = "rate_limited"
	codeOverCapacity     code = "recipient_over_capacity"

	// Codes below /api.

	codeApprovedMismatch  code = "approved_content_mismatch"
	codeApprovedMalformed code = "approved_sha256_malformed"

	codeUnsupportedPayload code = "unsupported_payload"
	codeNotFound           code = "not_found"
	codeMethodNotAllowed   code = "method_not_allowed"
	codeInternal           code = "internal"
	codeUnavailable        code = "unavailable"

	codeWrongSender     code = "wrong_sender"
	codeWrongVenue      code = "wrong_venue"
	codeUnknownHandoff  code = "unknown_handoff"
	codeIllegalStep     code = "illegal_step"
	codeTerminalHandoff code = "terminal_handoff"
	codeDeadlinePassed  code = "deadline_passed"
	codePolicyDenied    code = "policy_denied"
	codeMissingCap      code = "missing_capability"
)

// retryAfter is sent with a not-now of unknown duration: long enough for a locked record,
// short enough for a polling client.
const retryAfter = 5 * time.Second

// fullRetry is told where something has to be read or to end before there is room
// again.
const fullRetry = time.Minute

// problem is a no of this registry itself; steps are refused with a
// [federation.RefusalError].
type problem struct {
	code    code
	message string
	// unreadable is the reason, for the counter, of a body that could not be read.
	unreadable string
	// allow is the methods that the path knows.
	allow string
	// retryAfter is when one that was too many may come again.
	retryAfter time.Duration
	// approval is the message to be approved; nil for any other refusal.
	approval *approval
}

// approval is the text as it would be stored. It is part of the refusal of a message that differs
// from the approved one.
type approval struct {
	Reason string `json:"reason"`
	Text   string `json:"server_text"`
	SHA256 string `json:"server_sha256"`
}

// Error implements error.
func (p *problem) Error() string { return string(p.code) + ": " + p.message }

// refuse returns a no with a sentence for the sender.
func refuse(c code, message string) error { return &problem{code: c, message: message} }

// judgedError marks the refusal of a step that the gateway judged, and therefore
// logged.
type judgedError struct{ error }

// Unwrap returns the refusal.
func (e judgedError) Unwrap() error { return e.error }

// failure is an answer that is no 2xx.
type failure struct {
	Success *bool    `json:"success,omitempty"` // false below /api, where clients look at it
	Code    code     `json:"error"`
	Message string   `json:"message"`
	Handoff *outcome `json:"handoff,omitempty"`
	*approval

	status     int
	allow      string
	retryAfter time.Duration
}

// writeHeader adds what clients and proxies read of a failure.
func (f failure) writeHeader(h http.Header) {
	if f.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if f.allow != "" {
		h.Set("Allow", f.allow)
	}
	if f.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((f.retryAfter+time.Second-1)/time.Second)))
	}
}

// outcome is how a handoff stands, beside the refusal of a step.
type outcome struct {
	ID       federation.HandoffID `json:"id"`
	State    federation.State     `json:"state,omitempty"`
	Assignee federation.DID       `json:"assignee,omitempty"`
}

// maxSentenceChars bounds what is told and logged of a refusal: some of it is
// quoted from what the sender wrote.
const maxSentenceChars = 300

// render turns an error into an answer. It is the only place in this package that
// does. An error of no known class is told without its text.
func render(err error) failure {
	f := classify(err)
	if f.status == http.StatusTooManyRequests && f.retryAfter <= 0 {
		f.retryAfter = fullRetry
	}
	if text := []rune(f.Message); len(text) > maxSentenceChars {
		f.Message = string(text[:maxSentenceChars]) + "…"
	}
	return f
}

func classify(err error) failure {
	if p, ok := errors.AsType[*problem](err); ok {
		return failure{Code: p.code, Message: p.message, status: status(p.code), allow: p.allow, retryAfter: p.retryAfter, approval: p.approval}
	}
	if r, ok := errors.AsType[*federation.RefusalError](err); ok {
		return renderRefusal(r)
	}
	if u, ok := errors.AsType[*federation.UnavailableError](err); ok {
		return unavailable("not now; send it again", u.RetryAfter)
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return unavailable("not now; send it again", 0)
	case errors.Is(err, translate.ErrNotHandoff):
		return failure{Code: codeUnsupportedPayload, Message: "this payload is no step of a handoff", status: http.StatusBadRequest}
	case errors.Is(err, federation.ErrTaken):
		return failure{Code: codeHandleTaken, Message: "this handle is taken: sign the request with its registered key, or have the operator run baton airc release HANDLE", status: http.StatusConflict}
	case errors.Is(err, agents.ErrDuplicate):
		return failure{Code: codeDuplicateMessage, Message: "this id was used in the last 24 hours", status: http.StatusConflict}
	case errors.Is(err, federation.ErrTokenUsed):
		return failure{Code: codeUnauthorized, Message: "this refresh token was used before, and its session has ended", status: http.StatusUnauthorized}
	case errors.Is(err, federation.ErrUnknownCursor):
		return failure{Code: codeBadRequest, Message: "this cursor was not given out for this inbox", status: http.StatusBadRequest}
	}
	return failure{Code: codeInternal, Message: "something went wrong here", status: http.StatusInternalServerError}
}

func renderRefusal(r *federation.RefusalError) failure {
	if r.Code == federation.SignatureUnverifiable {
		return unavailable(r.Sentence(), 0)
	}
	c := word(r.Code)
	f := failure{Code: c, Message: r.Sentence(), status: status(c), retryAfter: r.RetryAfter}
	if r.View.Exists() {
		f.Handoff = &outcome{ID: r.View.ID, State: r.View.State, Assignee: r.View.Assignee}
	} else if !r.Handoff.IsZero() {
		f.Handoff = &outcome{ID: r.Handoff}
	}
	return f
}

func unavailable(message string, after time.Duration) failure {
	if after <= 0 {
		after = retryAfter
	}
	return failure{Code: codeUnavailable, Message: message, status: http.StatusServiceUnavailable, retryAfter: after}
}

// word returns the code of a refused step on AIRC: the code of the specification where it
// has one, else ours with underscores.
//
// spec: handofftag "The client's side"
func word(c federation.RefusalCode) code {
	switch c {
	case federation.NeedSignature, federation.SignatureInvalid:
		return codeInvalidSignature
	case federation.SignatureUnverifiable:
		return codeUnavailable
	case federation.AccountRequired, federation.ActorMismatch:
		return codeUnauthorized
	case federation.WrongSender:
		return codeWrongSender
	case federation.UnknownVerb, federation.UnknownKind:
		return codeUnsupportedPayload
	case federation.UnknownHandoff:
		return codeUnknownHandoff
	case federation.IllegalStep, federation.ReplacesNotTerminal:
		return codeIllegalStep
	case federation.TerminalHandoff:
		return codeTerminalHandoff
	case federation.DeadlinePassed:
		return codeDeadlinePassed
	case federation.EventIDInUse:
		return codeDuplicateMessage
	case federation.EventIDClockSkew:
		return codeInvalidTimestamp
	case federation.WrongVenue:
		return codeWrongVenue
	case federation.PolicyDenied:
		return codePolicyDenied
	case federation.MissingCapability:
		return codeMissingCap
	case federation.InboxFull:
		return codeOverCapacity
	case federation.QuotaExceeded, federation.RateLimited:
		return codeRateLimited
	case federation.InvalidEventID, federation.InvalidContext, federation.InvalidTarget, federation.InvalidTag,
		federation.WrongReference, federation.MissingRequirement, federation.DuplicateTag, federation.MixedTags:
		return codeBadRequest
	}
	return codeInternal
}

// status returns the HTTP status of a code.
func status(c code) int {
	switch c {
	case codeBadRequest, codeUnsupportedPayload, codeInvalidRegistrySignature, codeApprovedMalformed:
		return http.StatusBadRequest
	case codeUnauthorized, codeInvalidSignature, codeInvalidTimestamp, codeKeyRevoked, codeKeyExpired,
		codeChallengeInvalid, codeChallengeExpired, codeTokenExpired:
		return http.StatusUnauthorized
	case codeConsentBlocked, codeAudienceMismatch, codeNotYourHandle, codeWrongSender, codeWrongVenue, codePolicyDenied, codeMissingCap,
		codeFederationBlocked, codeRemoteConsentBlocked, codeRemoteConsentRequired:
		return http.StatusForbidden
	case codeIdentityNotFound, codeRemoteIdentityNotFound, codeNotFound, codeUnknownHandoff:
		return http.StatusNotFound
	case codeMethodNotAllowed:
		return http.StatusMethodNotAllowed
	case codeHandleTaken, codeDuplicateMessage, codeApprovedMismatch, codeIllegalStep, codeTerminalHandoff, codeDeadlinePassed:
		return http.StatusConflict
	case codePayloadTooLarge:
		return http.StatusRequestEntityTooLarge
	case codeInvalidHandle, codeInvalidPublicKey:
		return http.StatusUnprocessableEntity
	case codeRateLimited, codeOverCapacity:
		return http.StatusTooManyRequests
	case codeUnavailable:
		return http.StatusServiceUnavailable
	case codeFederationUnavailable:
		return http.StatusBadGateway
	case codeInternal:
	}
	return http.StatusInternalServerError
}

// note counts a request that was turned away and writes its one log line: for what
// a client can cause at will what it was told, for anything else what went wrong.
// A step that the gateway judged has its line already.
func (l *Link) note(ctx context.Context, route string, f failure, err error) {
	if f.status < http.StatusInternalServerError {
		l.deps.Metrics.Refusals.WithLabelValues(network, string(f.Code)).Inc()
	}
	if f.Code == codeRateLimited {
		l.deps.Metrics.Limited.WithLabelValues(network).Inc()
	}
	if p, ok := errors.AsType[*problem](err); ok && p.unreadable != "" {
		l.deps.Metrics.BadInput.WithLabelValues(network, network, p.unreadable).Inc()
	}
	if _, judged := errors.AsType[judgedError](err); judged {
		return
	}
	level, why := slog.LevelInfo, f.Message
	if f.status >= http.StatusInternalServerError {
		why = err.Error()
	}
	if f.Code == codeInternal {
		level = slog.LevelError
	}
	attrs := []slog.Attr{
		slog.String("network", network), slog.String("link", network), slog.String("route", route),
		slog.String("reason", string(f.Code)), slog.String("err", why),
	}
	if f.Handoff != nil {
		attrs = append(attrs, slog.String("handoff_id", f.Handoff.ID.String()))
	}
	l.deps.Log.LogAttrs(ctx, level, "request refused", attrs...)
}

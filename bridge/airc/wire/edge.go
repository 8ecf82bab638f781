// Package wire implements the wire formats of AIRC: refusal codes, the mapping of errors to responses,
// JSON objects from clients, handles and addresses, and public keys. It does no I/O.
package wire

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/translate"
)

// Code is the member "error" of a failed response. Deployed peers copy it as a flat string.
type Code string

// The codes of the specification, then our own.
//
// spec: airc-v0.1.1 §11.5
const (
	CodeBadRequest       Code = "bad_request"
	CodeUnauthorized     Code = "unauthorized"
	CodeInvalidSignature Code = "invalid_signature"
	CodeInvalidTimestamp Code = "invalid_timestamp"
	// Between registries, in capitals.

	CodeFederationBlocked        Code = "FEDERATION_BLOCKED"
	CodeFederationUnavailable    Code = "FEDERATION_UNAVAILABLE"
	CodeRemoteIdentityNotFound   Code = "REMOTE_IDENTITY_NOT_FOUND"
	CodeRemoteConsentRequired    Code = "REMOTE_CONSENT_REQUIRED" // read only: messages are held here
	CodeRemoteConsentBlocked     Code = "REMOTE_CONSENT_BLOCKED"
	CodeInvalidRegistrySignature Code = "INVALID_REGISTRY_SIGNATURE"

	CodeNotYourHandle    Code = "not_your_handle"
	CodeKeyRevoked       Code = "key_revoked"
	CodeKeyExpired       Code = "key_expired"
	CodeChallengeInvalid Code = "challenge_invalid"
	CodeChallengeExpired Code = "challenge_expired"
	CodeTokenExpired     Code = "token_expired"
	CodeConsentBlocked   Code = "consent_blocked"
	CodeAudienceMismatch Code = "audience_mismatch"
	CodeIdentityNotFound Code = "identity_not_found"
	codeHandleTaken      Code = "handle_taken"
	CodeDuplicateMessage Code = "duplicate_message"
	CodePayloadTooLarge  Code = "payload_too_large"
	CodeInvalidHandle    Code = "invalid_handle"
	codeInvalidPublicKey Code = "invalid_public_key"
	CodeRateLimited      Code = "rate_limited"
	CodeOverCapacity     Code = "recipient_over_capacity"

	// Codes below /api.

	CodeApprovedMismatch  Code = "approved_content_mismatch"
	CodeApprovedMalformed Code = "approved_sha256_malformed"

	CodeUnsupportedPayload Code = "unsupported_payload"
	CodeNotFound           Code = "not_found"
	CodeMethodNotAllowed   Code = "method_not_allowed"
	CodeInternal           Code = "internal"
	codeUnavailable        Code = "unavailable"

	codeWrongSender     Code = "wrong_sender"
	codeWrongVenue      Code = "wrong_venue"
	codeUnknownHandoff  Code = "unknown_handoff"
	codeIllegalStep     Code = "illegal_step"
	codeTerminalHandoff Code = "terminal_handoff"
	codeDeadlinePassed  Code = "deadline_passed"
	codePolicyDenied    Code = "policy_denied"
	codeMissingCap      Code = "missing_capability"
)

// Long enough for a locked record, short enough for a polling client.
const retryAfter = 5 * time.Second

// FullRetry is the Retry-After if messages must be read or work must end first.
const FullRetry = time.Minute

// ProblemError is an error of this registry itself. Refusals of steps are a [federation.RefusalError].
type ProblemError struct {
	Code    Code
	Message string
	// Unreadable is the metric label for an unreadable body.
	Unreadable string
	// Allow lists the methods of the path.
	Allow string
	// RetryAfter is the wait before a retry.
	RetryAfter time.Duration
	// Approval is the message to be approved; nil for all other refusals.
	Approval *Approval
}

// Approval is the text as it would be stored, in the refusal of a message that differs from the approved
// one.
type Approval struct {
	Reason string `json:"reason"`
	Text   string `json:"server_text"`
	SHA256 string `json:"server_sha256"`
}

func (p *ProblemError) Error() string { return string(p.Code) + ": " + p.Message }

// Refuse returns an error with a message for the sender.
func Refuse(c Code, message string) error { return &ProblemError{Code: c, Message: message} }

// Failure is a response with an error status.
type Failure struct {
	Success *bool    `json:"success,omitempty"` // false below /api, because its clients check it
	Code    Code     `json:"error"`
	Message string   `json:"message"`
	Handoff *outcome `json:"handoff,omitempty"`
	*Approval

	Status     int `json:"-"`
	allow      string
	retryAfter time.Duration
}

// WriteHeader adds the headers of a failure.
func (f Failure) WriteHeader(h http.Header) {
	if f.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if f.allow != "" {
		h.Set("Allow", f.allow)
	}
	if f.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((f.retryAfter+time.Second-1)/time.Second)))
	}
}

type outcome struct {
	ID       federation.HandoffID `json:"id"`
	State    federation.State     `json:"state,omitempty"`
	Assignee federation.DID       `json:"assignee,omitempty"`
}

// The text of a refusal may quote the sender.
const maxSentenceChars = 300

// Render converts an error to a response. It hides unknown errors.
func Render(err error) Failure {
	f := classify(err)
	if f.Status == http.StatusTooManyRequests && f.retryAfter <= 0 {
		f.retryAfter = FullRetry
	}
	if text := []rune(f.Message); len(text) > maxSentenceChars {
		f.Message = string(text[:maxSentenceChars]) + "…"
	}
	return f
}

func classify(err error) Failure {
	if p, ok := errors.AsType[*ProblemError](err); ok {
		return Failure{Code: p.Code, Message: p.Message, Status: status(p.Code), allow: p.Allow, retryAfter: p.RetryAfter, Approval: p.Approval}
	}
	if r, ok := errors.AsType[*federation.RefusalError](err); ok {
		if r.Code == federation.SignatureUnverifiable {
			return unavailable(r.Sentence(), 0)
		}
		c := word(r.Code)
		f := Failure{Code: c, Message: r.Sentence(), Status: status(c), retryAfter: r.RetryAfter}
		if r.View.Exists() {
			f.Handoff = &outcome{ID: r.View.ID, State: r.View.State, Assignee: r.View.Assignee}
		} else if !r.Handoff.IsZero() {
			f.Handoff = &outcome{ID: r.Handoff}
		}
		return f
	}
	if u, ok := errors.AsType[*federation.UnavailableError](err); ok {
		return unavailable("not now; send it again", u.RetryAfter)
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return unavailable("not now; send it again", 0)
	case errors.Is(err, translate.ErrNotHandoff):
		return Failure{Code: CodeUnsupportedPayload, Message: "this payload is not a step of a handoff", Status: http.StatusBadRequest}
	case errors.Is(err, federation.ErrTaken):
		return Failure{Code: codeHandleTaken, Message: "this handle is taken: sign the request with its registered key, or have the operator run baton airc release HANDLE", Status: http.StatusConflict}
	case errors.Is(err, agents.ErrDuplicate):
		return Failure{Code: CodeDuplicateMessage, Message: "this id was used in the last 24 hours", Status: http.StatusConflict}
	case errors.Is(err, federation.ErrTokenUsed):
		return Failure{Code: CodeUnauthorized, Message: "this refresh token was used before, and its session has ended", Status: http.StatusUnauthorized}
	case errors.Is(err, federation.ErrUnknownCursor):
		return Failure{Code: CodeBadRequest, Message: "this cursor was not issued for this inbox", Status: http.StatusBadRequest}
	}
	return Failure{Code: CodeInternal, Message: "internal error", Status: http.StatusInternalServerError}
}

func unavailable(message string, after time.Duration) Failure {
	if after <= 0 {
		after = retryAfter
	}
	return Failure{Code: codeUnavailable, Message: message, Status: http.StatusServiceUnavailable, retryAfter: after}
}

// word falls back to our own code, with underscores.
//
// spec: handofftag "The client's side"
func word(c federation.RefusalCode) Code {
	switch c {
	case federation.NeedSignature, federation.SignatureInvalid:
		return CodeInvalidSignature
	case federation.SignatureUnverifiable:
		return codeUnavailable
	case federation.AccountRequired, federation.ActorMismatch:
		return CodeUnauthorized
	case federation.WrongSender:
		return codeWrongSender
	case federation.UnknownVerb, federation.UnknownKind:
		return CodeUnsupportedPayload
	case federation.UnknownHandoff:
		return codeUnknownHandoff
	case federation.IllegalStep, federation.ReplacesNotTerminal:
		return codeIllegalStep
	case federation.TerminalHandoff:
		return codeTerminalHandoff
	case federation.DeadlinePassed:
		return codeDeadlinePassed
	case federation.EventIDInUse:
		return CodeDuplicateMessage
	case federation.EventIDClockSkew:
		return CodeInvalidTimestamp
	case federation.WrongVenue:
		return codeWrongVenue
	case federation.PolicyDenied:
		return codePolicyDenied
	case federation.MissingCapability:
		return codeMissingCap
	case federation.InboxFull:
		return CodeOverCapacity
	case federation.QuotaExceeded, federation.RateLimited:
		return CodeRateLimited
	case federation.InvalidEventID, federation.InvalidContext, federation.InvalidTarget, federation.InvalidTag,
		federation.WrongReference, federation.MissingRequirement, federation.DuplicateTag, federation.MixedTags:
		return CodeBadRequest
	}
	return CodeInternal
}

func status(c Code) int {
	switch c {
	case CodeBadRequest, CodeUnsupportedPayload, CodeInvalidRegistrySignature, CodeApprovedMalformed:
		return http.StatusBadRequest
	case CodeUnauthorized, CodeInvalidSignature, CodeInvalidTimestamp, CodeKeyRevoked, CodeKeyExpired,
		CodeChallengeInvalid, CodeChallengeExpired, CodeTokenExpired:
		return http.StatusUnauthorized
	case CodeConsentBlocked, CodeAudienceMismatch, CodeNotYourHandle, codeWrongSender, codeWrongVenue, codePolicyDenied, codeMissingCap,
		CodeFederationBlocked, CodeRemoteConsentBlocked, CodeRemoteConsentRequired:
		return http.StatusForbidden
	case CodeIdentityNotFound, CodeRemoteIdentityNotFound, CodeNotFound, codeUnknownHandoff:
		return http.StatusNotFound
	case CodeMethodNotAllowed:
		return http.StatusMethodNotAllowed
	case codeHandleTaken, CodeDuplicateMessage, CodeApprovedMismatch, codeIllegalStep, codeTerminalHandoff, codeDeadlinePassed:
		return http.StatusConflict
	case CodePayloadTooLarge:
		return http.StatusRequestEntityTooLarge
	case CodeInvalidHandle, codeInvalidPublicKey:
		return http.StatusUnprocessableEntity
	case CodeRateLimited, CodeOverCapacity:
		return http.StatusTooManyRequests
	case codeUnavailable:
		return http.StatusServiceUnavailable
	case CodeFederationUnavailable:
		return http.StatusBadGateway
	case CodeInternal:
	}
	return http.StatusInternalServerError
}

// TooMany refuses a request over a rate limit until the wait is over.
func TooMany(wait time.Duration) error {
	return &ProblemError{Code: CodeRateLimited, Message: "too many requests; wait a little", RetryAfter: wait}
}

package macp

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"

	"baton/bridge"
	"baton/federation"
	"baton/translate/macpmode"
	"baton/translate/macpmode/macpv1"
)

// codeHeader is the metadata that has the error code.
const codeHeader = "Macp-Error-Code"

// refusalOf returns an error as clients read it. It does not show the text of an unknown error.
func refusalOf(err error) *macpmode.Error {
	if told, ok := errors.AsType[*macpmode.Error](err); ok {
		return told
	}
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		return &macpmode.Error{Code: codeOf(refused.Code), Message: string(refused.Code) + ": " + refused.Sentence()}
	}
	if _, ok := errors.AsType[*federation.UnavailableError](err); ok || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &macpmode.Error{Code: macpmode.InternalError, Message: "not now: send it again"}
	}
	if errors.Is(err, errLagging) {
		return &macpmode.Error{Code: macpmode.RateLimited, Message: errLagging.Error()}
	}
	if errors.Is(err, errReread) {
		return &macpmode.Error{Code: macpmode.InternalError, Message: "subscribe again"}
	}
	return &macpmode.Error{Code: macpmode.InternalError, Message: "something went wrong here; the log has it"}
}

// codeOf returns the code of a refusal of the gateway.
func codeOf(code federation.RefusalCode) macpmode.Code {
	switch code {
	case federation.NeedSignature, federation.SignatureInvalid, federation.SignatureUnverifiable, federation.AccountRequired:
		return macpmode.Unauthenticated
	case federation.ActorMismatch, federation.WrongSender, federation.WrongVenue, federation.MissingCapability:
		return macpmode.Forbidden
	case federation.PolicyDenied:
		return macpmode.PolicyDenied
	case federation.UnknownHandoff:
		return macpmode.SessionNotFound
	case federation.TerminalHandoff, federation.DeadlinePassed:
		return macpmode.SessionNotOpen
	case federation.QuotaExceeded, federation.InboxFull, federation.RateLimited:
		return macpmode.RateLimited
	case federation.UnknownVerb, federation.IllegalStep, federation.EventIDInUse, federation.InvalidEventID, federation.EventIDClockSkew,
		federation.InvalidContext, federation.InvalidTarget, federation.InvalidTag, federation.WrongReference, federation.MissingRequirement,
		federation.DuplicateTag, federation.MixedTags, federation.UnknownKind, federation.ReplacesNotTerminal:
	}
	return macpmode.InvalidEnvelope
}

// statusOf returns the HTTP status and the status of gRPC of a code.
//
// spec: RFC-MACP-0006 §4.5
func statusOf(code macpmode.Code) (int, connect.Code) {
	switch code {
	case macpmode.Unauthenticated:
		return http.StatusUnauthorized, connect.CodeUnauthenticated
	case macpmode.Forbidden, macpmode.PolicyDenied:
		return http.StatusForbidden, connect.CodePermissionDenied
	case macpmode.SessionNotFound, macpmode.UnknownPolicyVersion:
		return http.StatusNotFound, connect.CodeNotFound
	case macpmode.SessionNotOpen, macpmode.SessionAlreadyExists, macpmode.HistoryUnavailable:
		return http.StatusConflict, connect.CodeFailedPrecondition
	case macpmode.UnsupportedVersion:
		return http.StatusBadRequest, connect.CodeFailedPrecondition
	case macpmode.PayloadTooLarge:
		return http.StatusRequestEntityTooLarge, connect.CodeResourceExhausted
	case macpmode.RateLimited:
		return http.StatusTooManyRequests, connect.CodeResourceExhausted
	case macpmode.InternalError:
		return http.StatusInternalServerError, connect.CodeInternal
	case macpmode.InvalidEnvelope, macpmode.InvalidRequest, macpmode.ModeNotSupported, macpmode.InvalidSessionID, macpmode.InvalidPolicyDefinition:
	}
	return http.StatusBadRequest, connect.CodeInvalidArgument
}

// rpcError returns an error as gRPC and Connect answer it.
func rpcError(err error) error {
	refused := refusalOf(err)
	status, code := statusOf(refused.Code)
	if _, away := errors.AsType[*federation.UnavailableError](err); away {
		status, code = http.StatusServiceUnavailable, connect.CodeUnavailable
	}
	answer := connect.NewError(code, errors.New(refused.Error()))
	answer.Meta().Set(codeHeader, string(refused.Code))
	bridge.RetryHeader(answer.Meta(), status, bridge.ProblemOf(err).RetryAfter)
	return answer
}

// refusedAck returns the answer to an envelope that is refused.
func refusedAck(env *macpv1.Envelope, state macpv1.SessionState, err error) *macpv1.Ack {
	refused := refusalOf(err)
	return &macpv1.Ack{MessageId: env.GetMessageId(), SessionId: env.GetSessionId(), SessionState: state, Error: &macpv1.MACPError{
		Code: string(refused.Code), Message: refused.Message, SessionId: env.GetSessionId(), MessageId: env.GetMessageId(),
	}}
}

package macp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

func readBody(w http.ResponseWriter, r *http.Request, into proto.Message) error {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return macpmode.Refuse(macpmode.PayloadTooLarge, "at most %d bytes are accepted", maxBodyBytes)
	}
	if err != nil {
		return macpmode.Refuse(macpmode.InvalidRequest, "the body ended early")
	}
	if len(text) == 0 {
		return nil
	}
	return macpmode.ReadJSON(text, into)
}

func writeJSON(w http.ResponseWriter, status int, m proto.Message) {
	text, err := macpmode.JSON(m)
	if err != nil {
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client may be gone
}

// spec: RFC-MACP-0006 §4.5
func errorJSON(refused *macpmode.Error) []byte {
	text, err := macpmode.JSON(&macpv1.MACPError{Code: string(refused.Code), Message: refused.Message})
	if err != nil {
		return []byte(`{"error":{}}`)
	}
	return []byte(`{"error":` + string(text) + `}`)
}

func writeError(w http.ResponseWriter, err error) {
	refused := refusalOf(err)
	status, _ := statusOf(refused.Code)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(codeHeader, string(refused.Code))
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	bridge.RetryHeader(w.Header(), status, bridge.ProblemOf(err).RetryAfter)
	w.WriteHeader(status)
	_, _ = w.Write(append(errorJSON(refused), '\n')) // the client may be gone
}

type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func newEvents(w http.ResponseWriter) *events {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	e := &events{w, http.NewResponseController(w)}
	_ = e.control.Flush() // the next write reports a lost client
	return e
}

func (e *events) send(id string, m proto.Message) error {
	text, err := macpmode.JSON(m)
	if err != nil {
		return err
	}
	return e.write("", id, text)
}

func (e *events) write(kind, id string, data []byte) error {
	var text strings.Builder
	if kind != "" {
		text.WriteString("event: " + kind + "\n")
	}
	if id != "" {
		text.WriteString("id: " + id + "\n")
	}
	text.WriteString("data: " + string(data) + "\n\n")
	if _, err := io.WriteString(e.w, text.String()); err != nil {
		return err
	}
	return e.control.Flush()
}

func (e *events) end(err error) {
	if err != nil {
		_ = e.write("error", "", errorJSON(refusalOf(err))) // the client may be gone
	}
}

// followJSON follows a session as server-sent events, whose IDs are envelope numbers.
//
// spec: RFC-MACP-0006 §4.3
func (l *Link) followJSON(w http.ResponseWriter, r *http.Request) {
	from, err := l.admit(r.Context(), r.Header, true)
	req := &macpv1.StreamSessionRequest{}
	if err == nil {
		err = readBody(w, r, req)
	}
	if err == nil && (req.GetEnvelope() != nil || req.GetSubscribeSessionId() == "") {
		err = macpmode.Refuse(macpmode.InvalidRequest, "want subscribe_session_id, and no envelope")
	}
	after := req.GetAfterSequence()
	if last := r.Header.Get("Last-Event-Id"); err == nil && last != "" {
		if after, err = strconv.ParseUint(last, 10, 64); err != nil || req.GetAfterSequence() != 0 && after != req.GetAfterSequence() {
			err = macpmode.Refuse(macpmode.InvalidRequest, "Last-Event-ID: want the number of an envelope, as in after_sequence")
		}
	}
	if err == nil {
		err = l.read(r.Context(), from, req.GetSubscribeSessionId(), func(*turn) error { return nil })
	}
	if err != nil {
		l.noteCall(r.Context(), "StreamSession", err)
		writeError(w, err)
		return
	}
	stream := newEvents(w)
	stream.end(l.follow(r.Context(), from, req.GetSubscribeSessionId(), after, func(n numbered) error {
		answer := &macpv1.StreamSessionResponse{Response: &macpv1.StreamSessionResponse_Envelope{Envelope: n.env}}
		return stream.send(strconv.FormatUint(n.sequence, 10), answer)
	}))
}

func (l *Link) wellKnown(w http.ResponseWriter, _ *http.Request) {
	text, err := macpmode.JSON(l.manifest())
	if err != nil {
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/macp-manifest+json")
	_, _ = w.Write(append(text, '\n')) // the client may be gone
}

const codeHeader = "Macp-Error-Code"

// refusalOf hides the text of unknown errors.
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
	return &macpmode.Error{Code: macpmode.InternalError, Message: "internal error; see the log of the gateway"}
}

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

func refusedAck(env *macpv1.Envelope, state macpv1.SessionState, err error) *macpv1.Ack {
	refused := refusalOf(err)
	return &macpv1.Ack{MessageId: env.GetMessageId(), SessionId: env.GetSessionId(), SessionState: state, Error: &macpv1.MACPError{
		Code: string(refused.Code), Message: refused.Message, SessionId: env.GetSessionId(), MessageId: env.GetMessageId(),
	}}
}

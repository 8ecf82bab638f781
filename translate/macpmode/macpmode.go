// Package macpmode is the handoff mode of the Multi-Agent Coordination Protocol as pure
// functions: which messages a session accepts, what they change, and how a session and a handoff
// describe each other.
//
// A [Session] is what its history says. [Start] and [Session.Check] judge an envelope and return
// the entries that accept it; [Session.Apply] makes the change of one entry. The caller makes the
// entries durable between the two. The same entries, applied from the beginning, give the same
// session.
//
// The handoff mode moves responsibility: one pending offer at a time, with a target that never
// changes; the owner adds context, the target alone accepts or declines, and a Commitment alone
// resolves the session. [Describe] returns the handoff of an offer.
//
// STATUS says which sections of the sources hold.
package macpmode

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"baton/translate/macpmode/macpv1"
)

// What this package implements.
const (
	Mode          = "macp.mode.handoff.v1"
	ModeVersion   = "1.0.0"
	Version       = "1.0" // of the protocol
	DefaultPolicy = "policy.default"
)

// The types of messages.
const (
	TypeSessionStart   = "SessionStart"
	TypeOffer          = "HandoffOffer"
	TypeContext        = "HandoffContext"
	TypeAccept         = "HandoffAccept"
	TypeDecline        = "HandoffDecline"
	TypeCommitment     = "Commitment"
	TypeSignal         = "Signal"
	TypeProgress       = "Progress"
	TypeSessionCancel  = "SessionCancel"
	TypeSessionSuspend = "SessionSuspend"
	TypeSessionResume  = "SessionResume"
	TypeSessionExpire  = "SessionExpire" // of this runtime alone: the session has expired
)

// RuntimeSender is the sender of the entries that the runtime itself writes.
const RuntimeSender = "_runtime"

// Code is an error code of the protocol.
type Code string

// The codes that are in use here.
const (
	Unauthenticated         Code = "UNAUTHENTICATED"
	Forbidden               Code = "FORBIDDEN"
	SessionNotFound         Code = "SESSION_NOT_FOUND"
	SessionNotOpen          Code = "SESSION_NOT_OPEN"
	SessionAlreadyExists    Code = "SESSION_ALREADY_EXISTS"
	InvalidEnvelope         Code = "INVALID_ENVELOPE"
	InvalidRequest          Code = "INVALID_REQUEST"
	UnsupportedVersion      Code = "UNSUPPORTED_PROTOCOL_VERSION"
	ModeNotSupported        Code = "MODE_NOT_SUPPORTED"
	PayloadTooLarge         Code = "PAYLOAD_TOO_LARGE"
	RateLimited             Code = "RATE_LIMITED"
	InvalidSessionID        Code = "INVALID_SESSION_ID"
	InternalError           Code = "INTERNAL_ERROR"
	UnknownPolicyVersion    Code = "UNKNOWN_POLICY_VERSION"
	PolicyDenied            Code = "POLICY_DENIED"
	InvalidPolicyDefinition Code = "INVALID_POLICY_DEFINITION"
	HistoryUnavailable      Code = "HISTORY_UNAVAILABLE"
)

// Error refuses an envelope or a call. It is final.
type Error struct {
	Code    Code
	Message string
}

// Error implements error.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Refuse returns an [*Error].
func Refuse(code Code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Limits bound what a client can make grow.
const (
	MaxPayloadBytes  = 1 << 20 // of one envelope
	MaxParticipants  = 1000    // of a session
	MaxTTLMillis     = 24 * 60 * 60 * 1000
	MaxSuspendMillis = 7 * 24 * 60 * 60 * 1000 // unless the session binds another cap
	MaxHistory       = 20_000                  // envelopes of a session
	MaxHistoryBytes  = 64 << 20                // of their payloads
	maxNameBytes     = 512                     // of a participant, and of a message_id
	maxSessionID     = 128
)

// CheckShape checks what each envelope must have, before its sender is known.
func CheckShape(env *macpv1.Envelope) error {
	ambient := env.GetMessageType() == TypeSignal || env.GetMessageType() == TypeProgress
	bare := env.GetSessionId() == "" && env.GetMode() == ""
	whole := env.GetSessionId() != "" && env.GetMode() != ""
	switch {
	case env.GetMacpVersion() != Version:
		return Refuse(UnsupportedVersion, "macp_version is %q, want %q", env.GetMacpVersion(), Version)
	case env.GetMessageType() == "":
		return Refuse(InvalidEnvelope, "message_type is empty")
	case env.GetMessageId() == "" || len(env.GetMessageId()) > maxNameBytes:
		return Refuse(InvalidEnvelope, "message_id: want 1 to %d bytes", maxNameBytes)
	case env.GetMessageType() == TypeSignal && !bare:
		return Refuse(InvalidEnvelope, "a Signal has no session_id and no mode")
	case ambient && !bare && !whole, !ambient && !whole:
		return Refuse(InvalidEnvelope, "session_id and mode are both required")
	case len(env.GetPayload()) > MaxPayloadBytes:
		return Refuse(PayloadTooLarge, "the payload has %d bytes, at most %d are accepted", len(env.GetPayload()), MaxPayloadBytes)
	}
	return nil
}

// decode reads the payload of an envelope.
func decode(env *macpv1.Envelope, into proto.Message) error {
	if err := proto.Unmarshal(env.GetPayload(), into); err != nil {
		return Refuse(InvalidEnvelope, "the payload is no %s", into.ProtoReflect().Descriptor().FullName())
	}
	return nil
}

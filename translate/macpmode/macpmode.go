// Package macpmode implements the handoff mode of the Multi-Agent Coordination Protocol as pure
// functions: which messages a session accepts, the resulting changes, and how a session and a handoff
// describe each other.
//
// A [Session] follows from its history. [Start] and [Session.Check] judge an envelope and return the
// entries that accept it; [Session.Apply] makes the change of one entry. The caller makes the entries
// durable between the two. The same entries, applied from the beginning, give the same session.
//
// The handoff mode transfers responsibility: one pending offer at a time, with a target that never
// changes. The owner adds context, only the target accepts or declines, and only a Commitment
// resolves the session. [Describe] returns the handoff of an offer.
//
// STATUS lists the implemented sections of the sources.
package macpmode

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

// The names of this implementation.
const (
	Mode          = "macp.mode.handoff.v1"
	ModeVersion   = "1.0.0"
	Version       = "1.0"
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
	TypeSessionExpire  = "SessionExpire" // only of this runtime
)

// RuntimeSender is the sender of entries written by the runtime itself.
const RuntimeSender = "_runtime"

// Code is an error code of the protocol.
type Code string

// The codes in use.
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

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Refuse returns an [*Error].
func Refuse(code Code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Limits on data that clients can grow.
const (
	MaxPayloadBytes  = 1 << 20 // per envelope
	MaxParticipants  = 1000    // per session
	MaxTTLMillis     = 24 * 60 * 60 * 1000
	MaxSuspendMillis = 7 * 24 * 60 * 60 * 1000 // unless the session binds another limit
	MaxHistory       = 20_000                  // envelopes per session
	MaxHistoryBytes  = 64 << 20                // of payloads per session
	maxNameBytes     = 512                     // of a participant, or of a message_id
	maxSessionID     = 128
)

// CheckShape checks the requirements on each envelope, before its sender is known.
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

func decode(env *macpv1.Envelope, into proto.Message) error {
	if err := proto.Unmarshal(env.GetPayload(), into); err != nil {
		return Refuse(InvalidEnvelope, "the payload is not a %s", into.ProtoReflect().Descriptor().FullName())
	}
	return nil
}

// Names shared by both sides.
const (
	CarryExtension       = "x-fed.handoff.v1"                     // key of the [Carry] in a session's extensions
	CarryType            = "application/vnd.fed.handoff+json;v=1" // context that describes a step
	ReferenceType        = "application/vnd.fed.context-ref+json" // context stored elsewhere
	SignalEvent          = "x-fed.handoff.event"                  // signal that describes a step
	SignalStep           = "x-fed.handoff.step"                   // signal that requests a step
	JSONType             = "application/json"
	Untitled             = "untitled"
	ConfigurationVersion = "baton-1" // for sessions opened by the gateway
)

// Carry is the data, as JSON, without a session member of its own.
type Carry struct {
	V        int      `json:"v"`
	ID       string   `json:"id"`
	From     string   `json:"from"`
	To       string   `json:"to"`
	Title    string   `json:"title"`
	Caps     []string `json:"caps,omitempty"`
	Deadline int64    `json:"deadline,omitempty"` // unix seconds
	Priority string   `json:"priority,omitempty"`
	Replaces string   `json:"replaces,omitempty"`
	Profile  string   `json:"macp_profile,omitempty"`
	Href     string   `json:"href,omitempty"`

	// Only for a step:
	HandoffID string          `json:"handoff_id,omitempty"`
	Event     string          `json:"event,omitempty"` // step ID
	Verb      string          `json:"verb,omitempty"`
	State     string          `json:"state,omitempty"`
	By        string          `json:"by,omitempty"`
	Note      string          `json:"note,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	ResultRef *Reference      `json:"result_ref,omitempty"`
	Signature *Signed         `json:"sig,omitempty"`
}

// Signed is the signature of a step, for verification by a reader.
type Signed struct {
	Provenance string `json:"provenance"`
	Document   string `json:"document"`
	Signature  string `json:"signature"`
}

// Reference is a context stored elsewhere.
type Reference struct {
	URI    string `json:"uri"`
	SHA256 string `json:"sha256,omitempty"`
}

// Description is an offer of a session as an offer of the gateway.
type Description struct {
	Title    string
	Context  string // inline JSON, or a reference; may be empty
	Content  []byte // any other context, to be stored and referenced
	Deadline time.Time
	Caps     []string
	Priority string
	Replaces federation.HandoffID
}

// Describe returns the handoff of an offer of a session, and the content that a handoff cannot
// express. The context is the payload of the first HandoffContext, or nil.
func Describe(s *Session, offer *Offer, context *handoffv1.HandoffContextPayload) (Description, []federation.Loss) {
	d := Description{Deadline: time.UnixMilli(s.Expires).UTC().Truncate(time.Second)}
	title := s.Start.GetIntent()
	if translate.OneLine(title) == "" {
		title = offer.Scope
	}
	if translate.OneLine(title) == "" {
		title = Untitled
	}
	var losses []federation.Loss
	lose := func(field string, fate federation.Fate, why string) {
		losses = append(losses, federation.Loss{Field: field, Fate: fate, Why: why})
	}
	d.Context, d.Content = contextOf(context)
	d.Title, d.Context, losses = translate.FitWireTitle(title, d.Context)
	switch {
	case len(d.Content) > 0 && len(losses) > 0:
		d.Context, losses = "", nil
		lose("title", federation.Cut, "longer than 300 bytes; the context is stored as sent, and the evidence has the full text")
	case d.Title != title && len(losses) == 0:
		lose("title", federation.Cut, "it was not one line")
	}
	if offer.Scope != "" && offer.Scope != title {
		lose("scope", federation.Lost, "a handoff has no scope; the evidence has it")
	}
	if offer.Reason != "" {
		lose("reason", federation.Lost, "an offer has no reason; the evidence has it")
	}
	if len(s.Start.GetRoots()) > 0 {
		lose("roots", federation.Lost, "a handoff has no roots; the evidence has them")
	}
	if s.Start.GetContextId() != "" && context == nil {
		lose("context_id", federation.Lost, "the context is known by name alone; the evidence has the name")
	}
	d.carried(s.Start.GetExtensions()[CarryExtension])
	return d, losses
}

// The additions are only claims of a peer, so an unreadable member is skipped.
func (d *Description) carried(text []byte) {
	var c Carry
	if len(text) == 0 || federation.DecodeJSON(text, &c) != nil || c.V != 1 {
		return
	}
	d.Caps, d.Priority = c.Caps, c.Priority
	d.Replaces, _ = federation.ParseEventID(c.Replaces)
}

// A context is inline, a reference, or bytes to be stored.
func contextOf(p *handoffv1.HandoffContextPayload) (inline string, content []byte) {
	if p == nil || len(p.GetContext()) == 0 {
		return "", nil
	}
	kind, _, _ := strings.Cut(p.GetContentType(), ";")
	switch strings.TrimSpace(kind) {
	case ReferenceType:
		var ref Reference
		if federation.DecodeJSON(p.GetContext(), &ref) == nil && ref.URI != "" && !federation.InlineContext(ref.URI) {
			return ref.URI, nil
		}
	case JSONType:
		var text bytes.Buffer
		if json.Compact(&text, p.GetContext()) == nil && federation.InlineContext(text.String()) {
			return text.String(), nil
		}
	}
	return "", p.GetContext()
}

// Parties are the names of the parties of a handoff in a session.
type Parties struct{ Owner, Target string }

// CarryOf returns the data of a handoff for a session. The href is the gateway's page for the
// handoff.
func CarryOf(v federation.View, profile, href string) Carry {
	c := Carry{
		V: 1, ID: v.ID.String(), From: string(v.Offerer), To: string(v.Offeree), Title: v.Title, Caps: v.Caps, Priority: v.Priority,
		Profile: profile, Href: href,
	}
	if !v.Deadline.IsZero() {
		c.Deadline = v.Deadline.Unix()
	}
	if !v.Replaces.IsZero() {
		c.Replaces = v.Replaces.String()
	}
	return c
}

// StepOf returns the description of a step for a signal or a context.
func StepOf(ev federation.Event, after federation.View, state federation.State, profile, href string) Carry {
	c := CarryOf(after, profile, href)
	c.HandoffID, c.Event, c.Verb, c.State, c.By, c.Note = after.ID.String(), ev.ID.String(), string(ev.Verb), string(state), string(ev.Actor()), ev.Note
	if federation.InlineContext(ev.Context) && json.Valid([]byte(ev.Context)) {
		c.Result = json.RawMessage(ev.Context)
	} else if ev.Context != "" {
		c.ResultRef = &Reference{URI: ev.Context, SHA256: ev.ContextHash}
	}
	if ev.Signature.Text != "" {
		c.Signature = &Signed{Provenance: string(ev.Provenance), Document: ev.Signature.Document, Signature: ev.Signature.Text}
	}
	return c
}

// OpenOffer returns the payloads of the messages that offer a handoff in a new session: the start,
// the offer and the context, if any.
func OpenOffer(ev federation.Event, v federation.View, names Parties, c Carry, now time.Time) ([]proto.Message, error) {
	carry, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	start := &macpv1.SessionStartPayload{
		Intent: v.Title, Participants: []string{names.Owner, names.Target}, ModeVersion: ModeVersion, ConfigurationVersion: ConfigurationVersion,
		TtlMs: ttl(v.Deadline, now), ContextId: contextID(ev), Extensions: map[string][]byte{CarryExtension: carry},
	}
	if !federation.Private(v.Venue) {
		start.Roots = []*macpv1.Root{{Uri: "irc:" + v.Venue, Name: v.Venue}}
	}
	messages := []proto.Message{start, &handoffv1.HandoffOfferPayload{HandoffId: v.ID.String(), TargetParticipant: names.Target, Scope: v.Title}}
	if ev.Context == "" {
		return messages, nil
	}
	context := &handoffv1.HandoffContextPayload{HandoffId: v.ID.String(), ContentType: JSONType, Context: []byte(ev.Context)}
	if !federation.InlineContext(ev.Context) {
		context.ContentType = ReferenceType
		if context.Context, err = json.Marshal(Reference{URI: ev.Context, SHA256: ev.ContextHash}); err != nil {
			return nil, err
		}
	}
	return append(messages, context), nil
}

// A session ends at the deadline, and lasts at most a day.
func ttl(deadline, now time.Time) int64 {
	if deadline.IsZero() {
		return MaxTTLMillis
	}
	return min(max(deadline.Sub(now).Milliseconds(), 1), MaxTTLMillis)
}

func contextID(ev federation.Event) string {
	switch {
	case ev.Context == "":
		return ""
	case ev.ContextHash != "":
		return "ctx:sha256:" + ev.ContextHash
	}
	digest := sha256.Sum256([]byte(ev.Context))
	return "ctx:sha256:" + hex.EncodeToString(digest[:])
}

// Commitment returns the commitment with which the gateway resolves a session that it opened.
func (s *Session) Commitment(offer *Offer, action, reason string, positive bool) *macpv1.CommitmentPayload {
	return s.commitment(offer.ID, offer.Scope, action, reason, positive)
}

func (s *Session) commitment(id, scope, action, reason string, positive bool) *macpv1.CommitmentPayload {
	if strings.TrimSpace(scope) == "" {
		scope = Untitled
	}
	return &macpv1.CommitmentPayload{
		CommitmentId: "commit:" + id, Action: action, AuthorityScope: scope, Reason: reason, OutcomePositive: positive,
		ModeVersion: s.Start.GetModeVersion(), PolicyVersion: s.Policy.ID, ConfigurationVersion: s.Start.GetConfigurationVersion(),
	}
}

// Asked is the step requested by a signal of [SignalStep].
type Asked struct {
	Verb      federation.Verb `json:"verb"`
	Note      string          `json:"note"`
	Result    json.RawMessage `json:"result"`
	Retryable *bool           `json:"retryable"`
	HandoffID string          `json:"handoff_id"` // if the session has several offers
}

// BySignal reports whether a participant sends a step as a signal. Other steps are messages of the
// mode.
func BySignal(verb federation.Verb) bool {
	return verb == federation.Progress || verb == federation.Complete || verb == federation.Fail
}

// ReadStep parses the data of a signal that requests a step.
func ReadStep(data []byte) (Asked, error) {
	var a Asked
	if err := federation.DecodeJSON(data, &a); err != nil {
		return a, Refuse(InvalidEnvelope, "data: want JSON with verb, note, result and retryable")
	}
	if !BySignal(a.Verb) {
		return a, Refuse(InvalidEnvelope, "verb: want progress, complete or fail")
	}
	return a, nil
}

// Context returns the result as the context of a step, or "". It marks a retryable failure, because a
// step has no member for it.
func (a Asked) Context() string {
	result := bytes.TrimSpace(a.Result)
	if a.Retryable == nil {
		if len(result) == 0 || bytes.Equal(result, []byte("null")) {
			return ""
		}
		if federation.InlineContext(string(result)) {
			return string(result)
		}
	}
	members := map[string]any{}
	if len(result) > 0 && !bytes.Equal(result, []byte("null")) {
		members["result"] = json.RawMessage(result)
	}
	if a.Retryable != nil {
		members["retryable"] = *a.Retryable
	}
	text, err := json.Marshal(members)
	if err != nil {
		return ""
	}
	return string(text)
}

package macpmode

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/historyv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

// Disposition is the answer to an offer.
type Disposition string

// The dispositions, as conformance fixtures spell them.
const (
	Offered  Disposition = "Offered"
	Accepted Disposition = "Accepted"
	Declined Disposition = "Declined"
)

// Offer is one offer of a session.
type Offer struct {
	ID          string
	Target      string
	Scope       string
	Reason      string
	Disposition Disposition
	At          int64 // unix milliseconds of the acceptance by the runtime
	suspended   int64 // milliseconds that the session had been suspended by then
	Contexts    int
	Handoff     string // "" before it is filed
	Implicit    bool   // accepted by the runtime after the policy's timeout
}

// Session is one session of the handoff mode, or the copy of a session of the task mode. The zero
// Session was not started. All times are unix milliseconds.
type Session struct {
	ID        string
	Mode      string
	Initiator string
	Start     *macpv1.SessionStartPayload
	Policy    Policy
	State     macpv1.SessionState
	Started   int64
	Expires   int64 // changes when a suspended session is resumed
	Ended     int64 // when the session became final; 0 before
	Offers    []Offer
	Task      *Task // nil in the handoff mode
	// Resolution is the payload of the Commitment that resolved the session.
	Resolution []byte
	// Length counts the entries of the history. Sequence counts the envelopes on the stream.
	Length, Sequence uint64
	// Filed is the entry up to which the steps of the session are filed as steps of handoffs.
	Filed uint64
	// Planned is the ID for filing the next entry's step, if it is not the ID of that entry. It may
	// be empty.
	Planned string
	// Signal is the last signal about the work of the session, a serialized envelope.
	Signal []byte

	work        uint64 // newest entry with a step of a handoff
	workAt      int64  // when that step is filed
	bytes       int
	seen        map[string]int64 // when each message was accepted
	activity    map[string]*macpv1.ParticipantActivity
	suspendedAt int64
	suspended   int64 // total milliseconds
	maxSuspend  int64
}

// Exists reports whether the session was started.
func (s *Session) Exists() bool {
	return s != nil && s.State != macpv1.SessionState_SESSION_STATE_UNSPECIFIED
}

// Open reports whether the session accepts messages.
func (s *Session) Open() bool { return s.State == macpv1.SessionState_SESSION_STATE_OPEN }

// Over reports whether the state is final.
func (s *Session) Over() bool {
	return s.Exists() && !s.Open() && s.State != macpv1.SessionState_SESSION_STATE_SUSPENDED
}

// Has reports whether a participant is in the session.
func (s *Session) Has(participant string) bool {
	return s.Exists() && (participant == s.Initiator || slices.Contains(s.Start.GetParticipants(), participant))
}

// Offer returns an offer, or nil.
func (s *Session) Offer(id string) *Offer {
	i := slices.IndexFunc(s.Offers, func(o Offer) bool { return o.ID == id })
	if i < 0 {
		return nil
	}
	return &s.Offers[i]
}

// OfferOf returns the offer of a handoff, or nil.
func (s *Session) OfferOf(handoff string) *Offer {
	i := slices.IndexFunc(s.Offers, func(o Offer) bool { return o.Handoff == handoff })
	if i < 0 || handoff == "" {
		return nil
	}
	return &s.Offers[i]
}

// Current returns the newest offer, or nil.
func (s *Session) Current() *Offer {
	if len(s.Offers) == 0 {
		return nil
	}
	return &s.Offers[len(s.Offers)-1]
}

// AcceptedAt returns when a message was accepted, or false if it was not.
func (s *Session) AcceptedAt(messageID string) (int64, bool) {
	at, seen := s.seen[messageID]
	return at, seen
}

// Pending returns the time since which steps of the session have been waiting to be filed, and
// false if none are waiting.
func (s *Session) Pending() (at int64, waits bool) { return s.workAt, s.work > s.Filed }

// Weight estimates the memory of the session.
func (s *Session) Weight() int { return 1 + len(s.seen) + len(s.Start.GetParticipants()) }

// Metadata returns the participants' view of the session.
func (s *Session) Metadata() *macpv1.SessionMetadata {
	m := &macpv1.SessionMetadata{
		SessionId: s.ID, Mode: Mode, State: s.State, StartedAtUnixMs: s.Started, ExpiresAtUnixMs: s.Expires,
		ModeVersion: s.Start.GetModeVersion(), ConfigurationVersion: s.Start.GetConfigurationVersion(), PolicyVersion: s.Policy.ID,
		Participants: s.Start.GetParticipants(), Initiator: s.Initiator, ContextId: s.Start.GetContextId(),
	}
	for _, a := range s.activity {
		m.ParticipantActivity = append(m.ParticipantActivity, proto.CloneOf(a))
	}
	slices.SortFunc(m.ParticipantActivity, func(a, b *macpv1.ParticipantActivity) int {
		return cmp.Compare(a.GetParticipantId(), b.GetParticipantId())
	})
	for key := range s.Start.GetExtensions() {
		m.ExtensionKeys = append(m.ExtensionKeys, key)
	}
	slices.Sort(m.ExtensionKeys)
	return m
}

// EnvelopeOf returns the envelope of an entry.
func EnvelopeOf(entry *historyv1.Entry) (*macpv1.Envelope, error) {
	env := &macpv1.Envelope{}
	return env, proto.Unmarshal(entry.GetEnvelope(), env)
}

// Start judges the envelope that starts a session. Its sender is authenticated. The payload names
// the policy; see [PolicyNamed]. Skew is the maximum difference between the time of the envelope
// and now, in milliseconds.
func Start(env *macpv1.Envelope, bound *macpv1.PolicyDescriptor, now, skew int64) (*historyv1.Entry, error) {
	p, err := readStart(env)
	if err != nil {
		return nil, err
	}
	if at := env.GetTimestampUnixMs(); at > 0 && (at > now+skew || at < now-skew) {
		return nil, Refuse(InvalidEnvelope, "the time of the envelope is more than %d ms from now", skew)
	}
	if _, err := ReadPolicy(bound); err != nil {
		return nil, err
	}
	policy, err := proto.MarshalOptions{Deterministic: true}.Marshal(bound)
	if err != nil {
		return nil, err
	}
	entry, err := participantEntry(env, now)
	if err != nil {
		return nil, err
	}
	entry.Policy, entry.MaxSuspendMs = policy, p.GetMaxSuspendMs()
	if entry.MaxSuspendMs == 0 {
		entry.MaxSuspendMs = MaxSuspendMillis
	}
	return entry, nil
}

// PolicyNamed returns the policy named by an envelope that starts a session.
func PolicyNamed(env *macpv1.Envelope) (string, error) {
	p, err := readStart(env)
	if err != nil {
		return "", err
	}
	if p.GetPolicyVersion() == "" {
		return DefaultPolicy, nil
	}
	return p.GetPolicyVersion(), nil
}

// readStart does not check the time and the policy.
func readStart(env *macpv1.Envelope) (*macpv1.SessionStartPayload, error) {
	p := &macpv1.SessionStartPayload{}
	if env.GetMode() != Mode {
		return nil, Refuse(ModeNotSupported, "this runtime has the mode %s", Mode)
	}
	if !ValidSessionID(env.GetSessionId()) {
		return nil, Refuse(InvalidSessionID, "session_id: want a lower-case UUID of version 4 or 7, or 22 to %d characters of A-Z a-z 0-9 _ -", maxSessionID)
	}
	if err := decode(env, p); err != nil {
		return nil, err
	}
	switch {
	case strings.TrimSpace(p.GetModeVersion()) == "" || strings.TrimSpace(p.GetConfigurationVersion()) == "":
		return nil, Refuse(InvalidEnvelope, "mode_version and configuration_version are required")
	case p.GetModeVersion() != ModeVersion:
		return nil, Refuse(InvalidEnvelope, "mode_version: this runtime has %s", ModeVersion)
	case p.GetTtlMs() < 1 || p.GetTtlMs() > MaxTTLMillis:
		return nil, Refuse(InvalidEnvelope, "ttl_ms: want 1 to %d", MaxTTLMillis)
	case p.GetMaxSuspendMs() < 0:
		return nil, Refuse(InvalidEnvelope, "max_suspend_ms is negative")
	}
	return p, checkParticipants(env.GetSender(), p.GetParticipants())
}

func checkParticipants(owner string, all []string) error {
	if len(all) < 2 || len(all) > MaxParticipants {
		return Refuse(InvalidEnvelope, "participants: want 2 to %d", MaxParticipants)
	}
	known := map[string]bool{}
	for _, name := range all {
		trimmed := strings.TrimSpace(name)
		if trimmed == "" || known[trimmed] || len(name) > maxNameBytes {
			return Refuse(InvalidEnvelope, "participants: each is named once, in at most %d bytes", maxNameBytes)
		}
		known[trimmed] = true
	}
	if !slices.Contains(all, owner) {
		return Refuse(InvalidEnvelope, "participants: the owner is one of them")
	}
	return nil
}

// ValidSessionID reports whether a text can be the ID of a session: a canonical UUID of version 4
// or 7, or a token of random characters.
func ValidSessionID(id string) bool {
	if looksLikeUUID(id) {
		return id == strings.ToLower(id) && (id[14] == '4' || id[14] == '7') && strings.Contains("89ab", id[19:20])
	}
	return len(id) >= 22 && len(id) <= maxSessionID && strings.IndexFunc(id, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
}

func looksLikeUUID(id string) bool {
	if len(id) != 36 {
		return false
	}
	for i := range len(id) {
		hyphen := i == 8 || i == 13 || i == 18 || i == 23
		if hyphen != (id[i] == '-') || !hyphen && !strings.ContainsRune("0123456789abcdefABCDEF", rune(id[i])) {
			return false
		}
	}
	return true
}

const implicitReason = "implicit accept (timeout)"

// Due returns the entry that is due now: an implicit accept, or the session's end. The caller applies
// the entry and calls Due again. It returns nil if nothing is due.
func (s *Session) Due(now int64) (*historyv1.Entry, error) {
	if !s.Exists() || s.Over() {
		return nil, nil //nolint:nilnil // nothing is due
	}
	if at, offer := s.implicitAt(); offer != nil && at <= now && at <= s.Expires {
		return s.implicitAccept(offer, at)
	}
	if end := s.endsAt(); now > end {
		return s.Control(TypeSessionExpire, &macpv1.SessionCancelPayload{Reason: "the time of the session is over"}, end)
	}
	return nil, nil //nolint:nilnil // nothing is due
}

// NextDue returns the time of the next timed change of the session, or 0 for never.
func (s *Session) NextDue() int64 {
	if !s.Exists() || s.Over() {
		return 0
	}
	next := s.endsAt() + 1
	if at, offer := s.implicitAt(); offer != nil {
		next = min(next, at)
	}
	return next
}

func (s *Session) endsAt() int64 {
	if s.State == macpv1.SessionState_SESSION_STATE_SUSPENDED {
		return s.suspendedAt + max(s.maxSuspend-s.suspended, 0)
	}
	return s.Expires
}

// implicitAt returns nil if the runtime never accepts the offer.
//
// spec: RFC-MACP-0010 §5.1
func (s *Session) implicitAt() (int64, *Offer) {
	offer := s.Current()
	if s.Policy.ImplicitAccept == 0 || !s.Open() || offer == nil || offer.Disposition != Offered {
		return 0, nil
	}
	return offer.At + s.Policy.ImplicitAccept + s.suspended - offer.suspended, offer
}

// A mark distinguishes an implicit accept from an accept by the target.
func (s *Session) implicitAccept(offer *Offer, at int64) (*historyv1.Entry, error) {
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(&handoffv1.HandoffAcceptPayload{
		HandoffId: offer.ID, AcceptedBy: offer.Target, Reason: implicitReason, Implicit: true,
	})
	if err != nil {
		return nil, err
	}
	return participantEntry(&macpv1.Envelope{
		MacpVersion: Version, Mode: Mode, MessageType: TypeAccept, MessageId: implicitPrefix + offer.ID, SessionId: s.ID,
		Sender: offer.Target, TimestampUnixMs: at, Payload: payload,
	}, at)
}

// Control returns the entry of a change by the runtime.
func (s *Session) Control(kind string, payload proto.Message, at int64) (*historyv1.Entry, error) {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(payload)
	if err != nil {
		return nil, err
	}
	entry, err := participantEntry(&macpv1.Envelope{
		MacpVersion: Version, Mode: Mode, MessageType: kind, MessageId: fmt.Sprintf("%s:%d", kind, s.Length+1), SessionId: s.ID,
		Sender: RuntimeSender, TimestampUnixMs: at, Payload: text,
	}, at)
	if err != nil {
		return nil, err
	}
	entry.Source = historyv1.Source_SOURCE_RUNTIME
	return entry, nil
}

// CheckControl judges a call that cancels, suspends or resumes the session. It returns nil if the
// session is final, or already in the requested state.
func (s *Session) CheckControl(kind, sender, reason string, now int64) (*historyv1.Entry, error) {
	if !s.MayCommit(sender) && sender != s.Initiator {
		return nil, Refuse(Forbidden, "only the owner and the participants named by the policy can do that")
	}
	suspended := s.State == macpv1.SessionState_SESSION_STATE_SUSPENDED
	switch kind {
	case TypeSessionCancel:
		if s.Over() {
			return nil, nil //nolint:nilnil // it is final already
		}
		return s.Control(kind, &macpv1.SessionCancelPayload{Reason: reason, CancelledBy: sender}, now)
	case TypeSessionSuspend:
		if !s.Open() {
			return nil, Refuse(SessionNotOpen, "the session is not open")
		}
		return s.Control(kind, &macpv1.SessionSuspendPayload{Reason: reason, SuspendedBy: sender}, now)
	case TypeSessionResume:
		if !suspended {
			return nil, Refuse(SessionNotOpen, "the session is not suspended")
		}
		return s.Control(kind, &macpv1.SessionResumePayload{Reason: reason, ResumedBy: sender, BankedMs: max(s.Expires-s.suspendedAt, 0)}, now)
	}
	return nil, Refuse(InvalidRequest, "there is no %s", kind)
}

package macpmode

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	"baton/translate/macpmode/historyv1"
	"baton/translate/macpmode/macpv1"
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
	At          int64  // unix milliseconds, when the runtime accepted it
	suspended   int64  // milliseconds that the session had been suspended by then
	Contexts    int    // accepted contexts
	Handoff     string // the ID of the handoff that the offer is; "" before it is filed
	Implicit    bool   // the runtime accepted it after the timeout of the policy
}

// Session is one session of the handoff mode, or the copy of a session of the task mode. The zero
// Session does not exist. All times are unix milliseconds.
type Session struct {
	ID        string
	Mode      string
	Initiator string
	Start     *macpv1.SessionStartPayload
	Policy    Policy
	State     macpv1.SessionState
	Started   int64
	Expires   int64 // moves when a suspended session is resumed
	Ended     int64 // when the session became final; 0 before
	Offers    []Offer
	Task      *Task // of a session of the task mode, after its request; else nil
	// Resolution is the payload of the Commitment that resolved the session.
	Resolution []byte
	// Length counts the entries of the history, Sequence the envelopes on the stream.
	Length, Sequence uint64
	// Filed is the entry up to which the steps of the session are filed as steps of handoffs.
	Filed uint64
	// Planned is the ID with which the step of the next entry is filed, where it is not the ID of
	// that entry; "" for none.
	Planned string
	// Signal is the last signal about the work of the session, a serialized envelope.
	Signal []byte

	work        uint64 // the newest entry that is a step of a handoff
	workAt      int64  // when that step is filed
	bytes       int
	seen        map[string]int64 // when each message was accepted
	activity    map[string]*macpv1.ParticipantActivity
	suspendedAt int64
	suspended   int64 // milliseconds in all
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

// Offer returns an offer, nil for an unknown one.
func (s *Session) Offer(id string) *Offer {
	i := slices.IndexFunc(s.Offers, func(o Offer) bool { return o.ID == id })
	if i < 0 {
		return nil
	}
	return &s.Offers[i]
}

// OfferOf returns the offer that is a handoff, nil for none.
func (s *Session) OfferOf(handoff string) *Offer {
	i := slices.IndexFunc(s.Offers, func(o Offer) bool { return o.Handoff == handoff })
	if i < 0 || handoff == "" {
		return nil
	}
	return &s.Offers[i]
}

// Current returns the newest offer, nil before the first one.
func (s *Session) Current() *Offer {
	if len(s.Offers) == 0 {
		return nil
	}
	return &s.Offers[len(s.Offers)-1]
}

// AcceptedAt returns when a message was accepted, and false for one that was not.
func (s *Session) AcceptedAt(messageID string) (int64, bool) {
	at, seen := s.seen[messageID]
	return at, seen
}

// Pending returns from when on steps of the session wait to be filed, and false where none does.
func (s *Session) Pending() (at int64, waits bool) { return s.workAt, s.work > s.Filed }

// Weight is a measure of the memory that the session takes.
func (s *Session) Weight() int { return 1 + len(s.seen) + len(s.Start.GetParticipants()) }

// Metadata returns what participants read about the session.
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

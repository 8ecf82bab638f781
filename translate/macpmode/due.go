package macpmode

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"baton/translate/macpmode/handoffv1"
	"baton/translate/macpmode/historyv1"
	"baton/translate/macpmode/macpv1"
)

// implicitReason is the reason of an accept by the runtime.
const implicitReason = "implicit accept (timeout)"

// Due returns what the clock has made of the session by now: an implicit accept, or its end. The
// caller applies the entry and asks again; nil is nothing.
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

// NextDue returns when the clock changes the session next, 0 for never.
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

// endsAt returns when the session expires.
func (s *Session) endsAt() int64 {
	if s.State == macpv1.SessionState_SESSION_STATE_SUSPENDED {
		return s.suspendedAt + max(s.maxSuspend-s.suspended, 0)
	}
	return s.Expires
}

// implicitAt returns when the runtime accepts the pending offer, and nil where it never does.
//
// spec: RFC-MACP-0010 §5.1
func (s *Session) implicitAt() (int64, *Offer) {
	offer := s.Current()
	if s.Policy.ImplicitAccept == 0 || !s.Open() || offer == nil || offer.Disposition != Offered {
		return 0, nil
	}
	return offer.At + s.Policy.ImplicitAccept + s.suspended - offer.suspended, offer
}

// implicitAccept returns the accept by the runtime: it names the target as its sender, and is
// marked, so that no reader takes it for a word of the target.
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

// CheckControl judges a call that cancels, suspends or resumes the session. It returns nil where the
// session is final, or is in the wanted state already.
func (s *Session) CheckControl(kind, sender, reason string, now int64) (*historyv1.Entry, error) {
	if !s.MayCommit(sender) && sender != s.Initiator {
		return nil, Refuse(Forbidden, "only the owner and the participants that the policy names do that")
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

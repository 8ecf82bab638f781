package macpmode

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/historyv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
	"github.com/baton-gateway/baton/translate/macpmode/taskv1"
)

// Apply makes the change of one entry of the history, which was checked before it was accepted. Its
// error means that the history is damaged.
func (s *Session) Apply(entry *historyv1.Entry) error {
	s.Length++
	if entry.GetSource() == historyv1.Source_SOURCE_NOTE {
		s.note(entry)
		return nil
	}
	env, err := EnvelopeOf(entry)
	if err == nil {
		err = s.apply(entry, env)
	}
	if err != nil {
		return fmt.Errorf("entry %d: %w", s.Length, err)
	}
	return nil
}

func (s *Session) note(entry *historyv1.Entry) {
	if opened := entry.GetOpened(); opened != nil {
		if offer := s.Offer(opened.GetOffer()); offer != nil {
			offer.Handoff = opened.GetHandoff()
		}
		if s.Task != nil && s.Task.ID == opened.GetOffer() {
			s.Task.Handoff = opened.GetHandoff()
		}
	}
	s.Filed = max(s.Filed, entry.GetFiled())
	s.Planned = entry.GetEvent()
}

func (s *Session) apply(entry *historyv1.Entry, env *macpv1.Envelope) error {
	switch entry.GetSource() {
	case historyv1.Source_SOURCE_SIGNAL:
		s.Signal = entry.GetEnvelope()
		return nil
	case historyv1.Source_SOURCE_RUNTIME:
		s.plan(entry, env)
		return s.control(entry.GetAtUnixMs(), env)
	case historyv1.Source_SOURCE_PARTICIPANT:
	case historyv1.Source_SOURCE_UNSPECIFIED, historyv1.Source_SOURCE_NOTE:
		return fmt.Errorf("unknown source %s", entry.GetSource())
	}
	if env.GetMessageType() == TypeSessionStart {
		if err := s.begin(entry, env); err != nil {
			return err
		}
	}
	at := entry.GetAtUnixMs()
	s.Sequence++
	s.bytes += len(env.GetPayload())
	s.seen[env.GetMessageId()] = at
	a := s.activity[env.GetSender()]
	if a == nil {
		a = &macpv1.ParticipantActivity{ParticipantId: env.GetSender()}
		s.activity[env.GetSender()] = a
	}
	a.LastMessageAtUnixMs = at
	a.MessageCount++
	s.plan(entry, env)
	return s.message(entry.GetAtUnixMs(), env)
}

func (s *Session) begin(entry *historyv1.Entry, env *macpv1.Envelope) error {
	start := &macpv1.SessionStartPayload{}
	if err := proto.Unmarshal(env.GetPayload(), start); err != nil {
		return err
	}
	bound := &macpv1.PolicyDescriptor{}
	if err := proto.Unmarshal(entry.GetPolicy(), bound); err != nil {
		return err
	}
	policy, err := ReadPolicy(bound)
	if err != nil {
		return err
	}
	at := entry.GetAtUnixMs()
	base := env.GetTimestampUnixMs()
	if base <= 0 {
		base = at
	}
	s.ID, s.Mode, s.Initiator, s.Start, s.Policy = env.GetSessionId(), env.GetMode(), env.GetSender(), start, policy
	s.State, s.Started, s.Expires, s.maxSuspend = macpv1.SessionState_SESSION_STATE_OPEN, at, base+start.GetTtlMs(), entry.GetMaxSuspendMs()
	s.seen, s.activity = map[string]int64{}, map[string]*macpv1.ParticipantActivity{}
	return nil
}

// OfferWait bounds how long an offer waits for its context before it is filed, in milliseconds.
const OfferWait = 1000

// Files reports whether an entry is a step of a handoff. An entry that only shows a step does not
// count. An accept by the runtime does not count, because the target did not send it.
func Files(entry *historyv1.Entry, env *macpv1.Envelope) bool {
	if entry.GetEvent() != "" || strings.HasPrefix(env.GetMessageId(), implicitPrefix) {
		return false
	}
	switch env.GetMessageType() {
	case TypeOffer, TypeAccept, TypeDecline, TypeTaskRequest, TypeTaskReject, TypeTaskUpdate, TypeTaskComplete, TypeTaskFail:
		return entry.GetSource() == historyv1.Source_SOURCE_PARTICIPANT
	case TypeSessionCancel, TypeSessionExpire:
		return entry.GetSource() == historyv1.Source_SOURCE_RUNTIME
	}
	return false
}

func (s *Session) plan(entry *historyv1.Entry, env *macpv1.Envelope) {
	at := entry.GetAtUnixMs()
	switch {
	case env.GetMessageType() == TypeContext:
		s.workAt = min(s.workAt, at)
	case !Files(entry, env):
	case env.GetMessageType() == TypeOffer:
		s.work, s.workAt = s.Length, at+OfferWait
	default:
		s.work, s.workAt = s.Length, at
	}
}

func (s *Session) message(at int64, env *macpv1.Envelope) error {
	switch env.GetMessageType() {
	case TypeOffer:
		var p handoffv1.HandoffOfferPayload
		if err := proto.Unmarshal(env.GetPayload(), &p); err != nil {
			return err
		}
		s.Offers = append(s.Offers, Offer{
			ID: p.GetHandoffId(), Target: p.GetTargetParticipant(), Scope: p.GetScope(), Reason: p.GetReason(), Disposition: Offered, At: at, suspended: s.suspended,
		})
	case TypeContext:
		var p handoffv1.HandoffContextPayload
		if err := proto.Unmarshal(env.GetPayload(), &p); err != nil {
			return err
		}
		if offer := s.Offer(p.GetHandoffId()); offer != nil {
			offer.Contexts++
		}
	case TypeAccept:
		var p handoffv1.HandoffAcceptPayload
		if err := proto.Unmarshal(env.GetPayload(), &p); err != nil {
			return err
		}
		if offer := s.Offer(p.GetHandoffId()); offer != nil {
			offer.Disposition, offer.Implicit = Accepted, p.GetImplicit()
		}
	case TypeDecline:
		var p handoffv1.HandoffDeclinePayload
		if err := proto.Unmarshal(env.GetPayload(), &p); err != nil {
			return err
		}
		if offer := s.Offer(p.GetHandoffId()); offer != nil {
			offer.Disposition = Declined
		}
	case TypeTaskRequest:
		var p taskv1.TaskRequestPayload
		if err := proto.Unmarshal(env.GetPayload(), &p); err != nil {
			return err
		}
		s.Task = &Task{ID: p.GetTaskId(), Assignee: p.GetRequestedAssignee(), Title: p.GetTitle()}
	case TypeCommitment:
		s.end(macpv1.SessionState_SESSION_STATE_RESOLVED, at)
		s.Resolution = env.GetPayload()
	}
	return nil
}

func (s *Session) control(at int64, env *macpv1.Envelope) error {
	switch env.GetMessageType() {
	case TypeSessionCancel:
		s.end(macpv1.SessionState_SESSION_STATE_CANCELLED, at)
	case TypeSessionExpire:
		s.end(macpv1.SessionState_SESSION_STATE_EXPIRED, at)
	case TypeSessionSuspend:
		s.State, s.suspendedAt = macpv1.SessionState_SESSION_STATE_SUSPENDED, at
	case TypeSessionResume:
		paused := max(at-s.suspendedAt, 0)
		s.State, s.suspended, s.Expires, s.suspendedAt = macpv1.SessionState_SESSION_STATE_OPEN, s.suspended+paused, s.Expires+paused, 0
	default:
		return fmt.Errorf("the runtime writes no %s", env.GetMessageType())
	}
	return nil
}

func (s *Session) end(state macpv1.SessionState, at int64) { s.State, s.Ended = state, at }

package macpmode

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/historyv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

// implicitPrefix begins the message_id of an accept by the runtime. Clients must not use it.
//
// spec: RFC-MACP-0010 §5.1
const implicitPrefix = "implicit-accept:"

// Check judges a message to the session at the given time, in unix milliseconds. The sender is
// authenticated. It returns the entry that accepts the message, or nil for a duplicate. The caller
// must have applied [Session.Due].
func (s *Session) Check(env *macpv1.Envelope, now int64) (*historyv1.Entry, error) {
	if !s.Exists() {
		return nil, Refuse(SessionNotFound, "there is no such session")
	}
	if !s.Has(env.GetSender()) {
		return nil, Refuse(Forbidden, "the sender is not a participant of the session")
	}
	if _, seen := s.seen[env.GetMessageId()]; seen {
		return nil, nil //nolint:nilnil // no entry is the answer to a duplicate
	}
	switch {
	case env.GetMode() != Mode:
		return nil, Refuse(InvalidEnvelope, "the session is of the mode %s", Mode)
	case !s.Open():
		return nil, Refuse(SessionNotOpen, "the session is %s", strings.ToLower(strings.TrimPrefix(s.State.String(), "SESSION_STATE_")))
	case now > s.Expires:
		return nil, Refuse(SessionNotOpen, "the session has expired")
	case s.Sequence >= MaxHistory || s.bytes+len(env.GetPayload()) > MaxHistoryBytes:
		return nil, Refuse(RateLimited, "the history of the session is full")
	case strings.HasPrefix(env.GetMessageId(), implicitPrefix):
		return nil, Refuse(InvalidEnvelope, "a message_id that begins with %q is reserved", implicitPrefix)
	}
	if err := s.checkMessage(env); err != nil {
		return nil, err
	}
	return participantEntry(env, now)
}

func participantEntry(env *macpv1.Envelope, now int64) (*historyv1.Entry, error) {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(env)
	return &historyv1.Entry{AtUnixMs: now, Envelope: text, Source: historyv1.Source_SOURCE_PARTICIPANT}, err
}

// spec: RFC-MACP-0010 §2.1, §5
func (s *Session) checkMessage(env *macpv1.Envelope) error {
	switch env.GetMessageType() {
	case TypeOffer:
		return s.checkOffer(env)
	case TypeContext:
		return s.checkContext(env)
	case TypeAccept:
		var p handoffv1.HandoffAcceptPayload
		if err := decode(env, &p); err != nil {
			return err
		}
		if p.GetImplicit() {
			return Refuse(InvalidEnvelope, "only the runtime accepts implicitly")
		}
		return s.checkAnswer(env, p.GetHandoffId(), p.GetAcceptedBy(), "accepted_by")
	case TypeDecline:
		var p handoffv1.HandoffDeclinePayload
		if err := decode(env, &p); err != nil {
			return err
		}
		return s.checkAnswer(env, p.GetHandoffId(), p.GetDeclinedBy(), "declined_by")
	case TypeCommitment:
		return s.checkCommitment(env)
	case TypeSessionStart:
		return Refuse(SessionAlreadyExists, "the session was started before")
	case TypeSessionCancel, TypeSessionSuspend, TypeSessionResume, TypeSessionExpire:
		return Refuse(InvalidEnvelope, "only the runtime writes %s: call the method of that name", env.GetMessageType())
	}
	return Refuse(InvalidEnvelope, "the mode has no message %q", env.GetMessageType())
}

func (s *Session) checkOffer(env *macpv1.Envelope) error {
	if env.GetSender() != s.Initiator {
		return Refuse(Forbidden, "only the owner of the session offers")
	}
	var p handoffv1.HandoffOfferPayload
	if err := decode(env, &p); err != nil {
		return err
	}
	target := p.GetTargetParticipant()
	switch {
	case strings.TrimSpace(p.GetHandoffId()) == "" || len(p.GetHandoffId()) > maxNameBytes:
		return Refuse(InvalidEnvelope, "handoff_id: want 1 to %d bytes", maxNameBytes)
	case s.Offer(p.GetHandoffId()) != nil:
		return Refuse(InvalidEnvelope, "the handoff_id was used for another offer")
	case target == "" || !s.Has(target):
		return Refuse(InvalidEnvelope, "target_participant is not a participant of the session")
	case target == s.Initiator:
		return Refuse(InvalidEnvelope, "the owner cannot be the target")
	}
	for _, offer := range s.Offers {
		switch {
		case offer.Disposition == Offered:
			return Refuse(InvalidEnvelope, "the offer %q is pending", offer.ID)
		case offer.Disposition == Accepted:
			return Refuse(InvalidEnvelope, "the offer %q was accepted", offer.ID)
		case offer.Target == target: // spec: RFC-MACP-0010 §5 rule 3a
			return Refuse(InvalidEnvelope, "%q has declined in this session: start another one", target)
		}
	}
	return nil
}

func (s *Session) checkContext(env *macpv1.Envelope) error {
	var p handoffv1.HandoffContextPayload
	if err := decode(env, &p); err != nil {
		return err
	}
	switch {
	case s.Offer(p.GetHandoffId()) == nil:
		return Refuse(InvalidEnvelope, "there is no offer %q", p.GetHandoffId())
	case env.GetSender() != s.Initiator:
		return Refuse(Forbidden, "only the offerer adds context")
	}
	return nil
}

// The parameter by is the sender named by the accept or the decline.
func (s *Session) checkAnswer(env *macpv1.Envelope, id, by, field string) error {
	offer := s.Offer(id)
	switch {
	case offer == nil:
		return Refuse(InvalidEnvelope, "there is no offer %q", id)
	case offer.Target != env.GetSender():
		return Refuse(Forbidden, "only the target answers the offer")
	case by != "" && by != env.GetSender():
		return Refuse(InvalidEnvelope, "%s is not the sender", field)
	case offer.Disposition != Offered:
		return Refuse(InvalidEnvelope, "the offer was answered before")
	}
	return nil
}

// spec: RFC-MACP-0001 §7.3; RFC-MACP-0010 §6; RFC-MACP-0012 §6.1
func (s *Session) checkCommitment(env *macpv1.Envelope) error {
	var p macpv1.CommitmentPayload
	if err := decode(env, &p); err != nil {
		return err
	}
	if !s.MayCommit(env.GetSender()) {
		return Refuse(Forbidden, "the policy %s lets another participant commit", s.Policy.ID)
	}
	for field, value := range map[string]string{
		"commitment_id": p.GetCommitmentId(), "action": p.GetAction(), "authority_scope": p.GetAuthorityScope(), "reason": p.GetReason(),
	} {
		if strings.TrimSpace(value) == "" {
			return Refuse(InvalidEnvelope, "%s is required", field)
		}
	}
	switch {
	case p.GetModeVersion() != s.Start.GetModeVersion() || p.GetConfigurationVersion() != s.Start.GetConfigurationVersion():
		return Refuse(InvalidEnvelope, "mode_version and configuration_version differ from the session")
	case p.GetPolicyVersion() != "" && p.GetPolicyVersion() != s.Policy.ID:
		return Refuse(InvalidEnvelope, "policy_version is not %s", s.Policy.ID)
	case p.GetSupersedes() != nil && (strings.TrimSpace(p.GetSupersedes().GetSessionId()) == "" || !validHash(p.GetSupersedes().GetCommitmentHash())):
		return Refuse(InvalidEnvelope, "supersedes: want a session_id, and sha256: with 64 hexadecimal digits")
	case endsIn(p.GetAction(), "rejected", "failed", "declined") && p.GetOutcomePositive():
		return Refuse(InvalidEnvelope, "outcome_positive is true for %q", p.GetAction())
	case endsIn(p.GetAction(), "selected", "accepted", "completed", "approved") && !p.GetOutcomePositive():
		return Refuse(InvalidEnvelope, "outcome_positive is false for %q", p.GetAction())
	}
	for _, offer := range s.Offers {
		if offer.Disposition != Offered {
			return nil
		}
	}
	return Refuse(InvalidEnvelope, "no offer was accepted or declined")
}

// MayCommit reports whether the policy of the session allows a participant to commit, cancel,
// suspend and resume it.
func (s *Session) MayCommit(sender string) bool {
	switch s.Policy.Authority {
	case AnyParticipant:
		return s.Has(sender)
	case DesignatedRole:
		return s.Policy.designates(sender)
	case InitiatorOnly:
	}
	return sender == s.Initiator
}

func endsIn(action string, endings ...string) bool {
	for _, ending := range endings {
		if strings.HasSuffix(action, ending) {
			return true
		}
	}
	return false
}

// spec: RFC-MACP-0013 §9
func validHash(text string) bool {
	digits, ok := strings.CutPrefix(text, "sha256:")
	return ok && len(digits) == 64 && strings.Trim(digits, "0123456789abcdef") == ""
}

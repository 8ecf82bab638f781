package macpmode

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"baton/translate/macpmode/historyv1"
	"baton/translate/macpmode/macpv1"
)

// Start judges the envelope that starts a session, whose sender is authenticated. The policy is
// the one that its payload names, see [PolicyNamed]; the skew, in milliseconds, is how far the
// time of the envelope may be from now.
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

// PolicyNamed returns the policy that an envelope which starts a session names.
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

// readStart checks all but the time and the policy of an envelope that starts a session.
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

// ValidSessionID reports whether a session may have an ID. IDs that look like a UUID must be one
// in its canonical form; any other ID is a token of random characters.
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

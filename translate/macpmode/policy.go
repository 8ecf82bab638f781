package macpmode

import (
	"regexp"
	"slices"
	"strings"

	"baton/federation"
	"baton/translate/macpmode/macpv1"
)

// Authority says which participants may commit a session.
type Authority string

// The authorities of RFC-MACP-0012 §4.5.
const (
	InitiatorOnly  Authority = "initiator_only"
	AnyParticipant Authority = "any_participant"
	DesignatedRole Authority = "designated_role"
)

// Policy is the governance of a session.
type Policy struct {
	ID             string
	ImplicitAccept int64 // milliseconds after which the runtime accepts a pending offer; 0 for never
	Authority      Authority
	roles          []string
}

// designates reports whether a participant is in a designated role: the roles are names of
// participants.
func (p Policy) designates(sender string) bool { return slices.Contains(p.roles, sender) }

// rules is the JSON of a policy of the handoff mode.
type rules struct {
	Acceptance struct {
		Timeout *int64 `json:"implicit_accept_timeout_ms"`
	} `json:"acceptance"`
	Commitment struct {
		Authority string   `json:"authority"`
		Roles     []string `json:"designated_roles"`
	} `json:"commitment"`
}

// Bounds of a policy.
const (
	maxRulesBytes    = 16 << 10
	maxSchemaVersion = 3
)

// policyID returns the form of the ID of a policy.
func policyID() *regexp.Regexp { return regexp.MustCompile(`^policy(\.[A-Za-z0-9_-]+){1,8}$`) }

// BuiltIn returns the policy that each runtime has.
func BuiltIn() *macpv1.PolicyDescriptor {
	return &macpv1.PolicyDescriptor{PolicyId: DefaultPolicy, Mode: "*", Description: "the owner of a session commits it; no offer is accepted implicitly", Rules: "{}", SchemaVersion: 1}
}

// CheckPolicy judges a policy that a participant registers.
func CheckPolicy(d *macpv1.PolicyDescriptor) error {
	id := d.GetPolicyId()
	switch {
	case len(id) > maxNameBytes || !policyID().MatchString(id):
		return Refuse(InvalidPolicyDefinition, "policy_id: want policy.<namespace>.<name>")
	case id == DefaultPolicy || strings.HasPrefix(id, "policy.std."):
		return Refuse(InvalidPolicyDefinition, "%s is reserved", id)
	case len(d.GetDescription()) > maxRulesBytes:
		return Refuse(InvalidPolicyDefinition, "the description is too long")
	}
	_, err := ReadPolicy(d)
	return err
}

// ReadPolicy reads the rules of a policy for the handoff mode.
func ReadPolicy(d *macpv1.PolicyDescriptor) (Policy, error) {
	switch {
	case d.GetMode() != Mode && d.GetMode() != "*":
		return Policy{}, Refuse(InvalidPolicyDefinition, "the policy %s is for the mode %q", d.GetPolicyId(), d.GetMode())
	case d.GetSchemaVersion() < 1 || d.GetSchemaVersion() > maxSchemaVersion:
		return Policy{}, Refuse(InvalidPolicyDefinition, "schema_version: want 1 to %d", maxSchemaVersion)
	case len(d.GetRules()) > maxRulesBytes:
		return Policy{}, Refuse(InvalidPolicyDefinition, "rules: at most %d bytes", maxRulesBytes)
	case !strings.HasPrefix(strings.TrimSpace(d.GetRules()), "{"):
		return Policy{}, Refuse(InvalidPolicyDefinition, "rules: want a JSON object")
	}
	var r rules
	if err := federation.DecodeStrictJSON([]byte(d.GetRules()), &r); err != nil {
		return Policy{}, Refuse(InvalidPolicyDefinition, "rules: want acceptance and commitment of the handoff mode")
	}
	p := Policy{ID: d.GetPolicyId(), Authority: Authority(r.Commitment.Authority), roles: r.Commitment.Roles}
	if r.Acceptance.Timeout != nil {
		p.ImplicitAccept = *r.Acceptance.Timeout
	}
	if p.Authority == "" {
		p.Authority = InitiatorOnly
	}
	switch {
	case p.ImplicitAccept < 0:
		return Policy{}, Refuse(InvalidPolicyDefinition, "implicit_accept_timeout_ms is negative")
	case p.Authority == DesignatedRole && len(p.roles) == 0:
		return Policy{}, Refuse(InvalidPolicyDefinition, "designated_role needs designated_roles")
	case p.Authority != InitiatorOnly && p.Authority != AnyParticipant && p.Authority != DesignatedRole:
		return Policy{}, Refuse(InvalidPolicyDefinition, "authority: want initiator_only, any_participant or designated_role")
	}
	return p, nil
}

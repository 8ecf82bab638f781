package bridgetest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

// MACPFixture is a conformance fixture of MACP: the messages of one session, and the result.
type MACPFixture struct {
	Description          string         `json:"description"`
	Mode                 string         `json:"mode"`
	Initiator            string         `json:"initiator"`
	Participants         []string       `json:"participants"`
	ModeVersion          string         `json:"mode_version"`
	ConfigurationVersion string         `json:"configuration_version"`
	PolicyVersion        string         `json:"policy_version"`
	TTL                  int64          `json:"ttl_ms"`
	Messages             []MACPMessage  `json:"messages"`
	FinalState           string         `json:"expected_final_state"`
	Resolution           map[string]any `json:"expected_resolution"`
	ResolutionPresent    *bool          `json:"expect_resolution_present"`
	ModeState            struct {
		Offers map[string]struct {
			Disposition string `json:"disposition"`
		} `json:"offers"`
	} `json:"expected_mode_state"`
	Policy *struct {
		ID            string          `json:"policy_id"`
		Mode          string          `json:"mode"`
		Description   string          `json:"description"`
		SchemaVersion uint32          `json:"schema_version"`
		Rules         json.RawMessage `json:"rules"`
	} `json:"policy"`
}

// MACPMessage is one message of a fixture.
type MACPMessage struct {
	Sender  string         `json:"sender"`
	Type    string         `json:"message_type"`
	Payload map[string]any `json:"payload"`
	Expect  string         `json:"expect"`
	Code    string         `json:"expected_error_code"`
}

// MACPFixtures reads the fixtures of a folder: handoff_*.json and handoff-cases.json.
func MACPFixtures(folder string) ([]MACPFixture, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "handoff_*.json"))
	if err != nil {
		return nil, err
	}
	var all []MACPFixture
	for _, path := range paths {
		f := MACPFixture{Description: filepath.Base(path)}
		if err := readJSON(path, &f); err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	var cases struct {
		Cases []MACPFixture `json:"cases"`
	}
	err = readJSON(filepath.Join(folder, "handoff-cases.json"), &cases)
	return append(all, cases.Cases...), err
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path) //nolint:gosec // the test names the file
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// Descriptor returns the policy registered by the fixture, or nil.
func (f MACPFixture) Descriptor() *macpv1.PolicyDescriptor {
	if f.Policy == nil {
		return nil
	}
	return &macpv1.PolicyDescriptor{
		PolicyId: f.Policy.ID, Mode: f.Policy.Mode, Description: f.Policy.Description, SchemaVersion: f.Policy.SchemaVersion, Rules: string(f.Policy.Rules),
	}
}

// Start returns the payload that starts the session.
func (f MACPFixture) Start() *macpv1.SessionStartPayload {
	return &macpv1.SessionStartPayload{
		Intent: f.Description, Participants: f.Participants, ModeVersion: f.ModeVersion, ConfigurationVersion: f.ConfigurationVersion,
		PolicyVersion: f.PolicyVersion, TtlMs: f.TTL,
	}
}

// Message returns the payload of a message. Bytes are plain text, and a missing outcome is
// positive.
func (m MACPMessage) Message() (proto.Message, error) { //nolint:ireturn // each type of message has a type of payload
	text := func(name string) string { s, _ := m.Payload[name].(string); return s }
	switch m.Type {
	case macpmode.TypeOffer:
		return &handoffv1.HandoffOfferPayload{HandoffId: text("handoff_id"), TargetParticipant: text("target_participant"), Scope: text("scope"), Reason: text("reason")}, nil
	case macpmode.TypeContext:
		return &handoffv1.HandoffContextPayload{HandoffId: text("handoff_id"), ContentType: text("content_type"), Context: []byte(text("context"))}, nil
	case macpmode.TypeAccept:
		implicit, _ := m.Payload["implicit"].(bool)
		return &handoffv1.HandoffAcceptPayload{HandoffId: text("handoff_id"), AcceptedBy: text("accepted_by"), Reason: text("reason"), Implicit: implicit}, nil
	case macpmode.TypeDecline:
		return &handoffv1.HandoffDeclinePayload{HandoffId: text("handoff_id"), DeclinedBy: text("declined_by"), Reason: text("reason")}, nil
	case macpmode.TypeCommitment:
		positive, said := m.Payload["outcome_positive"].(bool)
		return &macpv1.CommitmentPayload{
			CommitmentId: text("commitment_id"), Action: text("action"), AuthorityScope: text("authority_scope"), Reason: text("reason"),
			ModeVersion: text("mode_version"), PolicyVersion: text("policy_version"), ConfigurationVersion: text("configuration_version"), OutcomePositive: positive || !said,
		}, nil
	}
	return nil, fmt.Errorf("no payload is known for %s", m.Type)
}

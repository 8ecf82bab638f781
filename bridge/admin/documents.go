package admin

import (
	"encoding/json"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

// Moment is a time, in RFC 3339 with milliseconds, in UTC; empty for none.
type Moment time.Time

const momentFormat = "2006-01-02T15:04:05.000Z"

// String returns the moment in RFC 3339; "" for the zero moment.
func (m Moment) String() string {
	if m.IsZero() {
		return ""
	}
	return time.Time(m).UTC().Format(momentFormat)
}

// IsZero reports whether there is no time.
func (m Moment) IsZero() bool { return time.Time(m).IsZero() }

// MarshalJSON implements [json.Marshaler].
func (m Moment) MarshalJSON() ([]byte, error) { return json.Marshal(m.String()) }

// UnmarshalJSON implements [json.Unmarshaler].
func (m *Moment) UnmarshalJSON(text []byte) error {
	var t time.Time
	if string(text) != `""` {
		if err := federation.DecodeJSON(text, &t); err != nil {
			return err
		}
	}
	*m = Moment(t)
	return nil
}

// Page is a part of a list.
type Page[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor"` // The cursor of the next page; empty after the last item.
}

// Act has the members that the body of every change may have. Most changes have no others.
type Act struct {
	Reason string `json:"reason,omitempty"`
	// DryRun requests the same answer without a change.
	DryRun bool `json:"dry_run,omitempty"`
}

// Acted is the number of changed items; with DryRun, of the items that would change.
type Acted struct {
	Changed int  `json:"changed"`
	DryRun  bool `json:"dry_run,omitempty"`
}

// Empty is an answer without members.
type Empty struct{}

// Called is the answer to an operation of a participant.
type Called = participant.Called

// Problem is the reason why a request failed.
type Problem = bridge.ProblemError //nolint:errname // the contract has this name

// Prefix is the path of all routes.
const Prefix = "/operator/v1/"

// MaxLimit is the largest number of items of one page.
const MaxLimit = 500

// Rotation is the body of a request to replace a key.
type Rotation struct {
	Overlap string `json:"overlap,omitempty"` // a duration; how long signatures of the old key stay valid
	Reason  string `json:"reason,omitempty"`
}

// Key is the public part of a key of the gateway.
type Key struct {
	Name       string         `json:"name"`
	PublicKey  string         `json:"public_key,omitempty"` // base64url; empty for a secret
	KeyID      string         `json:"kid"`
	Since      string         `json:"since,omitempty"` // RFC 3339; empty if an external signer has the key
	State      string         `json:"state"`
	Until      string         `json:"until,omitempty"`       // of a rotated key
	DID        federation.DID `json:"did,omitempty"`         // of the server
	DIDKey     federation.DID `json:"did_key,omitempty"`     // of the server
	EndpointID string         `json:"endpoint_id,omitempty"` // of the endpoint
}

// Reloaded lists what a reload of the configuration changed or would change.
type Reloaded struct {
	File    string    `json:"file"`
	Changes []Setting `json:"changes"`
	DryRun  bool      `json:"dry_run,omitempty"`
}

// Setting is one key whose value changed.
type Setting struct {
	Key    string        `json:"key"`
	Before string        `json:"before"`                                  // as TOML; empty if the key was not set
	After  string        `json:"after"`                                   // as TOML; empty if the key is no longer set
	Line   int           `json:"line"`                                    // 0 for a removed key
	Effect SettingEffect `json:"effect" enum:"applied,reconnect,restart"` // applied at once, by connecting the link of the table anew, or by a restart
}

// SettingEffect is the way in which a changed key takes effect.
type SettingEffect string

// The effects of changed keys.
const (
	SettingApplied   SettingEffect = "applied"   // at once
	SettingReconnect SettingEffect = "reconnect" // the link of its table connects anew
	SettingRestart   SettingEffect = "restart"   // with the next start
)

// LevelAsk is the body of a request to set a log level.
type LevelAsk struct {
	Act

	Package string `json:"package,omitempty"` // its folder, such as bridge/irc/freeq; empty for all
	Level   string `json:"level" enum:"debug,info,warn,error"`
}

// LogLevels are the levels of the log.
type LogLevels struct {
	Level    string            `json:"level"` // of all other packages
	Packages map[string]string `json:"packages"`
	DryRun   bool              `json:"dry_run,omitempty"`
}

// Change is an action of an operator.
type Change struct {
	Time    Moment `json:"time"`
	Actor   string `json:"actor"`
	What    string `json:"what"`
	Subject string `json:"subject"`
	Reason  string `json:"reason"`
}

// PeersParameter is the parameter of /readyz that includes the links to other homes.
const PeersParameter = "peers"

// Readiness is the answer of /readyz, a route outside the contract.
type Readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"` // one sentence for each failed part
}

// DiagnosisState is the severity of the result of a check.
type DiagnosisState string

// The states of a [Diagnosis].
const (
	DiagnosisOK   DiagnosisState = "ok"
	DiagnosisWarn DiagnosisState = "warn" // an operator should act at some time
	DiagnosisFail DiagnosisState = "fail" // an operator should act now
)

// Diagnosis is the result of one check of the doctor.
type Diagnosis struct {
	Check  string         `json:"check"`
	State  DiagnosisState `json:"state" enum:"ok,warn,fail"`
	Detail string         `json:"detail"`
	Remedy string         `json:"remedy"` // the remedy; empty if none is needed
}

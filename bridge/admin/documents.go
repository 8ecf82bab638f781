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

// momentFormat is that of every time in an answer.
const momentFormat = "2006-01-02T15:04:05.000Z"

// String returns the moment as it is written; "" for the zero one.
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

// Act is what the body of every change may have, and all that most of them have.
type Act struct {
	Reason string `json:"reason,omitempty"`
	// DryRun asks what would be answered, and changes nothing.
	DryRun bool `json:"dry_run,omitempty"`
}

// Acted is how many things a change was made to, or with DryRun would be.
type Acted struct {
	Changed int  `json:"changed"`
	DryRun  bool `json:"dry_run,omitempty"`
}

// Empty is an answer without members.
type Empty struct{}

// Called is the answer of a participant.
type Called = participant.Called

// Problem is why a request failed.
type Problem = bridge.ProblemError //nolint:errname // the contract has this name

// Prefix is the path of all routes.
const Prefix = "/operator/v1/"

// MaxLimit is the largest number of items of one page.
const MaxLimit = 500

// Rotation asks for another key.
type Rotation struct {
	Overlap string `json:"overlap,omitempty"` // a duration; how long what the old key signed is good
	Reason  string `json:"reason,omitempty"`
}

// Key is the public part of a key of the gateway.
type Key struct {
	Name       string         `json:"name"`
	PublicKey  string         `json:"public_key,omitempty"` // base64url; none of a secret
	KeyID      string         `json:"kid"`
	Since      string         `json:"since,omitempty"` // RFC 3339; empty where a signer keeps the key
	State      string         `json:"state"`
	Until      string         `json:"until,omitempty"`       // of a rotated key
	DID        federation.DID `json:"did,omitempty"`         // of the server
	DIDKey     federation.DID `json:"did_key,omitempty"`     // of the server
	EndpointID string         `json:"endpoint_id,omitempty"` // of the endpoint
}

// Reloaded is what a reload of the configuration changed, or would.
type Reloaded struct {
	File    string    `json:"file"`
	Changes []Setting `json:"changes"`
	DryRun  bool      `json:"dry_run,omitempty"`
}

// Setting is one key whose value changed.
type Setting struct {
	Key    string        `json:"key"`
	Before string        `json:"before"`                                  // as TOML; empty if the key was not set
	After  string        `json:"after"`                                   // as TOML; empty if the key is not set any more
	Line   int           `json:"line"`                                    // 0 for a removed key
	Effect SettingEffect `json:"effect" enum:"applied,reconnect,restart"` // applied at once, by connecting the link of the table anew, or by a restart
}

// SettingEffect says how a changed key takes effect.
type SettingEffect string

// The effects of changed keys.
const (
	SettingApplied   SettingEffect = "applied"   // at once
	SettingReconnect SettingEffect = "reconnect" // the link of its table connects anew
	SettingRestart   SettingEffect = "restart"   // with the next start
)

// LevelAsk asks for a level of the log.
type LevelAsk struct {
	Act

	Package string `json:"package,omitempty"` // its folder, such as bridge/irc/freeq; empty for all
	Level   string `json:"level" enum:"debug,info,warn,error"`
}

// LogLevels are the levels of the log.
type LogLevels struct {
	Level    string            `json:"level"` // of all packages that are not listed
	Packages map[string]string `json:"packages"`
	DryRun   bool              `json:"dry_run,omitempty"`
}

// Change is something that an operator did.
type Change struct {
	Time    Moment `json:"time"`
	Actor   string `json:"actor"`
	What    string `json:"what"`
	Subject string `json:"subject"`
	Reason  string `json:"reason"`
}

// PeersParameter is the parameter of /readyz that asks for the links to other homes too.
const PeersParameter = "peers"

// Readiness is the answer of /readyz, a route outside the contract.
type Readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"` // what does not work, a sentence each
}

// DiagnosisState is how grave the result of a check is.
type DiagnosisState string

// The states of a [Diagnosis].
const (
	DiagnosisOK   DiagnosisState = "ok"
	DiagnosisWarn DiagnosisState = "warn" // for the operators, at some time
	DiagnosisFail DiagnosisState = "fail" // for the operators, now
)

// Diagnosis is the result of one check of the doctor.
type Diagnosis struct {
	Check  string         `json:"check"`
	State  DiagnosisState `json:"state" enum:"ok,warn,fail"`
	Detail string         `json:"detail"`
	Remedy string         `json:"remedy"` // the remedy; empty if none is needed
}

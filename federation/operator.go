package federation

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// BoundName is a name on a network, bound to a DID by an operator.
type BoundName struct {
	Network string
	Name    string // account or agent, in the spelling of the network
	DID     DID
	Vouch   bool      // the gateway may sign steps for the DID
	Since   time.Time // zero if configured
}

// DeliveryState is the state of a delivery to one link.
type DeliveryState string

// The states of a delivery.
const (
	DeliveryWaiting   DeliveryState = "waiting"   // retried, not yet fetched, or without consent
	DeliveryDelivered DeliveryState = "delivered" // final
	DeliveryRefused   DeliveryState = "refused"   // final: the link cannot carry it, see the code
	DeliveryExpired   DeliveryState = "expired"   // final: the handoff ended, or it was not fetched in time
	DeliveryDead      DeliveryState = "dead"      // abandoned, usually with a [DeadLetter]
)

// Delivered is the delivery of a step to a link, or to one agent of the registry.
type Delivered struct {
	Event EventID
	Link  string
	// Queue is the destination if it is a webhook or a held registry, otherwise "".
	Queue       string
	Participant string // handle; DID for [WebhookLink] and [InboxLink]; "" for all of the link
	State       DeliveryState
	Attempt     int
	Next        time.Time // zero for immediately
	Reason      string    // last error, refusal code, or [DeadReason]
	Ended       time.Time // zero while pending
}

// InboxLink is the link name of deliveries to an inbox read here. No link has this name. It is used for
// a DID without another route: no link, home or webhook. For a DID that reads its inbox here, it
// includes steps in channels. In a remote handoff, a gateway delivers only to its own participants.
const InboxLink = "inbox"

// UnroutedLink names the outbox for DIDs whose mailbox home is unknown or no longer a peer.
const UnroutedLink = "homes"

// Backlog is the queue of a link.
type Backlog struct {
	Rows   int
	Oldest time.Time // filing time, or zero
}

// ErrInvalidScope is returned by [ParseScope] for an unknown scope.
var ErrInvalidScope = errors.New("federation: want one of the scopes read, operate, admin")

// Scope is a set of operator rights. Each scope includes the smaller ones.
type Scope string

// The scopes, smallest first.
const (
	ReadScope    Scope = "read"
	OperateScope Scope = "operate" // also change deliveries and links, and send vouched steps
	AdminScope   Scope = "admin"   // also manage keys, tokens, peers and bindings
)

func scopes() []Scope { return []Scope{ReadScope, OperateScope, AdminScope} }

// ParseScope returns [ErrInvalidScope] for an unknown scope.
func ParseScope(text string) (Scope, error) {
	if s := Scope(text); slices.Contains(scopes(), s) {
		return s, nil
	}
	return "", ErrInvalidScope
}

// Covers reports whether s includes the needed scope. The zero Scope covers nothing.
func (s Scope) Covers(needed Scope) bool {
	has := slices.Index(scopes(), s)
	return has >= 0 && has >= slices.Index(scopes(), needed) && slices.Contains(scopes(), needed)
}

// OperatorToken describes an operator's token, whose text is not stored.
type OperatorToken struct {
	Name    string // in the audit log, see [ValidTokenName]
	Scope   Scope
	Digest  [32]byte
	Created time.Time
	Expires time.Time
}

// Good reports whether the token is valid at the given time.
func (t OperatorToken) Good(now time.Time) bool { return now.Before(t.Expires) }

// The prefix is for people and secret scanners.
const (
	tokenPrefix = "baton_op_"
	tokenBytes  = 32
)

const maxTokenNameBytes = 64

// ValidTokenName reports whether a text can name a token: at most 64 letters, digits and ".", "_", "-",
// "@", starting with a letter or digit.
func ValidTokenName(text string) bool {
	plain := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' }
	odd := func(r rune) bool { return !plain(r) && !strings.ContainsRune("._-@", r) }
	return text != "" && len(text) <= maxTokenNameBytes && plain(rune(text[0])) && !strings.ContainsFunc(text, odd)
}

// NewOperatorToken returns a token, and its record without name, scope and times.
func NewOperatorToken(random io.Reader) (text string, kept OperatorToken, err error) {
	secret := make([]byte, tokenBytes)
	if _, err := io.ReadFull(random, secret); err != nil {
		return "", OperatorToken{}, fmt.Errorf("make token: %w", err)
	}
	text = tokenPrefix + base64.RawURLEncoding.EncodeToString(secret)
	return text, OperatorToken{Digest: DigestToken(text)}, nil
}

// DigestToken returns the SHA-256 of a token.
func DigestToken(text string) [32]byte { return sha256.Sum256([]byte(text)) }

// Change is an operator's change.
type Change struct {
	ID      int64 // from 1, in order of recording
	At      time.Time
	Actor   string
	What    string // the command, such as "feed hold"
	Subject string
	Reason  string
}

// ChangeFilter selects changes. A zero field matches all.
type ChangeFilter struct {
	Since time.Time
	Actor string
}

// PeerMode is an operator's setting for a peer or a home.
type PeerMode struct {
	Domain string // or name of a home
	Mode   string // allow, limit, hold or block
	Since  time.Time
}

// Finding is the result of one check for operators.
type Finding struct {
	What   string
	State  FindingState
	Detail string
}

// FindingState is the urgency of a finding.
type FindingState string

// The states.
const (
	FindingOK   FindingState = "ok"
	FindingWarn FindingState = "warn" // action is needed eventually
	FindingFail FindingState = "FAIL" // action is needed now: steps are delayed or could be lost
)

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

// BoundName is an operator's binding of a name on a network to a DID.
type BoundName struct {
	Network string
	Name    string // account or agent, as the network spells it
	DID     DID
	Vouch   bool      // the gateway may sign steps for the DID
	Since   time.Time // zero for a binding in the configuration
}

// DeliveryState is the state of one step's delivery to one link.
type DeliveryState string

// The states of a delivery.
const (
	DeliveryWaiting   DeliveryState = "waiting"   // being retried, not yet fetched, or without consent
	DeliveryDelivered DeliveryState = "delivered" // final: the peer has it
	DeliveryRefused   DeliveryState = "refused"   // final: the link can never carry it; see the code
	DeliveryExpired   DeliveryState = "expired"   // final: the handoff ended, or it was not fetched in time
	DeliveryDead      DeliveryState = "dead"      // abandoned, usually with a [DeadLetter]
)

// Delivered is the delivery of a step to a link, or to one agent of the registry.
type Delivered struct {
	Event EventID
	Link  string
	// Queue names the destination of a pending delivery to a webhook or a held registry, or "".
	Queue       string
	Participant string // handle; DID for [WebhookLink] and [InboxLink]; "" for a link that delivers to all
	State       DeliveryState
	Attempt     int
	Next        time.Time // zero for immediately
	Reason      string    // the last error, the code of a refusal, or the reason of a dead delivery
	Ended       time.Time // zero while it is pending
}

// InboxLink is the link name of deliveries to an inbox read here. No link has this name. A step is
// delivered to the inbox if it has no other route to the DID: no link, no other home, no webhook.
// For a DID that reads its inbox here, this includes steps written in a channel. In a remote
// handoff this gateway delivers only to its own participants.
const InboxLink = "inbox"

// UnroutedLink is the name of the outbox of steps for DIDs whose mailbox home is unknown or no
// longer a peer.
const UnroutedLink = "homes"

// Backlog is the queue of a link.
type Backlog struct {
	Rows   int
	Oldest time.Time // filing time; zero if there is none
}

// ErrInvalidScope is returned by [ParseScope].
var ErrInvalidScope = errors.New("federation: want one of the scopes read, operate, admin")

// Scope is a set of rights of an operator. Each scope includes the smaller ones.
type Scope string

// The scopes, the smallest first.
const (
	ReadScope    Scope = "read"
	OperateScope Scope = "operate" // also changes deliveries and links, and sends vouched steps
	AdminScope   Scope = "admin"   // also keys, tokens, peers, bindings
)

func scopes() []Scope { return []Scope{ReadScope, OperateScope, AdminScope} }

// ParseScope reads a scope. It returns [ErrInvalidScope] for any other word.
func ParseScope(text string) (Scope, error) {
	if s := Scope(text); slices.Contains(scopes(), s) {
		return s, nil
	}
	return "", ErrInvalidScope
}

// Covers reports whether scope s includes the needed scope. The zero Scope covers nothing.
func (s Scope) Covers(needed Scope) bool {
	has := slices.Index(scopes(), s)
	return has >= 0 && has >= slices.Index(scopes(), needed) && slices.Contains(scopes(), needed)
}

// OperatorToken describes the token of an operator. The token itself is returned only at its
// creation, and is not stored.
type OperatorToken struct {
	Name    string // of the bearer, in the audit log; see [ValidTokenName]
	Scope   Scope
	Digest  [32]byte
	Created time.Time
	Expires time.Time
}

// Good reports whether the token is valid at the given time.
func (t OperatorToken) Good(now time.Time) bool { return now.Before(t.Expires) }

// The prefix is for people and secret scanners. A plain digest protects 256 random bits.
const (
	tokenPrefix = "baton_op_"
	tokenBytes  = 32
)

const maxTokenNameBytes = 64

// ValidTokenName reports whether a text can name a token: up to 64 letters, digits and ".", "_",
// "-", "@", beginning with a letter or a digit.
func ValidTokenName(text string) bool {
	plain := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' }
	odd := func(r rune) bool { return !plain(r) && !strings.ContainsRune("._-@", r) }
	return text != "" && len(text) <= maxTokenNameBytes && plain(rune(text[0])) && !strings.ContainsFunc(text, odd)
}

// NewOperatorToken returns the text of a token, and its record without name, scope and times.
func NewOperatorToken(random io.Reader) (text string, kept OperatorToken, err error) {
	secret := make([]byte, tokenBytes)
	if _, err := io.ReadFull(random, secret); err != nil {
		return "", OperatorToken{}, fmt.Errorf("make token: %w", err)
	}
	text = tokenPrefix + base64.RawURLEncoding.EncodeToString(secret)
	return text, OperatorToken{Digest: DigestToken(text)}, nil
}

// DigestToken returns the SHA-256 of a token, its key in the record.
func DigestToken(text string) [32]byte { return sha256.Sum256([]byte(text)) }

// Change is one change by an operator.
type Change struct {
	ID      int64 // in the order of recording, from 1
	At      time.Time
	Actor   string // of the operator, in the audit log
	What    string // the words of the command, such as "feed hold"
	Subject string
	Reason  string
}

// ChangeFilter selects changes. A zero member matches all.
type ChangeFilter struct {
	Since time.Time
	Actor string
}

// PeerMode is an operator's mode for a peer or another home.
type PeerMode struct {
	Domain string // or the name of a home
	Mode   string // allow, limit, hold or block
	Since  time.Time
}

// Finding is the result of one check, as shown to operators.
type Finding struct {
	What   string
	State  FindingState
	Detail string
}

// FindingState is the urgency of a finding.
type FindingState string

// The states, each with the required action.
const (
	FindingOK   FindingState = "ok"
	FindingWarn FindingState = "warn" // the operators must act eventually
	FindingFail FindingState = "FAIL" // needs immediate action: steps are delayed or could be lost
)

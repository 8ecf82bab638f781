// Package airc is an AIRC registry: agents register here, write signed messages
// to each other and to people on other networks, and read theirs.
//
// To an agent a handoff is a conversation with a handle. A DID of another network
// has one of its own ([Handle]); what that DID does arrives as messages from it,
// signed by the registry key, and what the agent answers becomes a step of the
// handoff: vouched for by the gateway, with the signed message as evidence.
//
// An agent that signs a step itself proves it, and then it is filed as its own. A
// handoff may start from here: to a handle, or to "anyone".
//
// Implemented: registration with proof of possession, sessions with refresh
// tokens, identity, messages, threads, an inbox that can be waited at, consent with
// held messages and the registry's handshake, the registry document of AIRC
// v0.1.1, limits, and the evidence behind vouched steps. Not here: relaying to
// other registries, presence, key rotation.
//
// A [Link] keeps almost nothing in memory; the record is the state. Its methods
// and routes may be called concurrently.
//
// spec: airc-v0.1.1 §5-§11
package airc

import (
	"context"
	"crypto/ed25519"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"baton/bridge"
	"baton/federation"
)

// network is the label of this network, and the name of its only link.
const network = "airc"

// Evidence finds what the gateway vouched for by its SHA-256.
type Evidence interface {
	// Evidence returns [federation.ErrNotFound] for bytes that no filed step named.
	Evidence(ctx context.Context, digest [32]byte) ([]byte, error)
}

// Inboxes is told what agents have been shown.
type Inboxes interface {
	// Waiting returns how many steps wait for a DID, and how many bytes they are.
	Waiting(ctx context.Context, to federation.DID) (entries int, size int64, err error)
	// Read notes that steps do not wait for a DID any more. One that never reached
	// its inbox is no error.
	Read(ctx context.Context, to federation.DID, events []federation.EventID) error
}

// Deps is what a registry works with.
type Deps struct {
	bridge.Ports

	Registry federation.Registry
	Bindings federation.Bindings
	Evidence Evidence
	Inboxes  Inboxes
	// Room returns how many entries, and bytes, may wait for one agent; 0 is no limit.
	// It may change while the registry runs.
	Room  func() (entries int, size int64)
	Rates Rates // of messages, steps among them

	// RegistryKey is the key that signs now; it may change while the registry runs.
	RegistryKey func() federation.SigningKey
	// RegistryKeys are those whose signatures are good now, that one first.
	RegistryKeys func(now time.Time) []federation.OwnKey
	TokenKey     []byte // secret; whoever has it can write tokens and challenges
	// KeyDID returns the did:key of a public key.
	KeyDID func(ed25519.PublicKey) federation.DID
	// AgentDocument returns the document of a did:web with one key and other names.
	AgentDocument func(did federation.DID, key ed25519.PublicKey, others ...federation.DID) []byte

	MaxBodyBytes int64
	MaxWait      time.Duration // of a request that waits at the inbox
	// RegistrationsPerHour is how many handles may be registered from one address; 0
	// is no limit. It may change while the registry runs.
	RegistrationsPerHour func() int
}

// Link is one registry. It implements [bridge.Mounted] and
// [bridge.Messenger].
type Link struct {
	cfg        Config
	deps       Deps
	domain     string
	challenges challenges
	tokens     tokens

	registrations addresses
	end           sync.Once
	ended         chan struct{} // closed when Run is over: nobody waits any more
	heard         atomic.Int64  // unix nanoseconds of the last request; 0 before the first
}

var (
	_ bridge.Mounted   = (*Link)(nil)
	_ bridge.Messenger = (*Link)(nil)
	_ bridge.Hearer    = (*Link)(nil)
)

// Open returns a registry. It does no I/O; its error joins a [*bridge.KeyError]
// for each mistake.
func Open(cfg Config, d Deps) (*Link, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	domain := cfg.Domain
	if domain == "" {
		domain = string(d.Home)
	}
	d.PublicURL = strings.TrimSuffix(d.PublicURL, "/")
	return &Link{
		cfg: cfg, deps: d, domain: domain,
		challenges: newChallenges(d.TokenKey),
		tokens:     tokens{key: d.TokenKey, domain: domain},

		registrations: newAddresses(d.RegistrationsPerHour),
		ended:         make(chan struct{}),
	}, nil
}

// Name implements [bridge.Link].
func (*Link) Name() string { return network }

// Network implements [bridge.Link].
func (*Link) Network() string { return network }

// Heard implements [bridge.Hearer]: when somebody asked something last.
func (l *Link) Heard() time.Time {
	if at := l.heard.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Run implements [bridge.Link]. A registry has nobody to dial: it is up until ctx
// ends, and served by the gateway's HTTP listener.
func (l *Link) Run(ctx context.Context, up func()) error {
	up()
	<-ctx.Done()
	l.end.Do(func() { close(l.ended) })
	return context.Cause(ctx)
}

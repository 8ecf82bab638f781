// Package airc is an AIRC registry: agents register here, write signed messages
// to each other and to people on other networks, and read theirs.
//
// To an agent a handoff is a conversation with a handle. A DID of another network
// has one of its own ([Handle]); what that DID does arrives as messages from it,
// signed by the registry key, and what the agent answers becomes a step of the
// handoff: vouched for by the gateway, with the signed message as evidence.
//
// Implemented: registration with proof of possession, identity, messages, inbox,
// consent with held messages and the registry's handshake, the registry document
// of AIRC v0.1.1, and the evidence behind vouched steps. Not here: relaying to
// other registries, presence, threads, key rotation, refresh of tokens. A handoff
// cannot be opened from here: it starts on another network.
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

// Deps is what a registry works with.
type Deps struct {
	bridge.Ports

	Registry federation.Registry
	Bindings federation.Bindings
	Evidence Evidence

	RegistryKey federation.SigningKey
	TokenKey    []byte // secret; whoever has it can write tokens and challenges
	// Kept returns the key that the gateway keeps for an agent, the same one each
	// time.
	Kept func(handle string) federation.SigningKey
	// KeyDID returns the did:key of a public key.
	KeyDID func(ed25519.PublicKey) federation.DID

	PublicURL    string // of this gateway, without a path
	MaxBodyBytes int64
}

// Link is one registry. It implements [bridge.Mounted].
type Link struct {
	cfg        Config
	deps       Deps
	domain     string
	kid        string // of the registry key
	challenges challenges
	tokens     tokens
}

var _ bridge.Mounted = (*Link)(nil)

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
		kid:        keyID("reg_", d.RegistryKey.Public),
		challenges: newChallenges(d.TokenKey),
		tokens:     tokens{key: d.TokenKey, domain: domain},
	}, nil
}

// Name implements [bridge.Link].
func (*Link) Name() string { return network }

// Network implements [bridge.Link].
func (*Link) Network() string { return network }

// Run implements [bridge.Link]. A registry has nobody to dial: it is up until ctx
// ends, and served by the gateway's HTTP listener.
func (*Link) Run(ctx context.Context, up func()) error {
	up()
	<-ctx.Done()
	return context.Cause(ctx)
}

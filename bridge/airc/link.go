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
// Implemented: AIRC v0.1.1, its levels Core and Federation: registration with proof of
// possession, keys that rotate and are revoked, sessions with refresh tokens, identity,
// presence, messages, threads, an inbox that can be waited at, consent with held
// messages and the registry's handshake, limits, and the evidence behind vouched steps.
// Of its optional profiles there are accounts of OpenID Connect and mutual TLS between
// registries, but neither tenants nor DPoP.
//
// Below /api the same registry speaks to clients that are in use today: they have a
// token and sign nothing, or sign what proves nothing. The registry signs for them, and
// says so in the message ("assurance").
//
// # Other registries
//
// "amy@peer.example" is an agent of another registry. What is written to it is queued
// with its message and sent until the other registry has taken it, in order; the sender
// is told when that takes long, and when it was in vain. What comes from there is as
// good as it is sure whom it is of: a relay that its registry signed may be any step,
// one that nobody signed is a message at most, under a name of its own that begins with
// "?", and waits until its recipient lets it through. Each of two gateways is the home
// of its own side of a handoff; the ids of messages connect them.
//
// A signed relay counts in the rate of its registry once its signature is verified, an
// unsigned one in the rate of the address that sent it. In open federation the registries
// that no operator named share the rate of their address too, and an unsigned relay is held only if the registry that it names says that it has the sender. A relay
// whose envelope names another recipient is refused, and so is a relay with the id of
// another message.
//
// GET /federation/identity and /federation/presence ask other registries at the endpoints
// that they publish, and pass on only the members that this package reads.
//
// # Webhooks
//
// An agent that names "webhook" among its ways of delivery, and an address, has its
// messages posted there; what is taken was handed out as if it had been fetched.
//
// # State
//
// A [Link] keeps in memory only who is here, what it last read of other registries, and
// for whom there surely is room; the record is the state. Its methods and routes may be
// called concurrently.
//
// On delivery a message is given seq, beside what was signed: whoever verifies one
// drops signature and seq first.
//
// spec: airc-v0.1.1 §5-§11
package airc

import (
	"context"
	"strings"
	"sync"
	"time"

	"baton/bridge"
	"baton/bridge/credential"
)

// network is the label of this network, and the name of its only link.
const network = "airc"

// Deps is what a registry works with.
type Deps struct {
	bridge.Ports

	Registry  Registry
	Identity  Identity
	Operators Operators
	Quotas    Quotas
	Rates     Rates // of messages, steps among them
	Strangers Strangers
	Callers   Callers
	Hooks     bridge.Webhooks // posts to addresses of agents; nil where there are none
	Fetch     Fetcher         // from other registries; nil where messages are exchanged with none
	Issuer    Getter          // reads from the issuer of accounts; used where the configuration names one
	TokenKey  []byte          // secret; its holder can write tokens and challenges

	// RunExclusive calls a function while this replica of the home has the lease of the
	// registry, until ctx ends; nil where there is one replica.
	RunExclusive func(ctx context.Context, do func(context.Context))

	// Logins counts the attempts of each address to log in, at all listeners.
	Logins credential.Addresses
	// Writes counts the steps and messages of each address, at all listeners. The gateway
	// counts the steps in it.
	Writes credential.Addresses
}

// Link is one registry. It implements [bridge.Mounted] and
// [bridge.Recorder].
type Link struct {
	bridge.Hearing

	cfg        Config
	deps       Deps
	domain     string
	mint       string // the operator's credential; empty for none
	challenges credential.Challenges
	tokens     *credential.Tokens

	registrations credential.Addresses
	presences     presences
	nonces        nonces
	peers         peers
	unproven      unproven
	found         found
	grants        grants
	accounts      accounts
	end           sync.Once
	ended         chan struct{} // closed when Run is over: nobody waits any more
}

var (
	_ bridge.Mounted  = (*Link)(nil)
	_ bridge.Recorder = (*Link)(nil)
	_ bridge.Hearer   = (*Link)(nil)
	_ bridge.Peered   = (*Link)(nil)

	_ bridge.Authenticator = (*Link)(nil)
	_ bridge.Registrar     = (*Link)(nil)
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
	mint, err := readMint(cfg, d)
	if err != nil {
		return nil, err
	}
	return &Link{
		mint: mint,
		cfg:  cfg, deps: d, domain: domain,
		challenges: credential.NewChallenges(d.TokenKey, network),
		tokens:     newTokens(d.TokenKey, domain),

		registrations: credential.NewAddresses(func() int { return d.Quotas.RegistrationsPerHour() }, time.Hour),
		presences:     newPresences(),
		nonces:        newNonces(),
		peers:         newPeers(),
		unproven:      newUnproven(),
		found:         newFound(),
		grants:        newGrants(),
		accounts:      newAccounts(cfg.OIDC, d.Issuer),
		ended:         make(chan struct{}),
	}, nil
}

// readMint reads the operator's credential, where the configuration names one.
func readMint(cfg Config, d Deps) (string, error) {
	if cfg.MintTokenFile == "" {
		return "", nil
	}
	mint, err := d.Secrets.Secret(cfg.MintTokenFile)
	if err != nil {
		return "", &bridge.KeyError{Key: "mint_token_file", Why: err.Error()}
	}
	return mint, nil
}

// Domain implements [bridge.Registrar].
func (l *Link) Domain() string { return l.domain }

// Name implements [bridge.Link].
func (*Link) Name() string { return network }

// Network implements [bridge.Link].
func (*Link) Network() string { return network }

// Run implements [bridge.Link]. A registry has nobody to dial: it is up until ctx
// ends, and served by the gateway's HTTP listener. While it runs it sends what is owed
// to other registries.
func (l *Link) Run(ctx context.Context, up func()) error {
	up()
	if l.cfg.Federation != FederationOff && l.deps.Fetch != nil {
		if l.deps.RunExclusive != nil {
			l.deps.RunExclusive(ctx, l.couriers)
		} else {
			l.couriers(ctx)
		}
	}
	<-ctx.Done()
	l.end.Do(func() { close(l.ended) })
	return context.Cause(ctx)
}

package server

import (
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/routing"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// OperatorLink is the link name of operators' steps.
const OperatorLink = "operator"

// Config is the part of the configuration that may change while a gateway runs.
type Config struct {
	Home      *home.Home // judges all later steps; [Gateway.Configure] sets its Deferral
	Retention Retention
}

// Deps has the parts of a [Gateway].
type Deps struct {
	Record registry.Bound
	Links  *LinkSet
	// Locator finds mailboxes, here and at the homes of Links.
	Locator *routing.Locator
	Clock   *Clock // time by which rows expire; nil for the wall clock

	Keys      *KeyLookups
	Addresses credential.Addresses // counts the steps of each client address
	DIDs      *home.Rates
	Strangers *home.Strangers
	Owners    routing.Owners
	// Kept returns the gateway's key for the name of a participant.
	Kept func(name string) federation.SigningKey
	// PublicURL is the base address of the originals of messages.
	PublicURL string
	PubSub    bridge.PubSub
	// Publish sends a message about a topic to all replicas of the home; nil if there is only one.
	Publish func(topic string, message []byte)
	Metrics *bridge.Metrics
	Tracer  bridge.Tracer // nil records no traces
	Log     *slog.Logger
}

// Gateway is a running gateway.
type Gateway struct {
	deps         Deps
	participants participants
	links        *LinkSet
	deferral     *home.Deferral
	home         atomic.Pointer[home.Home]
	retention    atomic.Pointer[Retention]
	senders      Senders
	growth       *growthWatch
	full         fullQueues
	typed        typed
	replica      string // distinguishes this process from the other replicas of the home

	// settling is held while steps waiting for other homes are settled, to notify each sender once.
	settling sync.Mutex
	refusals refusals

	blocks   atomic.Pointer[federation.Blocks] // nil if there are no blocks
	blocking sync.Mutex
	blocked  []federation.Block // as last read; guarded by blocking
}

var _ bridge.Gateway = (*Gateway)(nil)

// NewGateway returns a gateway. Call [Gateway.Configure] before anything else.
func NewGateway(deps Deps) *Gateway {
	g := &Gateway{deps: deps, participants: participants{deps.Record}, links: deps.Links, growth: newGrowthWatch(), replica: rand.Text()}
	g.typed.ids.Most = maxTyped
	g.deferral = home.NewDeferral(home.DeferralConfig{
		Record: deps.Record, Seek: g.seekKey, Blocked: g.refuseBlocked, Ended: g.deferralEnded, Confirmed: deps.Clock.Now,
	})
	g.Configure(Config{Home: &home.Home{}})
	return g
}

// Configure replaces the configuration.
func (g *Gateway) Configure(cfg Config) {
	cfg.Home.Deferral = g.deferral
	g.home.Store(cfg.Home)
	g.retention.Store(&cfg.Retention)
}

// Home returns the current home.
func (g *Gateway) Home() *home.Home { return g.home.Load() }

// Links returns the running links.
func (g *Gateway) Links() *LinkSet { return g.links }

// TopSenders returns up to limit senders of a kind, [ByDID], [ByAddress] or [ByLink], with the most
// steps. It counts the steps within the given duration before now, at most an hour.
func (g *Gateway) TopSenders(by string, since time.Duration, limit int, now time.Time) []Sender {
	return g.senders.Top(by, since, limit, now)
}

// Learned re-judges the deferred steps of a DID after one of its keys was found.
func (g *Gateway) Learned(did federation.DID) { g.deferral.Learned(did) }

package server

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/a2a"
	"github.com/baton-gateway/baton/bridge/agents/a2a/a2aclient"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/agents/rest"
	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/files"
	"github.com/baton-gateway/baton/bridge/httpd"
	ircclient "github.com/baton-gateway/baton/bridge/irc/client"
	"github.com/baton-gateway/baton/bridge/irc/freeq"
	"github.com/baton-gateway/baton/bridge/macp"
	"github.com/baton-gateway/baton/bridge/webhook"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/routing"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/translate/dialect"
)

func (s *Server) limit(file *configs.File) {
	s.limited = file
	s.limits.Store(&file.Limits)
	keep := file.Retention
	s.Gateway.Configure(Config{Home: s.newHome(file), Retention: Retention{
		Messages: keep.Messages, Chat: keep.Chat, Undelivered: keep.Undelivered, Finished: keep.Finished, AIRCMessages: keep.AIRCMessages, IDs: keep.IDs, Dead: keep.Dead,
	}})
	s.firstContacts.Store(&federation.InboxLimits{Events: file.Limits.FirstContacts, EventsPerSender: file.Limits.FirstContactsPerSender})
	s.contextsOfDID.Store(file.Limits.ContextBytesPerDID)
	s.maxHops.Store(int64(file.Limits.MaxHops))
	s.finished.Store(int64(file.Retention.Finished))
	contextBytes := file.Limits.ContextBytes
	if contextBytes == 0 || contextBytes > federation.MaxBlobBytes {
		contextBytes = federation.MaxBlobBytes
	}
	s.linkLimits.Set(bridge.Limits{
		UserEventsPerMinute: file.Limits.UserEventsPerMinute, LinkEventsPerSecond: file.Limits.LinkEventsPerSecond,
		ContextBytes: contextBytes, MaxDeadline: file.Limits.MaxDeadline,
		ConnectionsPerAddress: file.Limits.ConnectionsPerAddress, UnregisteredConnections: file.Limits.UnregisteredConnections,
	})
}

func (s *Server) owners() routing.Owners {
	return routing.Owners{Record: s.Record, Kept: s.keyring.Kept, DIDKey: func(did federation.DID) (ed25519.PublicKey, error) {
		return s.directory.Load().DIDKey(did)
	}}
}

func (s *Server) newGateway() *Gateway {
	links := NewLinkSet(LinkDeps{
		Outbox: s.Record.Rows(), RunExclusive: s.Record.RunExclusive, PubSub: s.relay, Metrics: s.counters, Tracer: s.tracer(), Log: s.log, Lost: s.keyLookups.Cancel,
	})
	s.locator = routing.New(routing.Config{
		Home: s.homeID(), Record: s.bound(), Owners: s.owners(), Outboxes: s.Record, Peers: HomeLinks{Links: links},
		Documents: identity.MailboxDocuments{Directory: s.directory.Load, Client: s.client}, LoggedInto: links.loggedInto, Routed: links.Routed, Log: s.log,
	})
	var publish func(topic string, message []byte)
	if shared(s.file) {
		publish = s.relay.Publish
	}
	return NewGateway(Deps{
		Publish: publish,
		Record:  s.bound(), Links: links, Locator: s.locator, Clock: s.clock, PublicURL: strings.TrimSuffix(s.publicURL, "/"),
		Keys: &s.keyLookups, Addresses: s.writes, DIDs: s.rates, Strangers: s.strangers,
		Owners: s.owners(), Kept: s.keyring.Kept, PubSub: s.relay, Metrics: s.counters, Tracer: s.tracer(), Log: s.log,
	})
}

func (s *Server) configure(file *configs.File, links []Entry) {
	bound := boundNames(file, namesOf(links))
	for _, o := range links {
		if o.Link.Network() == a2aclient.Label {
			bound = append(bound, a2aclient.BoundName(s.homeID(), o.Link.Name()))
		}
	}
	s.configured.Store(&bound)
}

func (s *Server) names() registry.BoundNames {
	return registry.BoundNames{Record: s.Record, Configured: func() []federation.BoundName { return *s.configured.Load() }}
}

func (s *Server) bindings() Bindings {
	return Bindings{BoundNames: s.names(), agents: s.bound()}
}

func (s *Server) bound() registry.Bound {
	return registry.Bound{Record: s.Record, Names: s.names(), Forget: s.forgetKeys}
}

func (s *Server) forgetKeys(did federation.DID) {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.keys.Load().Forget(did)
}

func (s *Server) homeID() federation.HomeID { return federation.HomeID(s.file.Home.Name) }

func (s *Server) serverKey() federation.SigningKey { return s.keyring.Server(s.homeID()) }

const tagPrefix = "+freeq.at/"

func (s *Server) newHome(file *configs.File) *home.Home {
	return &home.Home{
		Rules: homeRules(s.homeID(), file, s.directory.Load().CheckDID), Key: s.serverKey(), Record: homeRecord{s.Record, s.names(), s.Gateway.Links(), s.traces}, Entropy: rand.Reader,
		Keys:  s.keyLookups.atHand.Load(),
		Route: s.Gateway.Route, Declared: s.bound().Declared, Same: s.Gateway.Same, Owner: s.Gateway.Owner, Member: s.Gateway.Member, Rates: s.rates,
		IsAgent:   s.bound().DeclaresItself,
		Strangers: s.strangers,
		Write:     dialect.Write, Read: dialect.Read,
	}
}

func homeRules(id federation.HomeID, file *configs.File, check func(federation.DID) error) home.Rules {
	return home.Rules{
		ID: id, Kinds: lifecycle.Shipped(), TagPrefix: tagPrefix, Policy: homePolicy(file, nil), CheckDID: check,
		Limits: home.Limits{
			ClockSkew: file.Limits.ClockSkew, MaxDeadline: file.Limits.MaxDeadline,
			EventsPerMinute: file.Limits.DIDEventsPerMinute, OpenHandoffs: file.Limits.OpenHandoffsPerDID,
			Inbox: federation.InboxLimits{
				Events: file.Limits.InboxEvents, EventsPerSender: file.Limits.InboxEventsPerSender,
				Bytes: file.Limits.InboxBytes, BytesPerSender: file.Limits.InboxBytesPerSender,
			},
			Strangers: home.StrangerLimits{
				DIDs: file.Limits.NewDIDsPerHour, PerAddress: file.Limits.NewDIDsPerAddressPerHour, RecordBytes: file.Limits.RecordBytesPerHour,
			},
			Deferred: federation.DeferralLimits{
				PerUser: (file.Limits.DeferredPerOrigin + 3) / 4, PerOrigin: file.Limits.DeferredPerOrigin, Total: file.Limits.DeferredTotal,
			},
			Unanswered: file.Retention.Unanswered, Abandoned: file.Retention.Abandoned, ClaimCaps: file.Policy.ClaimCaps,
		},
	}
}

// Wiring has the parts of a server for opening links. The zero value suffices to check a
// configuration.
type Wiring struct {
	Version      string
	Ports        bridge.Ports
	Record       *registry.Record
	Freeq        freeq.Deps
	Endpoint     func() (key federation.SigningKey, seed string, err error) // nil for a check
	Clients      ircclient.Deps
	Registry     airc.Deps
	Agents       rest.Deps
	A2A          a2a.Deps
	Participants participant.Deps
	MACP         macp.Deps
	Files        files.Deps
	A2AAgents    a2aclient.Deps

	homes *homes // nil for a check
	// mode returns the mode of another home set by an operator, or "".
	mode func(domain string) string
}

// Wiring returns the parts of the server for opening its links.
func (s *Server) Wiring() Wiring {
	record := s.bound()
	keys := identity.CurrentKeys{Source: s.keys.Load, Logins: s.proofs, Proven: func(ctx context.Context, did federation.DID) {
		s.locator.LearnFromLogin(ctx, did, time.Now()) // a proved DID has its mailbox here
	}, Refused: func(ctx context.Context, did federation.DID, why error) {
		s.log.LogAttrs(ctx, slog.LevelInfo, "login refused", slog.String("did", string(did)), slog.Any("err", why))
	}}
	names := sync.OnceValue(func() *participant.Service { return s.openAccess("irc") })
	return Wiring{
		Version: s.options.Version,
		Ports: bridge.Ports{
			PublicURL: strings.TrimSuffix(s.publicURL, "/"), Certificate: s.certificate, Metrics: s.counters, Log: s.log, Gateway: s.Gateway, Signer: s.homeKeys(),
			Bindings: s.bindings(), Evidence: s.contexts(s.Gateway.Admit), Keys: keys, Blocks: s.Gateway, Limits: &s.linkLimits, PubSub: s.relay, Presence: s.Gateway, Messages: s.Gateway,
			Resolve: func(ctx context.Context, text string) (bridge.Recipient, error) {
				to, _, err := names().Recipient(ctx, text)
				return to, err
			},
		},
		Record: s.Record, homes: s.homes, mode: s.modes.Mode,
		Freeq:    freeq.Deps{Record: s.Record, Given: s.Record.ListCompleted, Rulings: s.Gateway, Fetch: s.registryClient.Get},
		Endpoint: func() (federation.SigningKey, string, error) { return identity.OpenEndpoint(KeyFolder(s.file).Dir) },
		Clients:  s.clientDeps(),
		Registry: s.registryDeps(record), Agents: s.agentsDeps(record), Participants: s.participantDeps(record), A2A: s.a2aDeps(record),
		MACP:      s.macpDeps(record),
		A2AAgents: a2aclient.Deps{Journals: record.Journals, Record: record, Transport: s.agentTransport, Hub: &s.a2aHub},
		Files:     files.Deps{Record: record, ChannelLinks: s.Gateway.Links().ChannelLinks, Path: s.file.Path, Hub: &s.voiceHub},
	}
}

func (s *Server) clientDeps() ircclient.Deps {
	return ircclient.Deps{
		Record: s.Record, TokenKey: s.keyring.Token(), Logins: s.logins, MaxClients: httpd.OpenFiles() / ircShare,
		Enrolments: s.enrolments, Meet: s.admitNew,
	}
}

func (s *Server) homeKeys() identity.HomeKeys {
	return identity.HomeKeys{Keyring: s.keyring, Home: s.homeID()}
}

const publicListener = "http"

func (s *Server) httpLimits() *httpd.Limits {
	most := httpd.OpenFiles()
	return &httpd.Limits{
		Connections: func() int { return atMost(s.limits.Load().HTTPConnections, most/httpShare) },
		PerAddress:  func() int { return s.limits.Load().HTTPConnectionsPerAddress },
		Network:     bridge.Subnet,
		Queue:       func() httpd.Queue { return bridge.NewEvictionQueue[net.Conn]() },
		Closed:      func(why httpd.Reason) { s.counters.Closed.WithLabelValues(publicListener, string(why)).Inc() },
		Refused:     func() { s.counters.Limited.WithLabelValues("rest").Inc() },
	}
}

// Shares of the open files: half for HTTP, and a quarter for IRC clients. The last quarter is for
// the record, links and outgoing requests.
const (
	httpShare = 2
	ircShare  = 4
)

// atMost returns a limit capped at most. For both, 0 means no limit.
func atMost(limit, most int) int {
	if limit == 0 || most > 0 && limit > most {
		return most
	}
	return limit
}

// contexts returns the store of the contexts and the evidence of steps. It calls admit, if not nil,
// before it stores an uploaded context.
func (s *Server) contexts(admit func(ctx context.Context, owner federation.DID, now time.Time) error) bridge.Contexts {
	return bridge.Contexts{
		Blobs: s.Record, Originals: s.Record, Admit: admit, PublicURL: strings.TrimSuffix(s.publicURL, "/"), Log: s.log,
		Limits: func() (one, ofDID int64) { return s.linkLimits.Current().ContextBytes, s.contextsOfDID.Load() },
	}
}

func (s *Server) agentTransport(allowPrivate bool) *http.Transport {
	if allowPrivate {
		return s.privateAgents
	}
	return s.publicAgents
}

func (s *Server) macpDeps(record registry.Bound) macp.Deps {
	return macp.Deps{Journals: record.Journals, Steps: record, Version: s.options.Version, Bounds: func() macp.Bounds {
		return macp.Bounds{Finished: time.Duration(s.finished.Load()), ClockSkew: s.limits.Load().ClockSkew}
	}}
}

func (s *Server) newHooks() *webhook.Hooks {
	if !s.file.Webhooks.Enabled {
		return nil
	}
	return webhook.New(webhook.Config{
		MaxPerDID: s.file.Webhooks.MaxPerDID, MaxAttempts: s.file.Webhooks.MaxAttempts, Timeout: s.file.Fetch.Timeout,
	}, webhook.Deps{
		Record: s.Record, Outside: s.client, Key: s.keyring.Token(), Pusher: s.Gateway.Links().Pusher,
		PubSub: s.relay, Metrics: s.counters, Log: s.log,
	})
}

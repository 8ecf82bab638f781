package server

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"baton/bridge"
	"baton/bridge/a2a"
	"baton/bridge/agentapi"
	"baton/bridge/airc"
	"baton/bridge/files"
	"baton/bridge/httpd"
	"baton/bridge/irc"
	ircclient "baton/bridge/irc/client"
	"baton/bridge/irc/freeq"
	"baton/bridge/macp"
	"baton/bridge/participant"
	"baton/configs"
	"baton/federation"
	"baton/federation/home"
	"baton/federation/identity"
	"baton/federation/lifecycle"
	"baton/federation/mailbox"
	"baton/federation/store/registry"
	"baton/translate/dialect"
)

// limit applies the limits of a configuration.
func (p *Server) limit(file *configs.File) {
	p.limited = file
	p.limits.Store(&file.Limits)
	p.Gateway.Configure(p.gatewayConfig(file))
	p.registrations.Store(int64(file.Limits.RegistrationsPerHour))
	p.firstContacts.Store(&federation.InboxLimits{Events: file.Limits.FirstContacts, EventsPerSender: file.Limits.FirstContactsPerSender})
	p.contextsOfDID.Store(file.Limits.ContextBytesPerDID)
	p.maxHops.Store(int64(file.Limits.MaxHops))
	p.finished.Store(int64(file.Retention.Finished))
	p.linkLimits.Set(bridge.Limits{
		UserEventsPerMinute: file.Limits.UserEventsPerMinute, LinkEventsPerSecond: file.Limits.LinkEventsPerSecond,
		ContextBytes: orMost(file.Limits.ContextBytes), MaxDeadline: file.Limits.MaxDeadline,
		ConnectionsPerAddress: file.Limits.ConnectionsPerAddress, UnregisteredConnections: file.Limits.UnregisteredConnections,
	})
}

// owners resolves the DIDs of the keys kept by the gateway.
func (p *Server) owners() mailbox.Owners {
	return mailbox.Owners{Record: p.Record, Kept: p.keyring.Kept, DIDKey: identity.ParseKeyDID}
}

// newGateway returns the gateway on the record and the relay of the server.
func (p *Server) newGateway() *Gateway {
	return New(Deps{
		Handoffs: p.Record, Participants: Agents{AgentRecord: p.bound()}, Names: p.names(), Sessions: p.Record, Notices: p.Record, Deliveries: p.Record, Deferred: p.Record,
		Outbox: p.Record, DeadLetters: p.Record, Blocks: p.Record, Erasures: p.Record, Pruner: p.Record, Growth: p.Record, Counts: p.Record, Leases: p.Record, Clock: p.clock, Messages: p.Record, PublicURL: strings.TrimSuffix(p.publicURL, "/"),
		Keys: keyFetcher{p}, Addresses: p.writes, DIDs: p.rates, Strangers: p.strangers, Homes: recipients{p}, Rerouter: recipients{p}, Mailboxes: recipients{p},
		Owners: p.owners(),
		Kept:   p.keyring.Kept, Wakes: p.relay, Metrics: p.counters, Tracer: p.tracer(), Log: p.log,
	})
}

// gatewayConfig returns what the gateway takes from a configuration.
func (p *Server) gatewayConfig(file *configs.File) Config {
	return Config{
		Home: p.newHome(file),
		Retention: Retention{
			Messages: file.Retention.Messages, Undelivered: file.Retention.Undelivered, Finished: file.Retention.Finished, AIRCMessages: file.Retention.AIRCMessages,
			IDs: file.Retention.IDs, Dead: file.Retention.Dead,
		},
		Deferred: federation.DeferralLimits{
			PerUser: (file.Limits.DeferredPerOrigin + 3) / 4, PerOrigin: file.Limits.DeferredPerOrigin, Total: file.Limits.DeferredTotal,
		},
	}
}

// strangerLimits returns what holds for DIDs that the record has not known for long.
func strangerLimits(file *configs.File) home.StrangerLimits {
	return home.StrangerLimits{
		DIDs: file.Limits.NewDIDsPerHour, PerAddress: file.Limits.NewDIDsPerAddressPerHour, RecordBytes: file.Limits.RecordBytesPerHour,
	}
}

// inboxLimits returns what may wait in one inbox.
func inboxLimits(file *configs.File) federation.InboxLimits {
	return federation.InboxLimits{
		Events: file.Limits.InboxEvents, EventsPerSender: file.Limits.InboxEventsPerSender,
		Bytes: file.Limits.InboxBytes, BytesPerSender: file.Limits.InboxBytesPerSender,
	}
}

// configure applies the bindings of a configuration.
func (p *Server) configure(file *configs.File, links []Entry) {
	bound := boundNames(file, namesOf(links))
	p.configured.Store(&bound)
}

// names returns the DIDs that names stand for.
func (p *Server) names() BoundNames {
	return BoundNames{Record: p.Record, Configured: func() []federation.BoundName { return *p.configured.Load() }}
}

// bindings returns the names of DIDs.
func (p *Server) bindings() Bindings {
	return Bindings{BoundNames: p.names(), Signers: p.Record, Agents: p.bound()}
}

// boundRecord is the record with the names that stand for DIDs.
type boundRecord = registry.Bound

// bound returns the record with the names that stand for DIDs.
func (p *Server) bound() boundRecord {
	return boundRecord{Record: p.Record, Names: p.names(), Forget: p.forgetKeys}
}

// forgetKeys has the keys of a DID read again.
func (p *Server) forgetKeys(did federation.DID) {
	p.changing.Lock()
	defer p.changing.Unlock()
	p.keys.Load().Forget(did)
}

func (p *Server) homeID() federation.HomeID { return federation.HomeID(p.file.Home.Name) }

func (p *Server) serverKey() federation.SigningKey { return p.keyring.Server(p.homeID()) }

// tagPrefix precedes the names of tags on every network that has them.
const tagPrefix = "+freeq.at/"

func (p *Server) newHome(file *configs.File) *home.Home {
	return &home.Home{
		Rules: homeRules(p.homeID(), file), Key: p.serverKey(), Snapshots: p.Record, Log: p.homeLog(), Overdue: p.Record, Rulings: p.Record, Entropy: rand.Reader,
		Keys:   p.atHand.Load(),
		Routes: p.Gateway.Links(), Caps: Capabilities{Record: p.bound()}, Offers: p.Record, Same: p.Gateway.Same, Owner: p.Gateway.Owner, Member: p.Gateway.Member, Rates: p.rates,
		Strangers: p.strangers, Acquaintances: Acquaintances{Record: p.Record, Names: p.names()},
		Write: dialect.Write, Read: dialect.Read,
	}
}

// homeRules returns what the home judges by.
func homeRules(id federation.HomeID, file *configs.File) home.Rules {
	return home.Rules{
		ID: id, Kinds: lifecycle.Shipped(), TagPrefix: tagPrefix, Policy: homePolicy(file, nil), CheckDID: identity.CheckDID,
		Limits: home.Limits{
			ClockSkew: file.Limits.ClockSkew, MaxDeadline: file.Limits.MaxDeadline,
			EventsPerMinute: file.Limits.DIDEventsPerMinute, OpenHandoffs: file.Limits.OpenHandoffsPerDID,
			Inbox: inboxLimits(file), Strangers: strangerLimits(file),
			Unanswered: file.Retention.Unanswered, Abandoned: file.Retention.Abandoned, ClaimCaps: file.Policy.ClaimCaps,
		},
	}
}

// Wiring has the parts of a server for opening links. The zero value suffices to check a configuration.
type Wiring struct {
	Version  string // of the program
	Ports    bridge.Ports
	Handoffs irc.Handoffs
	Freeq    freeq.Deps
	Endpoint func() (key federation.SigningKey, seed string, err error) // nil for a check
	Clients  ircclient.Deps
	Registry airc.Deps
	Agents   agentapi.Deps
	A2A      a2a.Deps
	// Participants is for the other networks of agents.
	Participants participant.Deps
	MACP         macp.Deps
	Files        files.Deps

	homes *homes // nil for a check
	// mode returns the mode that an operator set for another home, "" for none.
	mode func(domain string) string
}

// Wiring returns the parts of the server for opening its links.
func (p *Server) Wiring() Wiring {
	record := p.bound()
	return Wiring{
		Version: p.options.Version,
		Ports: bridge.Ports{
			PublicURL: strings.TrimSuffix(p.publicURL, "/"), Metrics: p.counters, Log: p.log, Gateway: p.Gateway, Signer: p.homeKeys(),
			Bindings: p.bindings(), Evidence: p.contexts(p.Gateway.Admit), Keys: p.currentKeys(), Blocks: p.Gateway, Limits: &p.linkLimits, Wakes: p.relay, Presence: p.Gateway, Messages: p.Gateway,
		},
		Handoffs: record, homes: p.homes, mode: p.modes.Mode,
		Freeq:    freeq.Deps{Record: record, Rulings: p.Gateway, Fetch: registries{p.peering}.Get},
		Endpoint: func() (federation.SigningKey, string, error) { return identity.OpenEndpoint(KeyFolder(p.file).Dir) },
		Clients:  ircclient.Deps{Record: record, Logins: p.logins, MaxClients: httpd.OpenFiles() / ircShare},
		Registry: p.registryDeps(record), Agents: p.agentsDeps(record), Participants: p.participantDeps(record), A2A: p.a2aDeps(record),
		MACP:  p.macpDeps(record),
		Files: files.Deps{Record: record, Placers: p.Gateway.Links().Placers, Path: p.file.Path, Hub: &p.voiceHub},
	}
}

// currentKeys returns the keys of DIDs. A DID that proved itself has its mailbox here.
func (p *Server) currentKeys() identity.CurrentKeys {
	return identity.CurrentKeys{Source: p.keys.Load, Logins: &p.proofs, Proven: func(ctx context.Context, did federation.DID) {
		p.homes.locator.LearnFromLogin(ctx, did, time.Now())
	}}
}

// homeKeys returns the keys with which the home signs.
func (p *Server) homeKeys() identity.HomeKeys {
	return identity.HomeKeys{Keyring: p.keyring, Home: p.homeID(), PublicURL: p.publicURL}
}

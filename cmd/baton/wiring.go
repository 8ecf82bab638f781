package main

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
	"baton/bridge/server"
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
func (p *program) limit(file *configs.File) {
	p.limited = file
	p.limits.Store(&file.Limits)
	p.gateway.Configure(p.gatewayConfig(file))
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
func (p *program) owners() mailbox.Owners {
	return mailbox.Owners{Record: p.record, Kept: p.keyring.Kept, DIDKey: identity.ParseKeyDID}
}

// newGateway returns the gateway on the record and the relay of the program.
func (p *program) newGateway() *server.Gateway {
	return server.New(server.Deps{
		Handoffs: p.record, Participants: server.Agents{AgentRecord: p.bound()}, Names: p.names(), Sessions: p.record, Notices: p.record, Deliveries: p.record, Deferred: p.record,
		Outbox: p.record, DeadLetters: p.record, Blocks: p.record, Erasures: p.record, Pruner: p.record, Growth: p.record, Counts: p.record, Leases: p.record, Clock: p.clock, Messages: p.record, PublicURL: strings.TrimSuffix(p.publicURL, "/"),
		Keys: keyFetcher{p}, Addresses: p.writes, DIDs: p.rates, Strangers: p.strangers, Homes: recipients{p}, Rerouter: recipients{p}, Mailboxes: recipients{p},
		Owners: p.owners(),
		Kept:   p.keyring.Kept, Wakes: p.relay, Metrics: p.counters, Tracer: p.tracer(), Log: p.log,
	})
}

// gatewayConfig returns what the gateway takes from a configuration.
func (p *program) gatewayConfig(file *configs.File) server.Config {
	return server.Config{
		Home: p.newHome(file),
		Retention: server.Retention{
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
func (p *program) configure(file *configs.File, links []server.Entry) {
	bound := boundNames(file, namesOf(links))
	p.configured.Store(&bound)
}

// names returns the DIDs that names stand for.
func (p *program) names() server.BoundNames {
	return server.BoundNames{Record: p.record, Configured: func() []federation.BoundName { return *p.configured.Load() }}
}

// bindings returns the names of DIDs.
func (p *program) bindings() server.Bindings {
	return server.Bindings{BoundNames: p.names(), Signers: p.record, Agents: p.bound()}
}

// boundRecord is the record with the names that stand for DIDs.
type boundRecord = registry.Bound

// bound returns the record with the names that stand for DIDs.
func (p *program) bound() boundRecord {
	return boundRecord{Record: p.record, Names: p.names(), Forget: p.forgetKeys}
}

// forgetKeys has the keys of a DID read again.
func (p *program) forgetKeys(did federation.DID) {
	p.changing.Lock()
	defer p.changing.Unlock()
	p.keys.Load().Forget(did)
}

func (p *program) homeID() federation.HomeID { return federation.HomeID(p.file.Home.Name) }

func (p *program) serverKey() federation.SigningKey { return p.keyring.Server(p.homeID()) }

// tagPrefix precedes the names of tags on every network that has them.
const tagPrefix = "+freeq.at/"

func (p *program) newHome(file *configs.File) *home.Home {
	return &home.Home{
		Rules: homeRules(p.homeID(), file), Key: p.serverKey(), Snapshots: p.record, Log: p.homeLog(), Overdue: p.record, Rulings: p.record, Entropy: rand.Reader,
		Keys:   p.atHand.Load(),
		Routes: p.gateway.Links(), Caps: server.Capabilities{Record: p.bound()}, Offers: p.record, Same: p.gateway.Same, Owner: p.gateway.Owner, Member: p.gateway.Member, Rates: p.rates,
		Strangers: p.strangers, Acquaintances: server.Acquaintances{Record: p.record, Names: p.names()},
		Write: func(ev federation.Event) map[string]string {
			fields, _ := dialect.Write(ev) // what the home says of itself is short
			return fields
		},
		Read: dialect.Read,
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

// wiring is what links are opened with. The zero value is enough to check a configuration.
type wiring struct {
	ports    bridge.Ports
	more     []bridge.Network // beside [networks]
	handoffs irc.Handoffs
	freeq    freeq.Deps
	endpoint func() (key federation.SigningKey, seed string, err error) // nil for a check
	clients  ircclient.Deps
	registry airc.Deps
	agents   agentapi.Deps
	a2a      a2a.Deps
	// participants is what the other networks of agents need.
	participants participant.Deps
	macp         macp.Deps
	files        files.Deps
	homes        *homes // nil for a check
	// mode returns the mode that an operator set for another home, "" for none.
	mode func(domain string) string
}

// wiring returns what the links of the program are opened with.
func (p *program) wiring() wiring {
	record := p.bound()
	return wiring{
		ports: bridge.Ports{
			PublicURL: strings.TrimSuffix(p.publicURL, "/"), Metrics: p.counters, Log: p.log, Gateway: p.gateway, Signer: p.homeKeys(),
			Bindings: p.bindings(), Evidence: p.contexts(p.gateway.Admit), Keys: p.currentKeys(), Blocks: p.gateway, Limits: &p.linkLimits, Wakes: p.relay, Presence: p.gateway, Messages: p.gateway,
		},
		more: p.more, handoffs: record, homes: p.homes, mode: p.modes.Mode,
		freeq:    freeq.Deps{Record: record, Rulings: p.gateway, Fetch: registries{p.peering}.Get},
		endpoint: func() (federation.SigningKey, string, error) { return identity.OpenEndpoint(p.file.Path(keysFolder)) },
		clients:  ircclient.Deps{Record: record, Logins: p.logins, MaxClients: httpd.OpenFiles() / ircShare},
		registry: p.registryDeps(record), agents: p.agentsDeps(record), participants: p.participantDeps(record), a2a: p.a2aDeps(record),
		macp:  p.macpDeps(record),
		files: files.Deps{Record: record, Placers: p.gateway.Links().Placers, Path: p.file.Path, Hub: &p.voiceHub},
	}
}

// currentKeys returns the keys of DIDs. A DID that proved itself has its mailbox here.
func (p *program) currentKeys() identity.CurrentKeys {
	return identity.CurrentKeys{Source: p.keys.Load, Logins: &p.proofs, Proven: func(ctx context.Context, did federation.DID) {
		p.homes.locator.LearnFromLogin(ctx, did, time.Now())
	}}
}

// homeKeys returns the keys with which the home signs.
func (p *program) homeKeys() identity.HomeKeys {
	return identity.HomeKeys{Keyring: p.keyring, Home: p.homeID(), PublicURL: p.publicURL}
}

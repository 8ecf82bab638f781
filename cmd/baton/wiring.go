package main

import (
	"context"
	"crypto/rand"
	"time"

	"baton/bridge"
	"baton/bridge/gateway"
	"baton/bridge/httpd"
	"baton/configs"
	"baton/federation"
	"baton/federation/home"
	"baton/federation/identity"
	"baton/federation/lifecycle"
	"baton/translate/dialect"
)

// limit makes the limits of a configuration those that hold.
func (p *program) limit(file *configs.File) {
	p.limited = file
	p.limits.Store(&file.Limits)
	p.servers.Store(keyServers(file))
	p.gateway.Configure(p.gatewayConfig(file))
	p.registrations.Store(int64(file.Limits.RegistrationsPerHour))
	p.firstContacts.Store(&federation.InboxLimits{Events: file.Limits.FirstContacts, EventsPerSender: file.Limits.FirstContactsPerSender})
	p.contextsOfDID.Store(file.Limits.ContextBytesPerDID)
	p.maxHops.Store(int64(file.Limits.MaxHops))
	p.linkLimits.Store(&bridge.Limits{
		UserEventsPerMinute: file.Limits.UserEventsPerMinute, LinkEventsPerSecond: file.Limits.LinkEventsPerSecond,
		ContextBytes: orMost(file.Limits.ContextBytes), MaxDeadline: file.Limits.MaxDeadline,
		ConnectionsPerAddress: file.Limits.ConnectionsPerAddress, UnregisteredConnections: file.Limits.UnregisteredConnections,
	})
}

// newGateway returns the gateway on the record and the relay of the program.
func (p *program) newGateway() *gateway.Gateway {
	return gateway.New(gateway.Deps{
		Handoffs: p.record, Participants: participants{p.bound()}, Names: p.names(), Notices: p.record, Deliveries: p.record, Deferred: p.record,
		Outbox: p.record, Blocks: p.record, Pruner: p.record, Growth: p.record, Counts: p.record, Leases: p.record,
		Keys: keyFetcher{p}, Addresses: p.writes, DIDs: p.rates, Strangers: p.strangers, Registry: registryNames{p}, Homes: recipients{p},
		Kept: p.keyring.Kept, Wakes: p.relay, Metrics: p.counters, Log: p.log,
	})
}

// gatewayConfig returns what the gateway takes from a configuration.
func (p *program) gatewayConfig(file *configs.File) gateway.Config {
	return gateway.Config{
		Home: p.newHome(file),
		Retention: gateway.Retention{
			Undelivered: file.Retention.Undelivered, Finished: file.Retention.Finished, AIRCMessages: file.Retention.AIRCMessages,
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

// configure makes the bindings of a configuration those that hold.
func (p *program) configure(file *configs.File, links []gateway.Entry) {
	bound := boundNames(file, namesOf(links))
	p.configured.Store(&bound)
}

// names returns who stands behind which name.
func (p *program) names() gateway.BoundNames {
	return gateway.BoundNames{Record: p.record, Configured: func() []federation.BoundName { return *p.configured.Load() }}
}

// bound returns the record with the names that stand for DIDs.
func (p *program) bound() boundRecord {
	return boundRecord{Record: p.record, names: p.names(), forget: p.forgetKeys}
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
		Rules: homeRules(p.homeID(), file), Key: p.serverKey(), Snapshots: p.record, Log: p.record, Overdue: p.record, Rulings: p.record, Entropy: rand.Reader,
		Keys:   p.atHand.Load(),
		Routes: p.gateway.Links(), Caps: skills{p.bound()}, Offers: p.record, Same: p.gateway.Same, Member: p.gateway.Member, Rates: p.rates,
		Strangers: p.strangers, Acquaintances: gateway.Acquaintances{Record: p.record, Names: p.names()},
		Write: func(ev federation.Event) map[string]string {
			fields, _ := dialect.Write(ev) // what the home says of itself is short
			return fields
		},
	}
}

// homeRules returns what the home judges by.
func homeRules(id federation.HomeID, file *configs.File) home.Rules {
	return home.Rules{
		ID: id, Kinds: lifecycle.Shipped(), TagPrefix: tagPrefix, Policy: homePolicy(file, nil),
		Limits: home.Limits{
			ClockSkew: file.Limits.ClockSkew, MaxDeadline: file.Limits.MaxDeadline,
			EventsPerMinute: file.Limits.DIDEventsPerMinute, OpenHandoffs: file.Limits.OpenHandoffsPerDID,
			Inbox: inboxLimits(file), Strangers: strangerLimits(file),
			Unanswered: file.Retention.Unanswered, Abandoned: file.Retention.Abandoned, ClaimCaps: file.Policy.ClaimCaps,
		},
	}
}

// wiring returns what the networks are wired to.
func (p *program) wiring() wiring {
	return wiring{
		Ports: bridge.Ports{
			Home: p.homeID(), Gateway: p.gateway, Metrics: p.counters, Log: p.log,
			Blocked: p.gateway.Blocked,
			Bound:   p.names().Bound, BoundTo: p.names().Of, Seen: p.record.Binding,
			PublicURL: p.publicURL, Kept: p.keyring.Kept, Keep: p.record.Keep,
			Own:   func() federation.SigningKey { return p.keyring.Server(p.homeID()) },
			Refer: p.contexts().Refer, Store: p.storeContext,
			Limits: func() bridge.Limits { return *p.linkLimits.Load() }, Wakes: p.relay,
		},
		record: p.bound(), gateway: p.gateway, homes: p.homes, keys: p.file.Path(keysFolder), fetch: registries{p.peering}, issuer: registries{p.client}, rates: p.gateway.Rates(),
		registry: p.keyring.Registry, token: p.keyring.Token(),
		proved: func(ctx context.Context, did federation.DID, message, signature []byte) (federation.Verdict, error) {
			return p.proofs.Proved(ctx, p.keys.Load(), did, message, signature, time.Now())
		},
		revoked: func(ctx context.Context, did federation.DID, keyID string, at time.Time) (bool, error) {
			return p.keys.Load().Revoked(ctx, did, keyID, at)
		},
		learn:      func(ctx context.Context, report federation.KeyReport) error { return p.keys.Load().Learn(ctx, report) },
		registries: func(now time.Time) []federation.OwnKey { return p.keyring.Good(identity.RegistryKey, now) },
		maxBody:    p.file.HTTP.MaxBodyBytes, agents: p.agentsAPI(),
		mode:   func(domain string) string { return (*p.modes.Load())[domain] },
		logins: p.logins, writes: p.writes, maxClients: httpd.OpenFiles() / ircShare,
		registrationsPerHour: func() int { return int(p.registrations.Load()) },
		strangers:            p.gateway,
		room:                 func() federation.InboxLimits { return p.gateway.Home().Limits.Inbox },
		firstContacts:        func() federation.InboxLimits { return *p.firstContacts.Load() },
	}
}

package main

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"baton/bridge"
	"baton/bridge/agentapi"
	"baton/bridge/airc"
	"baton/bridge/credential"
	"baton/bridge/gateway"
	ircclient "baton/bridge/irc/client"
	"baton/bridge/irc/spanningtree"
	"baton/configs"
	"baton/federation"
	"baton/federation/agents"
	"baton/federation/identity"
)

// network is one foreign protocol: the table that configures it, and how a link
// is made of that. Making one does no I/O but for reading secret files; a mistake
// in the table is a [*bridge.KeyError].
type network struct {
	table string
	many  bool // the table may be given any number of times
	open  func(t configs.Table, w wiring) (gateway.Entry, error)
}

// networks returns all that this gateway speaks. A new one is one line here.
func networks() []network {
	return []network{
		{table: "irc.spanningtree", many: true, open: openSpanningtree},
		{table: freeqTable, many: true, open: openFreeq},
		{table: "irc.client", open: openClient},
		{table: "airc", open: openAIRC},
		{table: "rest", open: openREST},
		{table: peersTable, many: true, open: openPeer},
	}
}

// wiring is what networks are wired to. The zero value, with Secret set, is
// enough to check a configuration.
type wiring struct {
	bridge.Ports
	certificate *tls.Certificate // nil where the configuration names none
	http        configs.HTTP     // of the public listener
	record      boundRecord
	proved      func(ctx context.Context, did federation.DID, message, signature []byte) (federation.Verdict, error)
	revoked     func(ctx context.Context, did federation.DID, keyID string, at time.Time) (bool, error)
	learn       func(ctx context.Context, report federation.KeyReport) error
	gateway     *gateway.Gateway
	keys        string       // the folder of keys; empty where only a configuration is checked
	fetch       airc.Fetcher // asks other registries
	issuer      airc.Getter  // reads what the issuer of accounts says
	rates       airc.Rates
	registry    func() federation.SigningKey
	registries  func(now time.Time) []federation.OwnKey // those that are good now
	token       []byte
	maxBody     int64
	rest        configs.REST
	agents      agentsAPI
	homes       *homes // nil where only a configuration is checked
	logins      credential.Addresses
	writes      credential.Addresses // steps and AIRC messages
	maxClients  int                  // of the listener for IRC clients, by the open files of this process; 0 for no limit
	// registrationsPerHour may change while the gateway runs.
	registrationsPerHour func() int
	// mode returns an operator's word on another registry, "" for none.
	mode                func(domain string) string
	strangers           airc.Strangers                // nil where only a configuration is checked
	room, firstContacts func() federation.InboxLimits // likewise
}

func openSpanningtree(t configs.Table, w wiring) (gateway.Entry, error) {
	cfg := spanningtree.DefaultConfig()
	t.Decode(&cfg)
	link, err := spanningtree.Open(cfg, spanningtree.Deps{Ports: w.Ports, Handoffs: w.record, Agent: w.agent}, w.certificate)
	return opened(link, t), err
}

// agent returns the DID of an agent of the registry by its handle.
func (w wiring) agent(ctx context.Context, handle string) (federation.DID, error) {
	agent, err := w.record.Agent(ctx, handle)
	return agent.DID, err
}

func openClient(t configs.Table, w wiring) (gateway.Entry, error) {
	cfg := ircclient.DefaultConfig()
	t.Decode(&cfg)
	if !cfg.Enabled() {
		return gateway.Entry{}, errOff
	}
	if cfg.WebSocket && w.http.Listen == "" {
		t.Mistake("websocket", "needs http.listen")
	}
	if w.maxClients > 0 && cfg.MaxClients > w.maxClients {
		w.Log.LogAttrs(context.Background(), slog.LevelInfo, "max_clients is lowered: raise the limit of open files",
			slog.String("link", "client"), slog.Int("max_clients", w.maxClients))
		cfg.MaxClients = w.maxClients
	}
	link, err := ircclient.Open(cfg, ircclient.Deps{
		Origins: w.http.CORSOrigins, Proxies: w.http.TrustedProxies, Logins: w.logins,
		Ports: w.Ports, Record: w.record, Agent: w.agent, Proved: w.proved, Learn: w.learn,
	}, w.certificate)
	return opened(link, t), err
}

func openAIRC(t configs.Table, w wiring) (gateway.Entry, error) {
	cfg := airc.DefaultConfig()
	rest, peers := t.Split("peers")
	t.Inner("oidc").Decode(&cfg.OIDC)
	t.Inner("mtls").Decode(&cfg.MTLS)
	rest.Decode(&cfg)
	for _, table := range peers {
		peer := airc.PeerConfig{}
		table.Decode(&peer)
		cfg.Peers = append(cfg.Peers, peer)
	}
	if !cfg.Enabled {
		return gateway.Entry{}, errOff
	}
	link, err := airc.Open(cfg, airc.Deps{
		RunExclusive: func(ctx context.Context, do func(context.Context)) {
			_ = w.record.RunExclusive(ctx, gateway.LinkLease(agents.Link), do) // ends with ctx, and says nothing else
		},
		Ports: w.Ports, Registry: registryPorts(w.record), Bindings: w.record, Evidence: w.record, Inboxes: w.record,
		Rates: w.rates, Room: w.room, FirstContacts: w.firstContacts, Strangers: w.strangers, Held: func(ctx context.Context, domain string) (federation.Withheld, bool, error) {
			return w.record.Held(ctx, domain)
		}, Mode: w.mode, Hooks: w.agents.hooks, Fetch: w.fetch, Issuer: w.issuer, RegistryKey: w.registry, RegistryKeys: w.registries, TokenKey: w.token, KeyDID: identity.KeyDID, Revoked: w.revoked,
		Proved: provedOverREST(w),
		AgentDocument: func(did federation.DID, key ed25519.PublicKey, others ...federation.DID) []byte {
			return identity.AgentDocument(did, key, w.PublicURL, others...)
		},
		MaxBodyBytes: w.maxBody, MaxWait: w.rest.MaxWait, RegistrationsPerHour: w.registrationsPerHour,
		Logins: w.logins, Writes: w.writes,
	})
	return opened(link, t), err
}

// registryPorts returns the ports of the registry on the record.
func registryPorts(r boundRecord) airc.Registry {
	return airc.Registry{Agents: r, Keys: r, Sessions: r, Messages: r, Mail: r, Threads: r, Consents: r, Relays: r}
}

// provedOverREST returns what reads the tokens of the REST API; nil where that is turned
// off.
func provedOverREST(w wiring) func(*http.Request, time.Time) (federation.DID, bool) {
	if !w.rest.Enabled {
		return nil
	}
	return agentapi.Proved(w.token, w.Home)
}

// errOff is returned for a network that the configuration turns off.
var errOff = errors.New("turned off")

// openLinks makes all links of a configuration. Mistakes in their tables are
// added to those of the file, and returned with them.
func openLinks(file *configs.File, w wiring) ([]gateway.Entry, error) {
	w.Secret = file.Secret
	if config := file.TLSConfig(); config != nil {
		w.certificate = &config.Certificates[0]
	}
	w.Home, w.http, w.rest = federation.HomeID(file.Home.Name), file.HTTP, file.REST
	if w.Log == nil {
		w.Log = slog.New(slog.DiscardHandler)
	}
	var links []gateway.Entry
	names, whole := map[string]bool{}, true
	for _, n := range networks() {
		for _, t := range n.tables(file) {
			made, err := n.open(t, w)
			switch {
			case errors.Is(err, errOff):
			case err != nil:
				tellMistakes(t, err)
				whole = false
			case names[made.Link.Name()]:
				t.Mistake("name", fmt.Sprintf("%q is the name of another link", made.Link.Name()))
			default:
				names[made.Link.Name()] = true
				links = append(links, made)
			}
		}
	}
	if len(peersOf(links)) > 0 {
		links = append(links, w.unrouted())
	}
	if !whole {
		names = nil // whose names are missing cannot be told
	}
	readMeeting(file)
	authorities(file)
	boundNames(file, names) // for their mistakes
	homePolicy(file, names)
	return links, file.Err()
}

// namesOf returns the names of links.
func namesOf(links []gateway.Entry) map[string]bool {
	names := map[string]bool{}
	for _, o := range links {
		names[o.Link.Name()] = true
	}
	return names
}

func (n network) tables(file *configs.File) []configs.Table {
	if n.many {
		return file.Tables(n.table)
	}
	return []configs.Table{file.Table(n.table)}
}

// tellMistakes adds what a network found wrong with its table.
func tellMistakes(t configs.Table, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, each := range joined.Unwrap() {
			tellMistakes(t, each)
		}
		return
	}
	if mistake, ok := errors.AsType[*bridge.KeyError](err); ok {
		t.Mistake(mistake.Key, mistake.Why)
		return
	}
	t.Mistake("", err.Error())
}

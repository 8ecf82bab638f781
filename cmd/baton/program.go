package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"baton/bridge"
	"baton/bridge/httpd"
	ircclient "baton/bridge/irc/client"
	"baton/bridge/rest"
	"baton/bridge/rest/webhook"
	"baton/configs"
	"baton/federation"
	"baton/federation/deferral"
	"baton/federation/home"
	"baton/federation/identity"
	"baton/federation/lifecycle"
	"baton/federation/relay"
	"baton/federation/store"
	"baton/translate/dialect"
)

// readyPoll is how often the start looks whether all is up yet.
const readyPoll = 100 * time.Millisecond

// sweepEvery is how often the home looks for overdue handoffs: they are to end at
// most five seconds late.
const sweepEvery = time.Second

// keysFolder is where the keys are, below data_dir.
const keysFolder = "keys"

// program is one gateway, assembled from a configuration.
type program struct {
	file      *configs.File
	log       *slog.Logger
	metrics   *prometheus.Registry
	counters  *bridge.Metrics
	public    *httpd.Server // nil where the configuration has no listener
	admin     *httpd.Server // nil where the configuration has no listener
	socket    *httpd.Server // nil where the configuration has no socket
	publicMux *http.ServeMux
	adminMux  *http.ServeMux
	socketMux *http.ServeMux
	publicURL string
	record    *store.Record
	keyring   *identity.Keyring
	deferral  *deferral.Deferral
	directory atomic.Pointer[identity.Directory] // replaced when a key is rotated, as are
	keys      atomic.Pointer[identity.KeySource]
	relay     *relay.Relay // nil where it could not be opened: nobody is woken then
	rates     *home.Rates
	client    *identity.Client // for what must be fetched from strangers
	peering   *identity.Client // for what is asked of other registries
	gateway   *gateway
	homes     *homes
	hub       *relay.Hub     // nil where none is configured
	host      *relay.Host    // nil where homes of others link to nothing here
	hooks     *webhook.Hooks // nil where the configuration has none
	// servers are the key servers behind links, by link.
	servers atomic.Pointer[map[string]string]

	// What changes with the configuration, and is asked for by the networks.
	registrations atomic.Int64 // per hour and address
	contextsOfDID atomic.Int64 // bytes
	maxHops       atomic.Int64 // of homes that a step comes through
	linkLimits    atomic.Pointer[bridge.Limits]
	retention     atomic.Pointer[configs.Retention]
	deferrals     atomic.Pointer[federation.DeferralLimits]
	configured    atomic.Pointer[[]federation.BoundName]
	modes         atomic.Pointer[map[string]string] // of other registries, by the word of operators

	resolving *prometheus.HistogramVec
	ended     chan struct{} // closed when the gateway begins to end
	linking   chan linking  // links that an operator adds or removes
	changing  sync.Mutex    // one at a time: a configuration read again, or a key rotated
	limited   *configs.File
	hups      <-chan os.Signal
	reread    func() (*configs.File, error) // at SIGHUP; nil where there is no file
	relevel   func(configs.Log)
}

// assemble opens the listeners, the record and the keys of a configuration, and
// wires the rest to them. Nothing runs until [program.run]; close what was
// assembled.
func assemble(ctx context.Context, file *configs.File, log *slog.Logger) (*program, error) {
	p := &program{
		file: file, log: log, metrics: newMetrics(),
		publicMux: http.NewServeMux(), adminMux: http.NewServeMux(), socketMux: http.NewServeMux(),
		ended: make(chan struct{}), linking: make(chan linking), publicURL: file.HTTP.PublicURL,
	}
	p.counters, p.rates, p.resolving = bridge.NewMetrics(p.metrics), home.NewRates(), newResolveSeconds(p.metrics)
	p.client = newClient(p.file)
	var err error
	if p.peering, err = newRegistryClient(p.file, p.client); err != nil {
		return nil, err
	}
	if err := p.listen(ctx); err != nil {
		return nil, err
	}
	if err := p.openRecord(ctx); err != nil {
		return nil, errors.Join(err, p.close())
	}
	if err := p.readModes(ctx); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.openRelay(ctx)
	fleet := newFleet(p.record, p.relay, p.counters, log)
	p.configured.Store(&[]federation.BoundName{})
	p.gateway = &gateway{record: p.bound(), kept: p.keyring.Kept, metrics: p.counters, log: log, fleet: fleet, wakes: p.relay, deferral: p.deferral}
	if err := p.openMeeting(log); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.homes = newHomes(p)
	fleet.owes = p.homes.owed
	p.hooks = p.newHooks()
	p.homes.door().Mount(p.publicMux)
	p.metrics.MustRegister(newLinkGauges(fleet, p.record), newDeferredGauge(p.record), newDeadGauge(p.record), newHookGauges(p.record))
	p.limit(file)
	if err := p.openOperator(ctx); err != nil {
		return nil, errors.Join(err, p.close())
	}
	mountAdmin(p.adminMux, p, file.Metrics.Enabled)
	p.mountOperator(p.adminMux, rest.Bearers(p.record))
	mountIdentity(p.publicMux, p.keyring, p.homeID(), p.publicURL)
	signingKeys{server: p.serverKeys, keys: p.record}.mount(p.publicMux)
	stored{blobs: p.record, log: p.log}.mount(p.publicMux)
	p.publicMux.Handle("GET "+ircclient.Path, overWebSocket{fleet})
	return p, nil
}

// listen opens the ports first: a taken one ends the program before it touched
// anything.
func (p *program) listen(ctx context.Context) error {
	var err error
	cfg := httpd.Config{Listen: p.file.HTTP.Listen, CORSOrigins: p.file.HTTP.CORSOrigins, TrustedProxies: p.file.HTTP.TrustedProxies}
	if p.file.HTTP.TLS {
		cfg.TLS = listenerTLS(p.file)
	}
	if p.public, err = openListener(ctx, cfg, p.publicMux, p.log); err != nil {
		return err
	}
	if p.public != nil && strings.HasSuffix(p.file.HTTP.Listen, ":0") { // a port that nobody could name before
		p.publicURL = "http://" + p.public.Addr().String()
	}
	p.admin, err = openListener(ctx, httpd.Config{Listen: p.file.Admin.Listen}, p.adminMux, p.log)
	if err != nil {
		return errors.Join(err, p.closeListeners())
	}
	return nil
}

func openListener(ctx context.Context, cfg httpd.Config, handler http.Handler, log *slog.Logger) (*httpd.Server, error) {
	if cfg.Listen == "" {
		return nil, nil //nolint:nilnil // no listener is what the configuration asks for
	}
	server := httpd.New(cfg, handler, log) //nolint:contextcheck // each request has its own
	return server, server.Listen(ctx)
}

// openRecord opens what is below data_dir.
func (p *program) openRecord(ctx context.Context) error {
	if err := os.MkdirAll(p.file.Path("."), 0o700); err != nil {
		return fmt.Errorf("open data_dir: %w", err)
	}
	if err := checkRestored(p.file); err != nil {
		return err
	}
	var err error
	if p.record, err = openStore(ctx, p.file, p.metrics); err != nil {
		return err
	}
	if signer := p.file.Keys.Signer; len(signer) > 0 {
		p.keyring, err = identity.OpenSignerKeyring(ctx, p.file.Path(keysFolder), signer)
	} else {
		p.keyring, err = identity.OpenKeyring(p.file.Path(keysFolder))
	}
	if err != nil {
		return err
	}
	p.deferral = p.newDeferral()
	p.openKeys()
	return nil
}

// openKeys makes what resolves DIDs and finds their keys, those of the gateway as they
// are now among them.
func (p *program) openKeys() {
	directory := newDirectory(p.file, p.client, p.homeAddress, p.serverKeys()...)
	p.directory.Store(directory)
	p.keys.Store(newKeySource(p.file, p.record, p.client, p.keyServer, p.deferral.Learned, p.resolving, directory))
}

// openRelay starts what wakes those who wait. Without it they look by themselves.
func (p *program) openRelay(ctx context.Context) {
	var err error
	if own := readMeeting(p.file).own; own.Named() {
		p.relay, err = relay.Join(own, p.homeID(), p.log)
	} else {
		p.relay, err = relay.Open(ctx, p.log)
	}
	if err != nil {
		p.log.LogAttrs(ctx, slog.LevelError, "relay not opened", slog.Any("err", err))
	}
}

// limit makes the limits of a configuration those that hold.
func (p *program) limit(file *configs.File) {
	p.limited = file
	p.servers.Store(keyServers(file))
	p.gateway.home.Store(p.newHome(file))
	p.registrations.Store(int64(file.Limits.RegistrationsPerHour))
	p.retention.Store(&file.Retention)
	p.contextsOfDID.Store(file.Limits.ContextBytesPerDID)
	p.maxHops.Store(int64(file.Limits.MaxHops))
	p.deferrals.Store(&federation.DeferralLimits{PerOrigin: file.Limits.DeferredPerOrigin, Total: file.Limits.DeferredTotal})
	p.linkLimits.Store(&bridge.Limits{
		UserEventsPerMinute: file.Limits.UserEventsPerMinute, LinkEventsPerSecond: file.Limits.LinkEventsPerSecond,
		ContextBytes: orMost(file.Limits.ContextBytes), MaxDeadline: file.Limits.MaxDeadline,
	})
}

// configure makes the bindings of a configuration those that hold.
func (p *program) configure(file *configs.File, links []opened) {
	bound := boundNames(file, namesOf(links))
	p.configured.Store(&bound)
}

// names returns who stands behind which name.
func (p *program) names() names {
	return names{record: p.record, configured: func() []federation.BoundName { return *p.configured.Load() }}
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

// serverKeys returns the keys under which what the home says is good.
func (p *program) serverKeys() []federation.SigningKey {
	keys := []federation.SigningKey{p.serverKey()}
	for _, key := range p.keyring.Good(identity.ServerKey, time.Now())[1:] {
		keys = append(keys, federation.SigningKey{Public: key.Public, DID: p.homeID().DID()})
	}
	return keys
}

func (p *program) newHome(file *configs.File) *home.Home {
	return &home.Home{
		ID: p.homeID(), Key: p.serverKey(), Kinds: lifecycle.Shipped(), Store: p.record, Inboxes: p.record, Guests: p.record, Homes: p.record, Entropy: rand.Reader,
		Keys:   p.keys.Load(),
		Routes: p.gateway.fleet, Caps: skills{p.bound()}, Offers: p.record, Same: p.gateway.Same, Rates: p.rates,
		Policy: homePolicy(file, nil),
		Write: func(ev federation.Event) map[string]string {
			fields, _ := dialect.Write(ev) // what the home says of itself is short
			return fields
		},
		Limits: home.Limits{
			ClockSkew: file.Limits.ClockSkew, MaxDeadline: file.Limits.MaxDeadline,
			EventsPerMinute: file.Limits.DIDEventsPerMinute, OpenHandoffs: file.Limits.OpenHandoffsPerDID,
			InboxEvents: file.Limits.InboxEvents, InboxBytes: file.Limits.InboxBytes,
			Unanswered: file.Retention.Unanswered, Abandoned: file.Retention.Abandoned, ClaimCaps: file.Policy.ClaimCaps,
		},
	}
}

// wiring returns what the networks are wired to.
func (p *program) wiring() wiring {
	return wiring{
		Ports: bridge.Ports{
			Home: p.homeID(), Gateway: p.gateway, Metrics: p.counters, Log: p.log,
			Bound: p.names().Bound, BoundTo: p.names().Of, Seen: p.record.Binding,
			PublicURL: p.publicURL, Kept: p.keyring.Kept, Keep: p.record.Keep,
			Own:   func() federation.SigningKey { return p.keyring.Server(p.homeID()) },
			Refer: p.contexts().Refer, Store: p.contexts().Store,
			Limits: func() bridge.Limits { return *p.linkLimits.Load() }, Wakes: p.relay,
		},
		record: p.bound(), gateway: p.gateway, homes: p.homes, keys: p.file.Path(keysFolder), fetch: registries{p.peering}, issuer: registries{p.client}, rates: didRates{p.rates, p.gateway},
		registry: p.keyring.Registry, token: p.keyring.Token(),
		proved: func(ctx context.Context, did federation.DID, message, signature []byte) (federation.Verdict, error) {
			return p.directory.Load().Proved(ctx, did, message, signature, time.Now())
		},
		learn:      func(ctx context.Context, report federation.KeyReport) error { return p.keys.Load().Learn(ctx, report) },
		registries: func(now time.Time) []federation.OwnKey { return p.keyring.Good(identity.RegistryKey, now) },
		maxBody:    p.file.HTTP.MaxBodyBytes, agents: p.agentsAPI(),
		mode:                 func(domain string) string { return (*p.modes.Load())[domain] },
		registrationsPerHour: func() int { return int(p.registrations.Load()) },
		room: func() (int, int64) {
			limits := p.gateway.home.Load().Limits
			return limits.InboxEvents, limits.InboxBytes
		},
	}
}

// run serves until ctx ends, or a listener does.
func (p *program) run(ctx context.Context) error {
	links, err := openLinks(p.file, p.wiring())
	if err != nil {
		return err
	}
	if links, err = p.withKnown(ctx, links); err != nil {
		return err
	}
	p.configure(p.file, links)
	for _, o := range links {
		if mounted, ok := o.link.(bridge.Mounted); ok {
			mounted.Mount(p.publicMux)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	servers := map[string]*httpd.Server{"public": p.public, "admin": p.admin, "socket": p.socket}
	maps.DeleteFunc(servers, func(_ string, server *httpd.Server) bool { return server == nil })
	for name, server := range servers {
		p.log.LogAttrs(ctx, slog.LevelInfo, "listening", slog.String("listener", name), slog.String("address", server.Addr().String()))
	}
	p.gateway.fleet.apply(ctx, links) // before anybody is answered: /readyz asks the links
	for _, server := range servers {
		group.Go(func() error { return server.Serve(ctx) })
	}
	p.tellManager(ctx, "READY=1") // it serves; what is still down shows in /readyz
	group.Go(func() error { p.announce(ctx); return nil })
	group.Go(func() error {
		<-ctx.Done()
		p.tellManager(context.WithoutCancel(ctx), "STOPPING=1")
		close(p.ended)
		return nil
	})
	if p.hub != nil {
		group.Go(func() error { p.meet(ctx); return nil })
	}
	group.Go(func() error { p.relink(ctx); return nil })
	group.Go(func() error { p.tidy(ctx); return nil })
	group.Go(func() error { p.tellSigners(ctx); return nil })
	group.Go(func() error { p.hearOperators(ctx); return nil })
	if p.hooks != nil {
		group.Go(func() error { p.post(ctx); return nil })
	}
	if p.reread != nil {
		group.Go(func() error { p.reloads(ctx); return nil })
	}
	err = group.Wait()
	p.gateway.fleet.end()
	return err
}

// sweep ends what nobody moved in time: at once after the start, and then
// every second.
func (p *program) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := p.gateway.Sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			p.log.LogAttrs(ctx, slog.LevelError, "overdue handoffs not expired", slog.Any("err", err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// announce waits until /readyz says yes, and tells the log.
func (p *program) announce(ctx context.Context) {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for !p.readiness(ctx).Ready {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	p.log.LogAttrs(ctx, slog.LevelInfo, "ready")
}

func (p *program) tellManager(ctx context.Context, state string) {
	if err := notify(ctx, state); err != nil {
		p.log.LogAttrs(ctx, slog.LevelWarn, "service manager not told", slog.Any("err", err))
	}
}

// close ends the record after what was begun is on disk.
func (p *program) close() error {
	err := p.closeListeners()
	if p.homes != nil {
		p.homes.client.Close()
	}
	if p.hub != nil {
		p.hub.Close()
	}
	p.host.Close()
	p.relay.Close()
	if p.record != nil {
		err = errors.Join(err, p.record.Close())
	}
	return err
}

// closeListeners closes the ports of a program that did not run.
func (p *program) closeListeners() error {
	var errs []error
	for _, server := range []*httpd.Server{p.public, p.admin, p.socket} {
		if server != nil {
			if err := server.Close(); !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// Package server is the running gateway as a library. [Open] opens it from a configuration and the
// list of networks of its program, [Server.Run] serves until its context ends, [Server.Reload]
// applies a changed configuration, and [Server.Close] closes it.
//
// A [Server] has three parts. The record has the durable state. Links call the [Gateway], which
// implements [bridge.Gateway]: it looks up keys, counts steps by sender, lets the home judge each
// step, and wakes the outboxes of a filed step. Its [LinkSet] runs the links, each while this
// replica has the link's lease. [Gateway.Run] does the jobs due by the clock: it ends overdue
// handoffs and deliveries, judges deferred steps again, notifies signers, and prunes the record.
//
// A Gateway uses links through the interfaces of package bridge, and the record directly. It opens
// nothing: the Server passes the open parts to it. All methods may be called concurrently, except
// [Gateway.Configure] and [LinkSet.Apply], which one goroutine calls at a time. The blocking rules
// of package bridge apply, except to [LinkSet.Stop], [Server.Close] and [LastError].
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/agents/a2a/a2aclient"
	"github.com/baton-gateway/baton/bridge/agents/oauth"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/certificate"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/bridge/files"
	"github.com/baton-gateway/baton/bridge/httpd"
	"github.com/baton-gateway/baton/bridge/tracing"
	"github.com/baton-gateway/baton/bridge/webhook"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/relay"
	"github.com/baton-gateway/baton/federation/routing"
	"github.com/baton-gateway/baton/federation/store/backup"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// Server is one gateway, opened from a configuration.
type Server struct {
	// The parts of the server that its owner may read.
	Record  *registry.Record
	Gateway *Gateway
	Metrics *prometheus.Registry

	file           *configs.File
	certificate    *bridge.Certificate
	certificates   *certificate.Keeper
	authority      *certificate.Authority // nil without ACME
	challenges     *httpd.Server          // nil without a listener for HTTP-01
	options        Options
	log            *slog.Logger
	counters       *bridge.Metrics
	public         *httpd.Server // nil if not configured
	admin          *httpd.Server // nil if not configured
	socket         *httpd.Server // nil if not configured
	publicMux      *http.ServeMux
	adminMux       *http.ServeMux
	socketMux      *http.ServeMux
	publicURL      string
	clock          *Clock // by which handoffs and keys expire
	keyring        *identity.Keyring
	directory      atomic.Pointer[identity.Directory] // replaced when a key is rotated, as are
	keys           atomic.Pointer[identity.KeySource]
	keyLookups     KeyLookups
	proofs         *identity.Logins
	streams        participant.Streams // watched by participants on all networks
	relay          *relay.Relay        // nil if it could not be opened: then no waiter is woken
	started        time.Time
	checks         lastChecks
	rates          *home.Rates
	strangers      *home.Strangers
	client         *identity.Client // for requests to strangers
	registryClient *identity.Client
	locator        *routing.Locator
	homes          *homes
	traces         *tracing.Tracer // nil if not configured
	hub            *relay.Hub      // nil if not configured
	host           *relay.Host     // nil if other homes do not link to this one
	hooks          *webhook.Hooks  // nil if not configured
	voiceHub       files.Hub       // serves the voice directories
	a2aHub         a2aclient.Hub   // serves external A2A agents
	publicAgents   *http.Transport // to external agents, limited by fetch.allow_private
	privateAgents  *http.Transport // to external agents with allow_private
	served         map[string]bool // patterns of the routes of links that a reload may replace

	// Attempts of the clients of one address, over all listeners.
	logins credential.Addresses
	// guesses counts the wrong login codes of each address.
	guesses credential.Guesses
	writes  credential.Addresses
	// enrolments counts the new agents and IRC accounts of each address.
	enrolments credential.Addresses

	// Values that change with the configuration.
	limits        atomic.Pointer[configs.Limits]
	contextsOfDID atomic.Int64 // bytes
	maxHops       atomic.Int64 // maximum number of homes that a step passes through
	linkLimits    bridge.LiveLimits
	firstContacts atomic.Pointer[federation.InboxLimits]
	finished      atomic.Int64 // nanoseconds to keep ended handoffs; 0 means forever
	configured    atomic.Pointer[[]federation.BoundName]
	modes         *PeerModes

	certificateFiles atomic.Pointer[configs.TLS] // as last read

	resolving *prometheus.HistogramVec

	skippedKeys *prometheus.CounterVec
	ended       chan struct{} // closed when shutdown begins
	changing    sync.Mutex    // serializes configuration reloads and key rotations
	limited     *configs.File
	reloads     *Reloads[admin.Reloaded] // nil without a configuration file
}

// Options are the settings of a server from its program, not from its configuration.
type Options struct {
	Networks          Networks
	Version, Revision string
	Log               *slog.Logger

	// Reread reloads the configuration; nil without a configuration file.
	Reread func() (*configs.File, error)
	// Hangups receives a signal for each requested reload.
	Hangups <-chan os.Signal
	// Levels holds the levels of Log; nil if they are fixed.
	Levels *configs.LogLevels
	// Relevel applies the table [log] of a reloaded configuration.
	Relevel func(configs.Log)
}

// Open opens the listeners, the record and the keys of a configuration. Nothing runs until
// [Server.Run]. The caller closes the server.
func Open(ctx context.Context, file *configs.File, options Options) (*Server, error) {
	s := &Server{
		file: file, options: options, started: time.Now(), log: options.Log, Metrics: newMetrics(options.Version, options.Revision),
		publicMux: http.NewServeMux(), adminMux: http.NewServeMux(), socketMux: http.NewServeMux(),
		ended: make(chan struct{}), publicURL: file.HTTP.PublicURL, served: map[string]bool{},
	}
	if options.Reread != nil {
		s.reloads = NewReloads(s.reload)
	}
	s.limits.Store(&file.Limits)
	s.guesses = credential.NewGuesses()
	s.logins = credential.NewAddresses(func() int { return s.limits.Load().LoginsPerMinute }, time.Minute)
	s.writes = credential.NewAddresses(func() int { return s.limits.Load().AddressEventsPerMinute }, time.Minute)
	s.enrolments = credential.NewAddresses(func() int { return s.limits.Load().RegistrationsPerHour }, time.Hour)
	s.counters, s.rates, s.strangers, s.resolving = bridge.NewMetrics(s.Metrics), home.NewRates(), home.NewStrangers(), identity.NewResolveSeconds(s.Metrics)
	s.skippedKeys, s.proofs = identity.NewSkippedKeys(s.Metrics), identity.NewLogins()
	s.publicAgents = identity.NewTransport(fetchConfig(s.file))
	s.privateAgents = identity.NewTransport(identity.FetchConfig{AllowPrivate: true, Denied: deniedNetworks(s.file)})
	s.client = identity.NewClient(fetchConfig(s.file)) // fetches from addresses chosen by strangers
	var err error
	if err = s.openCertificate(); err != nil {
		return nil, err
	}
	if s.registryClient, err = newRegistryClient(s.file, s.certificate, s.client); err != nil {
		return nil, err
	}
	if tracing.Wanted() {
		if s.traces, err = tracing.Open(ctx, s.homeID(), options.Version, s.log); err != nil {
			return nil, err
		}
	}
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	if err := s.openRecord(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.openClock(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.modes = NewPeerModes(s.Record)
	if err := errors.Join(s.readModes(ctx), LogUnproved(ctx, s.Record, s.log)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.openRelay(ctx)
	s.Record.OnFiled(s.wakeFiled)
	s.configured.Store(&[]federation.BoundName{})
	s.Gateway = s.newGateway()
	s.keyLookups.lookups = identity.NewLookups(s.Gateway.Learned)
	s.keyLookups.lookups.Caught = s.caughtAt("lookup")
	s.openKeys()
	if err := errors.Join(s.Gateway.SeedStrangers(ctx, time.Now()), s.Gateway.ReadBlocks(ctx)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.openMeeting(ctx, s.log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.homes = newHomes(s)
	s.hooks = s.newHooks()
	s.homes.handler().Mount(s.publicMux)
	s.Metrics.MustRegister(s.Gateway.Collectors(context.WithoutCancel(ctx))...)
	s.Metrics.MustRegister(s.clock.ClockCollector())
	s.Metrics.MustRegister(s.Gateway.MachineCollector(file.Path("."), s.servedLeaf, s.certificates.Problem))
	s.limit(file)
	if err := s.openOperator(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.mountAdmin()
	identity.Publisher{Home: s.homeID(), PublicURL: s.publicURL, Keyring: s.keyring, Keys: s.Record}.Mount(s.publicMux)
	bridge.ContextServer{Blobs: s.Record, Log: s.log}.Mount(s.publicMux)
	s.voiceHub.Mount(s.publicMux)
	s.a2aHub.Mount(s.publicMux)
	return s, nil
}

// listen opens the ports first, so that a port in use ends the start before any change.
func (s *Server) listen(ctx context.Context) error {
	var err error
	cfg := httpd.Config{Listen: s.file.HTTP.Listen, CORSOrigins: s.file.HTTP.CORSOrigins, TrustedProxies: s.file.HTTP.TrustedProxies, ForwardedHeader: s.file.HTTP.ForwardedHeader, Limits: s.httpLimits(), Panicked: s.handlerPanicked}
	if s.file.HTTP.TLS {
		cfg.TLS = listenerTLS(s.file, s.certificate)
	}
	if s.public, err = openListener(ctx, cfg, s.publicMux, s.log); err != nil {
		return err
	}
	if s.public != nil && strings.HasSuffix(s.file.HTTP.Listen, ":0") { // the system chose the port
		s.publicURL = (&url.URL{Scheme: "http", Host: s.public.Addr().String()}).String()
	}
	s.admin, err = openListener(ctx, httpd.Config{Listen: s.file.Admin.Listen, Hosts: admin.ListenerHosts(s.file.Home.Name, s.file.Admin.Listen), Panicked: s.handlerPanicked}, s.adminMux, s.log)
	if err == nil {
		err = s.openChallengeListener(ctx)
	}
	if err != nil {
		return errors.Join(err, s.closeListeners())
	}
	return nil
}

func openListener(ctx context.Context, cfg httpd.Config, handler http.Handler, log *slog.Logger) (*httpd.Server, error) {
	if cfg.Listen == "" {
		return nil, nil //nolint:nilnil // the configuration has no listener
	}
	server := httpd.New(cfg, handler, log) //nolint:contextcheck // each request has its own
	return server, server.Listen(ctx)
}

func (s *Server) openRecord(ctx context.Context) error {
	if err := os.MkdirAll(s.file.Path("."), 0o700); err != nil {
		return fmt.Errorf("open data_dir: %w", err)
	}
	if err := backup.CheckRestored(RestoreTarget(s.file)); err != nil {
		return err
	}
	var err error
	if s.Record, err = openRecord(ctx, s.file, s.Metrics, s.log); err != nil {
		return err
	}
	if err := backup.RemoveLeftovers(s.file.Path(".")); err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "leftovers of killed backups not removed", slog.Any("err", err))
	}
	if err := s.warn(ctx); err != nil {
		return err
	}
	var adopted bool
	if s.keyring, adopted, err = KeyFolder(s.file).OpenFor(ctx, s.Record, time.Now()); adopted {
		s.log.LogAttrs(ctx, slog.LevelInfo, "record had no keys and adopts the keys in data_dir", slog.String("home", s.file.Home.Name))
	}
	return err
}

const clockFile = "clock"

// The confirmed time also determines the end of key overlaps.
func (s *Server) openClock(ctx context.Context) error {
	newest, err := s.Record.NewestFiled(ctx)
	if err != nil {
		return err
	}
	s.clock = NewClock(ClockConfig{
		Wall: func() time.Time { return time.Now().Round(0) }, Uptime: Uptime(), Synced: Synced,
		Others: func(since time.Time) []time.Duration { return s.Gateway.Links().OtherClocks(since) },
		Mark:   s.file.Path(clockFile), Newest: newest,
	}, s.log)
	s.keyring.EndBy(s.clock.Now)
	return nil
}

func (s *Server) warn(ctx context.Context) error {
	for _, path := range recordFiles(s.file) {
		if mode, loose := admin.Loose(path); loose {
			s.log.LogAttrs(ctx, slog.LevelWarn, "other users can access the record: restrict its mode", slog.String("path", path), slog.String("mode", fmt.Sprintf("%04o", mode)))
		}
	}
	unfinished, err := unfinishedErasures(s.file)
	for _, did := range unfinished {
		s.log.LogAttrs(ctx, slog.LevelWarn, "an erasure was cut short: run baton erase again", slog.String("did", did))
	}
	return err
}

func (s *Server) caughtAt(where string) func(ctx context.Context, err error) {
	return func(ctx context.Context, err error) { s.counters.Fault(ctx, s.log, where, err) }
}

func (s *Server) handlerPanicked() { s.counters.Faults.WithLabelValues(bridge.RequestFault).Inc() }

func (s *Server) openKeys() {
	settings := s.file.Identity
	directory := identity.NewDirectory(identity.DirectoryConfig{
		PLC: settings.PLCURL, Fresh: settings.CacheTTL, Negative: settings.NegativeTTL, Stale: settings.StaleTTL,
		Web: s.homeAddress, Home: s.homeDocument, Caught: s.caughtAt("lookup"), Fetched: s.noteFetched,
	}, s.client, s.keyring.ServerKeys(s.homeID(), s.clock.Now())...)
	s.directory.Store(directory)
	source := identity.NewKeySource(identity.KeySourceConfig{
		Negative: settings.NegativeTTL, Stale: settings.StaleTTL, Peer: s.Gateway.Links().KeyServer, Learned: s.Gateway.Learned,
		Ours:   func(ctx context.Context, did federation.DID) bool { return SignsFor(ctx, s.Record, did) },
		Shared: shared(s.file),
	}, identity.NewInstrumented(directory, s.resolving), s.client, s.Record)
	s.keys.Store(source)
	s.keyLookups.atHand.Store(source.Cached(identity.NewInstrumented(directory.Offline(), s.resolving), s.keyLookups.lookups))
}

// openRelay begins to connect to the wake-up servers of all replicas. Without a connection, waiters
// poll.
func (s *Server) openRelay(ctx context.Context) {
	own := readMeeting(s.file).Own
	if !own.Named() {
		s.relay = relay.Local()
		return
	}
	var err error
	if s.relay, err = relay.Join(own, s.homeID(), s.log); err != nil {
		s.log.LogAttrs(ctx, slog.LevelError, "relay not opened", slog.Any("err", err))
	}
}

func (s *Server) wakeFiled(destination string) {
	if destination == federation.WebhookLink {
		s.relay.Wake(bridge.WebhooksTopic)
		return
	}
	s.relay.Wake(bridge.OutboxTopic(destination))
}

// Run starts the links, and serves until ctx or a listener ends.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Start(ctx); err != nil {
		return err
	}
	return s.Serve(ctx)
}

// Start starts the links, so that readiness includes them. Call it before [Server.Serve].
func (s *Server) Start(ctx context.Context) error {
	links, err := OpenLinks(s.file, s.options.Networks, s.Wiring())
	if err != nil {
		return err
	}
	if links, err = s.homes.join(ctx, links); err != nil {
		return err
	}
	s.configure(s.file, links)
	s.Gateway.MeasureGrowth(ctx, time.Now()) // before the first client is served
	oauth.New(s.oauthDeps()).Mount(s.publicMux)
	for _, o := range links {
		if mounted, ok := o.Link.(bridge.Mounted); ok {
			mounted.Mount(s.publicMux)
		}
	}
	s.apply(ctx, links)
	return nil
}

// Serve answers requests and runs the jobs of the gateway until ctx or a listener ends.
func (s *Server) Serve(ctx context.Context) error { return s.Gateway.Run(ctx, s.tasks(ctx)...) }

// apply runs exactly these links. It registers each new route of a replaceable link only once.
func (s *Server) apply(ctx context.Context, links []Entry) {
	for _, o := range links {
		served, ok := o.Link.(bridge.Served)
		if ok && !s.served[served.Pattern()] {
			s.served[served.Pattern()] = true
			s.publicMux.Handle(served.Pattern(), s.Gateway.Links())
		}
	}
	s.Gateway.Links().Apply(ctx, links)
}

func (s *Server) tasks(ctx context.Context) []Task {
	tasks := []Task{
		s.Gateway.Announce(s.Ready), s.end, func(ctx context.Context) error { s.homes.peering.Run(ctx); return nil },
		func(ctx context.Context) error { s.certificates.Run(ctx); return nil },
	}
	for name, server := range map[string]*httpd.Server{"public": s.public, "admin": s.admin, "socket": s.socket, "acme": s.challenges} {
		if server != nil {
			s.log.LogAttrs(ctx, slog.LevelInfo, "listening", slog.String("listener", name), slog.String("address", server.Addr().String()))
			tasks = append(tasks, server.Serve)
		}
	}
	if s.hub != nil {
		tasks = append(tasks, func(ctx context.Context) error { s.hub.Watch(ctx); return nil })
		meet := func(ctx context.Context) { s.hub.Run(ctx, s.homes.handler(), s.homes.peers) }
		tasks = append(tasks, s.Gateway.Exclusive(HomesLease, meet))
	}
	if s.hooks != nil {
		tasks = append(tasks, s.Gateway.Exclusive(WebhookLease, s.hooks.Run))
	}
	tasks = append(tasks, s.Gateway.Exclusive(samplesLease, s.keepSamples))
	if shared(s.file) {
		tasks = append(tasks, func(ctx context.Context) error { s.Gateway.FollowReplicas(ctx, s.takeUp); return nil })
		tasks = append(tasks, func(ctx context.Context) error { s.Gateway.FollowPresence(ctx, s.relay.Receive); return nil })
	}
	if s.reloads != nil {
		tasks = append(tasks, func(ctx context.Context) error { s.reloads.Run(ctx, s.options.Hangups, s.log); return nil })
	}
	return tasks
}

func (s *Server) end(ctx context.Context) error {
	<-ctx.Done()
	s.keyLookups.lookups.Stop()
	close(s.ended)
	s.Gateway.AnnounceEnd(context.WithoutCancel(ctx))
	return nil
}

// URL returns the public address of the server.
func (s *Server) URL() string { return s.publicURL }

// AdminAddr returns the address of the listener for operators, or nil.
func (s *Server) AdminAddr() net.Addr {
	if s.admin == nil {
		return nil
	}
	return s.admin.Addr()
}

// Keys returns the keys of all signers.
func (s *Server) Keys() federation.KeySource { return s.keys.Load() } //nolint:ireturn // a rotation replaces it

// Close closes the server. Writes in progress are on disk before the record is closed.
func (s *Server) Close() error {
	err := s.closeListeners()
	disconnected := make(chan struct{})
	go func() {
		defer close(disconnected)
		s.disconnect()
	}()
	select {
	case <-disconnected:
	case <-time.After(closeTime):
	}
	s.traces.Close()
	if s.Record != nil {
		err = errors.Join(err, s.Record.Close())
	}
	return err
}

// closeTime bounds the flushing of connections, so that a stuck hub does not delay the close of the
// record.
const closeTime = 500 * time.Millisecond

func (s *Server) disconnect() {
	if s.keyLookups.lookups != nil {
		s.keyLookups.lookups.Close()
	}
	if s.homes != nil {
		s.homes.client.Close()
	}
	if s.hub != nil {
		s.hub.Close()
	}
	s.host.Close()
	s.relay.Close()
}

func (s *Server) closeListeners() error {
	var errs []error
	for _, server := range []*httpd.Server{s.public, s.admin, s.socket, s.challenges} {
		if server != nil {
			if err := server.Close(); !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

package main

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

	"baton/bridge"
	"baton/bridge/credential"
	"baton/bridge/files"
	"baton/bridge/httpd"
	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/checkup"
	"baton/bridge/operatorapi/contract"
	"baton/bridge/participant"
	"baton/bridge/server"
	"baton/bridge/tracing"
	"baton/bridge/webhook"
	"baton/configs"
	"baton/federation"
	"baton/federation/home"
	"baton/federation/identity"
	"baton/federation/relay"
	"baton/federation/store/backup"
	"baton/federation/store/registry"
)

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
	record    *registry.Record
	clock     *server.Clock // by which handoffs and keys expire
	keyring   *identity.Keyring
	directory atomic.Pointer[identity.Directory] // replaced when a key is rotated, as are
	keys      atomic.Pointer[identity.KeySource]
	atHand    atomic.Pointer[identity.AtHand] // the part of keys that no host is asked for
	lookups   *identity.Lookups               // of the rest
	proofs    identity.Logins                 // that wait for documents
	streams   participant.Streams             // that participants watch, on all networks
	relay     *relay.Relay                    // nil where it could not be opened: then it wakes no waiter
	rates     *home.Rates
	strangers *home.Strangers
	client    *identity.Client // for what must be fetched from strangers
	peering   *identity.Client // for what is asked of other registries
	gateway   *server.Gateway
	homes     *homes
	traces    *tracing.Tracer  // nil where none are recorded
	hub       *relay.Hub       // nil where none is configured
	host      *relay.Host      // nil where homes of others link to nothing here
	hooks     *webhook.Hooks   // nil where the configuration has none
	voiceHub  files.Hub        // serves the voice directories that have tokens for it
	more      []bridge.Network // beside [networks]
	served    map[string]bool  // patterns of the routes of links that a reload may replace

	// What clients of one address did, at all listeners together.
	logins credential.Addresses
	writes credential.Addresses // steps and AIRC messages

	// What changes with the configuration, and is asked for by the networks.
	limits        atomic.Pointer[configs.Limits]
	registrations atomic.Int64 // per hour and address
	contextsOfDID atomic.Int64 // bytes
	maxHops       atomic.Int64 // of homes that a step comes through
	linkLimits    bridge.LiveLimits
	firstContacts atomic.Pointer[federation.InboxLimits]
	finished      atomic.Int64 // nanoseconds for which what has ended is kept; 0 for ever
	configured    atomic.Pointer[[]federation.BoundName]
	modes         *server.PeerModes

	resolving *prometheus.HistogramVec

	skippedKeys *prometheus.CounterVec
	ended       chan struct{} // closed when shutdown begins
	changing    sync.Mutex    // serializes configuration reloads and key rotations
	limited     *configs.File
	hups        <-chan os.Signal
	reloads     *server.Reloads[contract.Reloaded] // nil without a configuration file
	reread      func() (*configs.File, error)      // reads the configuration
	levels      *configs.LogLevels                 // log levels; nil if they cannot change
	relevel     func(configs.Log)
}

// assemble opens the listeners, the record and the keys of a configuration, and
// wires the rest to them. Nothing runs until [program.run]; close what was
// assembled.
func assemble(ctx context.Context, file *configs.File, log *slog.Logger) (*program, error) {
	p := &program{
		file: file, log: log, metrics: newMetrics(),
		publicMux: http.NewServeMux(), adminMux: http.NewServeMux(), socketMux: http.NewServeMux(),
		ended: make(chan struct{}), publicURL: file.HTTP.PublicURL, served: map[string]bool{},
	}
	p.limits.Store(&file.Limits)
	p.logins, p.writes = p.newAddresses()
	p.counters, p.rates, p.strangers, p.resolving = bridge.NewMetrics(p.metrics), home.NewRates(), home.NewStrangers(), identity.NewResolveSeconds(p.metrics)
	p.skippedKeys = identity.NewSkippedKeys(p.metrics)
	p.client = newClient(p.file)
	var err error
	if p.peering, err = newRegistryClient(p.file, p.client); err != nil {
		return nil, err
	}
	if err := p.openTraces(ctx); err != nil {
		return nil, err
	}
	if err := p.listen(ctx); err != nil {
		return nil, err
	}
	if err := p.openRecord(ctx); err != nil {
		return nil, errors.Join(err, p.close())
	}
	if err := p.openClock(ctx); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.modes = server.NewPeerModes(p.record)
	if err := errors.Join(p.readModes(ctx), server.LogUnproved(ctx, p.record, p.log)); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.openRelay(ctx)
	p.configured.Store(&[]federation.BoundName{})
	p.gateway = p.newGateway()
	p.lookups = identity.NewLookups(p.gateway.Learned)
	p.lookups.Caught = p.caughtAt("lookup")
	p.openKeys()
	if err := errors.Join(p.gateway.SeedStrangers(ctx, time.Now()), p.gateway.ReadBlocks(ctx)); err != nil {
		return nil, errors.Join(err, p.close())
	}
	if err := p.openMeeting(ctx, log); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.homes = newHomes(p)
	p.hooks = p.newHooks()
	p.homes.handler().Mount(p.publicMux)
	p.metrics.MustRegister(p.gateway.Collectors(context.WithoutCancel(ctx))...)
	p.metrics.MustRegister(p.clock.ClockCollector())
	p.metrics.MustRegister(p.gateway.MachineCollector(file.Path("."), file.TLSConfig()))
	p.limit(file)
	if err := p.openOperator(ctx); err != nil {
		return nil, errors.Join(err, p.close())
	}
	if err := p.mountAdmin(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	identity.Publisher{Home: p.homeID(), PublicURL: p.publicURL, Keyring: p.keyring, Keys: p.record}.Mount(p.publicMux)
	bridge.ContextServer{Blobs: p.record, Log: p.log}.Mount(p.publicMux)
	p.voiceHub.Mount(p.publicMux)
	return p, nil
}

// listen opens the ports first: a taken one ends the program before it touched
// anything.
func (p *program) listen(ctx context.Context) error {
	var err error
	cfg := httpd.Config{Listen: p.file.HTTP.Listen, CORSOrigins: p.file.HTTP.CORSOrigins, TrustedProxies: p.file.HTTP.TrustedProxies, ForwardedHeader: p.file.HTTP.ForwardedHeader, Limits: p.httpLimits(), Panicked: p.handlerPanicked}
	if p.file.HTTP.TLS {
		cfg.TLS = listenerTLS(p.file)
	}
	if p.public, err = openListener(ctx, cfg, p.publicMux, p.log); err != nil {
		return err
	}
	if p.public != nil && strings.HasSuffix(p.file.HTTP.Listen, ":0") { // the system chose the port
		p.publicURL = (&url.URL{Scheme: "http", Host: p.public.Addr().String()}).String()
	}
	p.admin, err = openListener(ctx, httpd.Config{Listen: p.file.Admin.Listen, Hosts: operatorapi.ListenerHosts(p.file.Home.Name, p.file.Admin.Listen), Panicked: p.handlerPanicked}, p.adminMux, p.log)
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
	if err := backup.CheckRestored(targetOf(p.file)); err != nil {
		return err
	}
	var err error
	if p.record, err = openRecord(ctx, p.file, p.metrics); err != nil {
		return err
	}
	if err := backup.RemoveLeftovers(p.file.Path(".")); err != nil {
		p.log.LogAttrs(ctx, slog.LevelWarn, "leftovers of killed backups not removed", slog.Any("err", err))
	}
	if err := p.warn(ctx); err != nil {
		return err
	}
	var adopted bool
	if p.keyring, adopted, err = keyFolder(p.file).OpenFor(ctx, p.record, time.Now()); adopted {
		p.log.LogAttrs(ctx, slog.LevelInfo, "record adopts the keys in data_dir: it knew none", slog.String("home", p.file.Home.Name))
	}
	return err
}

// clockFile is the file below data_dir with the last confirmed time.
const clockFile = "clock"

// openClock opens the confirmed time, by which the overlaps of the gateway's own keys also end.
func (p *program) openClock(ctx context.Context) error {
	newest, err := p.record.NewestFiled(ctx)
	if err != nil {
		return err
	}
	p.clock = server.NewClock(server.ClockConfig{
		Wall: func() time.Time { return time.Now().Round(0) }, Uptime: server.Uptime(), Synced: server.Synced,
		Others: func(since time.Time) []time.Duration { return p.gateway.Links().OtherClocks(since) },
		Mark:   p.file.Path(clockFile), Newest: newest,
	}, p.log)
	p.keyring.EndBy(p.clock.Now)
	return nil
}

// warn logs problems in data_dir that require an operator.
func (p *program) warn(ctx context.Context) error {
	for _, path := range recordFiles(p.file) {
		if mode, loose := checkup.Loose(path); loose {
			p.log.LogAttrs(ctx, slog.LevelWarn, "other users can access the record: restrict its mode", slog.String("path", path), slog.String("mode", fmt.Sprintf("%04o", mode)))
		}
	}
	unfinished, err := unfinishedErasures(p.file)
	for _, did := range unfinished {
		p.log.LogAttrs(ctx, slog.LevelWarn, "an erasure was cut short: run baton erase again", slog.String("did", did))
	}
	return err
}

// caughtAt returns a function that logs and counts a contained panic in a part of the gateway.
func (p *program) caughtAt(where string) func(ctx context.Context, err error) {
	return func(ctx context.Context, err error) { p.counters.Fault(ctx, p.log, where, err) }
}

// handlerPanicked counts a panic in a request handler. The HTTP server logs it.
func (p *program) handlerPanicked() { p.counters.Faults.WithLabelValues(bridge.RequestFault).Inc() }

// openKeys makes the directory of DIDs and the source of their keys, which include the current
// keys of the gateway.
func (p *program) openKeys() {
	directory := newDirectory(p.file, p.client, identity.DirectoryConfig{
		Web: p.homeAddress, Home: p.homeDocument, Caught: p.caughtAt("lookup"), Fetched: p.noteFetched,
	}, p.keyring.ServerKeys(p.homeID(), p.clock.Now())...)
	p.directory.Store(directory)
	source := newKeySource(p.file, p.record, p.client, p.gateway.Links().KeyServer, p.gateway.Learned, p.resolving, directory)
	p.keys.Store(source)
	p.atHand.Store(source.AtHand(identity.NewTimed(directory.Offline(), p.resolving), p.lookups))
}

// openRelay begins to connect to the servers that wake waiters in all replicas; a home of
// one gateway needs none. Without it waiters look by themselves.
func (p *program) openRelay(ctx context.Context) {
	own := readMeeting(p.file).Own
	if !own.Named() {
		p.relay = relay.Local()
		return
	}
	var err error
	if p.relay, err = relay.Join(own, p.homeID(), p.log); err != nil {
		p.log.LogAttrs(ctx, slog.LevelError, "relay not opened", slog.Any("err", err))
	}
}

// close ends the record after what was begun is on disk.
func (p *program) close() error {
	err := p.closeListeners()
	disconnected := make(chan struct{})
	go func() {
		defer close(disconnected)
		p.disconnect()
	}()
	select {
	case <-disconnected:
	case <-time.After(closeTime):
	}
	p.traces.Close()
	if p.record != nil {
		err = errors.Join(err, p.record.Close())
	}
	return err
}

// closeTime is how long connections may take to close, which flush what waits in them: the
// record does not wait for a hub that stopped reading.
const closeTime = 500 * time.Millisecond

// disconnect ends what the gateway holds beside its record.
func (p *program) disconnect() {
	if p.lookups != nil {
		p.lookups.Close()
	}
	if p.homes != nil {
		p.homes.client.Close()
	}
	if p.hub != nil {
		p.hub.Close()
	}
	p.host.Close()
	p.relay.Close()
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

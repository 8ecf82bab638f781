package server

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
	"github.com/baton-gateway/baton/federation/store/deliveries"
)

// HomeNetwork is the network label of other homes, and of actions of the home itself.
const HomeNetwork = "home"

// Entry is a link of a [LinkSet].
type Entry struct {
	Link bridge.Link
	// Source is the origin of the link. A link with the same name and source keeps running when a
	// new configuration is applied.
	Source Source
	// Added reports whether an operator added the link at run time, outside the configuration.
	Added bool
}

// Source is the origin of a link, such as a table of the configuration.
type Source interface {
	Same(other Source) bool
}

// judgedAtOnce bounds the concurrent judgements of one link. It is large enough for commits to
// share an fsync, and small enough not to delay other links.
const judgedAtOnce = 64

type running struct {
	Entry
	supervisor *bridge.Supervisor
	lease      lease
	power      power
	judging    chan struct{} // has a token for each step in judgement
	stop       context.CancelFunc
	done       chan struct{}
}

// LinkSet runs the links of one gateway. One goroutine at a time applies configurations to it; all
// other methods may be called concurrently.
type LinkSet struct {
	deps    LinkDeps
	current atomic.Pointer[snapshot]
	applied chan struct{} // receives a token after each change
}

// LinkDeps are the dependencies of a [LinkSet].
type LinkDeps struct {
	Outbox deliveries.Rows
	// RunExclusive calls do each time this replica gets a lease, until ctx ends. It returns the
	// cause of ctx: see [registry.Record.RunExclusive].
	RunExclusive func(ctx context.Context, lease string, do func(ctx context.Context)) error
	PubSub       bridge.PubSub
	Metrics      *bridge.Metrics
	Tracer       bridge.Tracer // nil records no traces
	Log          *slog.Logger
	// Lost is called with the name of a link after the loss of its connection; it may be nil. It
	// must not block.
	Lost func(link string)
}

// NewLinkSet returns a set without links.
func NewLinkSet(deps LinkDeps) *LinkSet {
	l := &LinkSet{deps: deps, applied: make(chan struct{}, 1)}
	l.current.Store(newSnapshot(nil))
	return l
}

// Apply runs exactly these links until ctx ends or [LinkSet.Stop]. It waits until removed and
// changed links have ended, and starts the new ones.
func (l *LinkSet) Apply(ctx context.Context, entries []Entry) {
	before := map[string]*running{}
	for _, r := range l.current.Load().all {
		before[r.Link.Name()] = r
	}
	var after, fresh []*running
	for _, entry := range entries {
		if old, ok := before[entry.Link.Name()]; ok && old.same(entry) {
			delete(before, entry.Link.Name())
			after = append(after, old)
			continue
		}
		r := l.open(entry)
		after, fresh = append(after, r), append(fresh, r)
	}
	for _, old := range before {
		old.stop()
		<-old.done
	}
	l.current.Store(newSnapshot(after))
	for _, r := range fresh {
		l.start(ctx, r)
	}
	select {
	case l.applied <- struct{}{}:
	default: // one token covers several changes
	}
}

func (r *running) same(entry Entry) bool {
	if r.Source == nil || entry.Source == nil {
		return r.Source == nil && entry.Source == nil
	}
	return r.Source.Same(entry.Source)
}

func (l *LinkSet) open(entry Entry) *running {
	r := &running{
		Entry: entry, supervisor: bridge.NewSupervisor(entry.Link, l.deps.Outbox, l.deps.PubSub, l.deps.Metrics, l.deps.Log),
		lease: lease{asked: time.Now()}, judging: make(chan struct{}, judgedAtOnce), done: make(chan struct{}),
	}
	r.supervisor.Trace(l.deps.Tracer)
	if l.deps.Lost != nil {
		r.supervisor.OnLoss(func() { l.deps.Lost(entry.Link.Name()) })
	}
	return r
}

func (l *LinkSet) start(ctx context.Context, r *running) {
	ctx, r.stop = context.WithCancel(ctx)
	go func() {
		defer close(r.done)
		l.supervise(ctx, r)
	}()
}

func (l *LinkSet) run(ctx context.Context, r *running) {
	for ctx.Err() == nil {
		err := fault.Catch(func() error { l.runOnce(ctx, r); return nil })
		if l.deps.Metrics.Fault(ctx, l.deps.Log, "link "+r.Link.Name(), err) { // a session contains its own panics
			bridge.Sleep(ctx, faultWait)
		}
	}
}

func (l *LinkSet) runOnce(ctx context.Context, r *running) {
	ctx, end := r.power.begin(ctx)
	defer end()
	if ctx.Err() != nil {
		return
	}
	l.deps.Log.LogAttrs(ctx, slog.LevelInfo, "link starts", slog.String("network", r.Link.Network()), slog.String("link", r.Link.Name()))
	_ = r.supervisor.Run(ctx) // its error is the end of ctx
	if closer, ok := r.Link.(io.Closer); ok {
		_ = closer.Close() // a port held between two sessions
	}
}

// Stop stops all links and waits for them.
func (l *LinkSet) Stop() {
	for _, r := range l.current.Load().all {
		r.stop()
	}
	for _, r := range l.current.Load().all {
		<-r.done
	}
}

// Entries returns the links in the order of the configuration.
func (l *LinkSet) Entries() []Entry {
	all := l.current.Load().all
	entries := make([]Entry, len(all))
	for i, r := range all {
		entries[i] = r.Entry
	}
	return entries
}

// Entry returns the named link, or the zero Entry.
func (l *LinkSet) Entry(name string) Entry {
	if r := l.current.Load().named[name]; r != nil {
		return r.Entry
	}
	return Entry{}
}

// Mounted returns the links served by the HTTP listener.
func (l *LinkSet) Mounted() []Entry {
	return slices.DeleteFunc(l.Entries(), func(entry Entry) bool {
		_, mounted := entry.Link.(bridge.Mounted)
		return !mounted
	})
}

// Has reports whether the named link exists.
func (l *LinkSet) Has(name string) bool { return l.current.Load().named[name] != nil }

// Named returns the named link, or nil.
func (l *LinkSet) Named(name string) bridge.Link { //nolint:ireturn // links are of many types
	if r := l.current.Load().named[name]; r != nil {
		return r.Link
	}
	return nil
}

// ChannelLinks returns the links for offers from other networks, in the order of the configuration.
func (l *LinkSet) ChannelLinks() []bridge.ChannelLink { return l.current.Load().placers }

// loggedInto returns the first link with a user logged in as a DID, or "". It blocks on the
// owners of the links.
func (l *LinkSet) loggedInto(ctx context.Context, did federation.DID) string {
	for _, p := range l.ChannelLinks() {
		if p.Online(ctx, federation.Binding{DID: did}) {
			return p.Name()
		}
	}
	return ""
}

// Present reports whether a user with a proved DID is in a channel now, on any link.
func (l *LinkSet) Present(ctx context.Context, venue string, did federation.DID) bool {
	return slices.ContainsFunc(l.ChannelLinks(), func(p bridge.ChannelLink) bool {
		gatherer, ok := p.(bridge.MembershipLink)
		return ok && gatherer.Present(ctx, venue, did)
	})
}

// Pusher returns the link that posts to webhooks, or nil.
func (l *LinkSet) Pusher(h federation.Webhook) bridge.Pusher { //nolint:ireturn // links are of many types
	for pusher := range able[bridge.Pusher](l) {
		if pusher.Pushes(h) {
			return pusher
		}
	}
	return nil
}

// Authenticate returns the participant of the token in a request, and false if no link accepts the
// token. It blocks on the record and returns its errors.
func (l *LinkSet) Authenticate(r *http.Request) (who bridge.Authenticated, ok bool, err error) {
	for issuer := range able[bridge.Authenticator](l) {
		if who, ok, err = issuer.Authenticate(r); ok || err != nil {
			return who, ok, err
		}
	}
	return who, false, nil
}

// KeyServer returns the server that publishes the keys of a link's users, and false if there is
// none.
func (l *LinkSet) KeyServer(link string) (address string, ok bool) {
	server, ok := l.Named(link).(bridge.KeyServer)
	if !ok {
		return "", false
	}
	return server.KeyServer(), true
}

// ServeHTTP serves a route with the running link that registered it, or answers 404.
func (l *LinkSet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for served := range able[bridge.Served](l) {
		if served.Pattern() == r.Pattern {
			served.ServeHTTP(w, r)
			return
		}
	}
	http.NotFound(w, r)
}

func able[Ability any](l *LinkSet) iter.Seq[Ability] {
	return func(yield func(Ability) bool) {
		for _, r := range l.current.Load().all {
			if able, ok := r.Link.(Ability); ok && !yield(able) {
				return
			}
		}
	}
}

func (l *LinkSet) expect(id federation.EventID, links []string) {
	for _, name := range links {
		if r := l.current.Load().named[name]; r != nil {
			r.supervisor.Fresh(id)
		}
	}
}

// acquire waits for a link's turn to judge a step. The caller must call leave afterwards. The error
// is that of ctx.
func (l *LinkSet) acquire(ctx context.Context, link string) (leave func(), err error) {
	r := l.current.Load().named[link]
	if r == nil {
		return func() {}, nil
	}
	select {
	case r.judging <- struct{}{}:
		return func() { <-r.judging }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// probe makes a link retry the waiting deliveries of a DID, without blocking.
func (l *LinkSet) probe(link string, did federation.DID) {
	if r := l.current.Load().named[link]; r != nil {
		r.supervisor.Heard(did)
	}
}

// Routed retries deliveries to a DID that had no route, or all of them if it is "". It blocks on
// the disk.
func (l *LinkSet) Routed(ctx context.Context, did federation.DID) {
	if did != "" {
		l.probe(federation.UnroutedLink, did)
		return
	}
	if err := l.deps.Outbox.Hurry(ctx, federation.UnroutedLink); err != nil && ctx.Err() == nil {
		l.deps.Log.LogAttrs(ctx, slog.LevelError, "unrouted steps not tried again", slog.Any("err", err))
	}
	l.deps.PubSub.Wake(bridge.OutboxTopic(federation.UnroutedLink))
}

// LinkStatus is a link with its status.
type LinkStatus = bridge.LinkStatus

// Statuses returns the links in the order of the configuration, with their status.
func (l *LinkSet) Statuses() []LinkStatus {
	var all []LinkStatus
	for _, r := range l.current.Load().all {
		status := r.supervisor.Status()
		if status.State != bridge.LinkUp && r.lease.elsewhere() {
			status = bridge.Status{State: bridge.LinkStandby}
		}
		all = append(all, LinkStatus{Link: r.Link, Status: status})
	}
	return all
}

// Down returns the gateway's own links that are down on all replicas, in the order of the
// configuration. For links to other homes, see [LinkSet.HomesDown].
func (l *LinkSet) Down() []string {
	return l.down(func(link bridge.Link) bool { _, home := link.(bridge.PeerHome); return !home })
}

// HomesDown is like Down, for the links to other homes.
func (l *LinkSet) HomesDown() []string {
	return l.down(func(link bridge.Link) bool { _, home := link.(bridge.PeerHome); return home })
}

func (l *LinkSet) down(asked func(bridge.Link) bool) []string {
	var names []string
	for _, r := range l.current.Load().all {
		if asked(r.Link) && !r.supervisor.Up() && !r.lease.elsewhere() {
			names = append(names, r.Link.Name())
		}
	}
	return names
}

func (l *LinkSet) channelLinkUp(name string) (placer bridge.ChannelLink, up bool) { //nolint:ireturn // the link is any network's
	r := l.current.Load().named[name]
	if r == nil {
		return nil, false
	}
	placer, ok := r.Link.(bridge.ChannelLink)
	return placer, ok && r.supervisor.Up() && r.lease.ours.Load()
}

func (l *LinkSet) readsInbox(name string) bool {
	_, ok := l.Named(name).(bridge.InboxReader)
	return ok
}

func (l *LinkSet) isHome(name string) bool { return l.current.Load().isHome(name) }

// snapshot is an immutable set of running links, grouped by use, so that a thousand known homes do
// not slow down a step.
type snapshot struct {
	all     []*running // in the order of the configuration
	named   map[string]*running
	placers []bridge.ChannelLink // for offers from other networks
	asked   []*running           // Carries selects their deliveries
}

func newSnapshot(all []*running) *snapshot {
	s := &snapshot{all: all, named: make(map[string]*running, len(all))}
	for _, r := range all {
		s.named[r.Link.Name()] = r
		if placer, ok := r.Link.(bridge.ChannelLink); ok {
			s.placers = append(s.placers, placer)
		}
		if _, ok := r.Link.(bridge.PeerHome); !ok {
			s.asked = append(s.asked, r)
		}
	}
	return s
}

func (s *snapshot) isHome(name string) bool {
	r := s.named[name]
	if r == nil {
		return false
	}
	_, ok := r.Link.(bridge.PeerHome)
	return ok
}

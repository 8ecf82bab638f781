package simulation_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/delivery"
	"github.com/baton-gateway/baton/federation/home"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/relay"
	"github.com/baton-gateway/baton/federation/routing"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/federation/store/engine"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
	"github.com/baton-gateway/baton/translate/dialect"
)

// site is the place of one home: its name, key and disk, which outlive its process.
type site struct {
	world   *world
	number  int
	id      federation.HomeID
	key     federation.SigningKey
	skew    atomic.Int64    // of its clock, in nanoseconds
	folder  string          // of the current record
	disk    *storetest.Disk // below the folder, if a power cut loses unsynced writes; nil if not, and while the home is down
	starts  int
	backup  string                  // folder with an older copy of the record; "" for none
	running atomic.Pointer[process] // nil while the home is down
}

// live returns the process of the home, nil while the home is down.
func (s *site) live() *process { return s.running.Load() }

// now is the clock of the home.
func (s *site) now() time.Time { return time.Now().Add(time.Duration(s.skew.Load())) }

// process is a home between a start and the next crash.
type process struct {
	*site

	ctx    context.Context //nolint:containedctx // of the process, for all of its work
	cancel context.CancelFunc
	group  sync.WaitGroup

	record   *registry.Record
	home     *home.Home
	locator  *routing.Locator
	wakes    *relay.Relay
	peers    []*relay.Peer // in the order of the sites
	unrouted *delivery.Worker
	mux      *http.ServeMux
	settling sync.Mutex

	dead   atomic.Bool  // it is killed: its messages count no more, nor do steps, pending steps and locations that it writes
	writes atomic.Int64 // so many writes until it dies; 0 for no death
	after  atomic.Bool  // the last write is made
}

// errKilled is the result of a write after the crash of its process.
var errKilled = &federation.UnavailableError{What: "record", Err: errors.New("killed")}

// start starts a home with the record in its folder.
func (s *site) start() {
	w := s.world
	s.starts++
	p := &process{site: s, wakes: relay.Local()}
	p.ctx, p.cancel = context.WithCancel(w.ctx)
	options := []engine.Option{engine.NoSync}
	if w.profile.power {
		s.disk, options = storetest.Mount(s.folder), nil
	}
	var err error
	if p.record, err = registry.Open(p.ctx, filepath.Join(s.folder, recordFile), prometheus.NewRegistry(), options...); err != nil {
		w.fail("open", "%s: %v", s.id, err)
		p.cancel()
		return
	}
	log := slog.New(slog.DiscardHandler)
	p.locator = routing.New(routing.Config{
		Home: s.id, Record: mortal{storetest.Bound(p.record), p}, Outboxes: p.record, Peers: p, Documents: noDocuments{}, Routed: p.routed, Log: log,
	})
	entropy := &entropy{random: rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "%d %s %d", w.seed, s.id, s.starts)))}
	p.home = &home.Home{
		Rules: home.Rules{ID: s.id, Kinds: lifecycle.Shipped(), Limits: home.Limits{ClockSkew: 2 * time.Minute}},
		Key:   s.key, Record: mortal{storetest.Bound(p.record), p}, Keys: w.keys, Entropy: entropy,
		Route: func(ctx context.Context, ev federation.Event, after federation.View) (to federation.Fanout, err error) {
			to.Links, err = p.locator.Recipients(ctx, ev, after, s.now())
			return to, err
		},
		Same:  func(_ context.Context, a, b federation.DID) (bool, error) { return a == b, nil },
		Write: dialect.Write, Read: dialect.Read,
	}
	deps := relay.Deps{
		Home: s.id, Boot: fmt.Sprintf("start %d of %s", s.starts, s.id), Record: mortal{storetest.Bound(p.record), p}, Gateway: p, Mailboxes: p.locator,
		Signer: signing.HomeSigner{Key: func() federation.SigningKey { return s.key }, Keys: func() federation.KeySource { return w.keys }},
		Poster: p, PubSub: p.wakes, Log: log, Read: dialect.FromDocument, ReadText: readText, Topic: rulingTopic,
		MaxHops: func() int { return 0 }, Linked: p.locator.Linked, Now: s.now,
	}
	for _, other := range w.sites {
		if other != s {
			p.peers = append(p.peers, relay.NewPeer(relay.PeerConfig{Home: other.id, URL: "https://" + string(other.id), Path: relay.ByHTTPS, Mode: relay.Allow}, deps))
		}
	}
	p.mux = http.NewServeMux()
	(&relay.PeerHandler{Deps: deps, Peer: p.peer, PublicURL: "https://" + string(s.id), ClockSkew: func() time.Duration { return 0 }}).Mount(p.mux)
	p.record.OnFiled(func(destination string) { p.wakes.Wake(outboxTopic(destination)) })
	p.unrouted = delivery.NewWorker(p.destination(routing.Unrouted, func(ctx context.Context, d federation.Delivery) error {
		return p.locator.Deliver(ctx, d, p.now())
	}), p.record.Rows())
	s.running.Store(p)
	p.run()
}

const recordFile = "baton.db"

// run starts the work of the process.
func (p *process) run() {
	p.group.Go(func() { p.serve(p.ctx, p.unrouted, routing.Unrouted) })
	for _, peer := range p.peers {
		p.group.Go(func() { p.link(peer) })
	}
	p.group.Go(func() {
		for p.pause(sweepEvery) {
			if _, err := p.home.Sweep(p.ctx, p.now()); err != nil && !p.dead.Load() && p.ctx.Err() == nil {
				p.world.fail("sweep", "%s: %v", p.id, err)
			}
		}
	})
}

const (
	sweepEvery = 5 * time.Second
	// The waits between two sessions with a home.
	firstRetry, lastRetry = time.Second, 8 * time.Second
)

// pause waits, and reports whether the process still runs.
func (p *process) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// link keeps up the link to another home, as a supervisor of links does.
func (p *process) link(peer *relay.Peer) {
	wait := firstRetry
	for p.ctx.Err() == nil {
		ctx, end := context.WithCancel(p.ctx)
		worker := delivery.NewWorker(p.destination(peer.Name(), peer.Deliver), p.record.Rows())
		var working sync.WaitGroup
		_ = peer.Run(ctx, func() {
			wait = firstRetry
			working.Go(func() { p.serve(ctx, worker, peer.Name()) })
		})
		end()
		working.Wait()
		select {
		case <-peer.Reconnected():
		case <-time.After(wait):
		case <-p.ctx.Done():
		}
		wait = min(2*wait, lastRetry)
	}
}

func (p *process) serve(ctx context.Context, worker *delivery.Worker, name string) {
	wake, stop := p.wakes.Subscribe(outboxTopic(name))
	defer stop()
	if err := worker.Run(ctx, wake); err != nil {
		p.world.fail("panic", "delivery of %s to %s: %v", p.id, name, err)
	}
}

// destination returns an outbox with the policy of links. Its waits have no jitter, and a window
// of one lane keeps the order of batches the same in each run of a seed.
func (p *process) destination(name string, deliver func(context.Context, federation.Delivery) error) delivery.Destination {
	policy := delivery.ToLink()
	policy.Retry.Jitter, policy.Window, policy.Look = false, 1, 20*time.Second
	return delivery.Destination{Name: name, Policy: policy, Pace: delivery.NewPace(0), Log: slog.New(slog.DiscardHandler), Deliver: deliver}
}

func (p *process) routed(ctx context.Context, did federation.DID) {
	if did != "" {
		p.unrouted.Probe(did)
		return
	}
	p.group.Go(func() {
		if p.pause(apart) {
			_ = p.record.Rows().Hurry(ctx, routing.Unrouted) // an unhurried row is tried later
			p.wakes.Wake(outboxTopic(routing.Unrouted))
		}
	})
}

// apart keeps two events of one goroutine apart: if both are ready, the runtime chooses one by chance.
const apart = time.Microsecond

func outboxTopic(name string) string { return "outbox." + name }

func rulingTopic(of federation.HomeID) string { return "ruling." + string(of) }

func readText(document, signature string) (federation.Text, error) {
	return signing.ReadText(document, signature, identity.ParseKeyDID)
}

// stop ends the process at once. The caller has copied its record before, if it needs a copy.
func (s *site) stop() {
	p := s.live()
	s.running.Store(nil)
	p.dead.Store(true)
	p.cancel()
	p.group.Wait()
	_ = p.record.Close() // the next process has a copy
	if s.disk != nil {
		s.disk.Unmount()
		s.disk = nil
	}
}

// crash ends the process, and leaves the files of its record as they are now in a new folder. After
// a power cut the index of the write-ahead log is gone, and perhaps unsynced writes.
func (s *site) crash(powerCut bool) {
	var folder string
	if powerCut && s.disk != nil {
		folder = s.cutPower()
	} else {
		folder = s.copyRecord(powerCut)
	}
	s.stop()
	s.folder = folder
}

// cutPower puts a possible state of the disk after a power cut into a new folder.
func (s *site) cutPower() (folder string) {
	random := rand.New(rand.NewPCG(s.world.seed, uint64(s.number)<<32+uint64(s.starts)))
	folder, err := os.MkdirTemp(s.world.folder, string(s.id)+"-")
	if err == nil {
		err = storetest.Crash(s.disk.Done(), random, folder)
	}
	if err != nil {
		s.world.fail("cut power", "%s: %v", s.id, err)
	}
	s.world.carrier.count("power cuts")
	return folder
}

// dieSoon ends the process at one of its next writes of a step, or operations on the disk.
func (p *process) dieSoon(pick uint64) {
	if p.disk == nil || pick%3 > 0 {
		p.after.Store(pick%2 == 0)
		p.writes.Store(1 + int64(pick/2%4))
		return
	}
	left := 1 + pick/3%64
	p.disk.FailWith(func(storetest.Deed) int32 {
		if left--; left > 0 {
			return sqlite3.SQLITE_OK
		}
		left = 1
		p.dead.Store(true)
		return sqlite3.SQLITE_IOERR
	})
}

// liveOn withdraws the end of a process that still runs.
func (p *process) liveOn() {
	p.writes.Store(0)
	if p.disk != nil && !p.dead.Load() {
		p.disk.FailWith(nil)
	}
}

// copyRecord copies the record into a new folder.
func (s *site) copyRecord(powerCut bool) (folder string) {
	folder, err := os.MkdirTemp(s.world.folder, string(s.id)+"-")
	for _, suffix := range []string{"", engine.WALSuffix, "-shm"} {
		if err == nil && (suffix != "-shm" || !powerCut) {
			err = copyFile(filepath.Join(s.folder, recordFile+suffix), filepath.Join(folder, recordFile+suffix))
		}
	}
	if err != nil {
		s.world.fail("copy", "%s: %v", s.id, err)
	}
	return folder
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}

// entropy is a source of random bytes that is the same in each run of a seed.
type entropy struct {
	mu     sync.Mutex
	random *rand.ChaCha8
}

var _ io.Reader = (*entropy)(nil)

// Read implements [io.Reader].
func (e *entropy) Read(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.random.Read(b)
}

// keys knows the keys of the homes and of did:keys.
type keys struct {
	homes map[federation.DID]ed25519.PublicKey
}

// Keys implements [federation.KeySource].
func (k keys) Keys(_ context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	if key, err := identity.ParseKeyDID(q.DID); err == nil {
		return []ed25519.PublicKey{key}, nil
	}
	if key, ok := k.homes[q.DID]; ok {
		return []ed25519.PublicKey{key}, nil
	}
	return nil, &federation.UnavailableError{What: "keys", Err: errors.New("unknown")}
}

// KeyOwner implements [federation.KeySource].
func (keys) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}

// newKey returns a key that is the same in each run.
func newKey(name string) federation.SigningKey {
	seed := sha256.Sum256([]byte(name))
	private := ed25519.NewKeyFromSeed(seed[:])
	public, _ := private.Public().(ed25519.PublicKey) // always is one
	return federation.SigningKey{Public: public, DID: identity.KeyDID(public), Sign: func(_ context.Context, m []byte) ([]byte, error) {
		return ed25519.Sign(private, m), nil
	}}
}

// mortal is a record whose process may crash at a write of a step: before it, or after it and
// before any effect of it.
type mortal struct {
	registry.Bound

	of *process
}

// write makes a write, unless the process is dead or dies.
func (m mortal) write(do func() error) error {
	if script := m.of.world.script; script != nil && !m.of.dead.Load() {
		script.write(m.of)
	}
	switch left := m.of.writes.Load(); {
	case m.of.dead.Load():
		return errKilled
	case left > 0 && m.of.writes.CompareAndSwap(left, left-1) && left == 1:
		if m.of.after.Load() {
			_ = do()
		}
		m.of.dead.Store(true)
		return errKilled
	}
	return do()
}

// Append implements [home.Record].
func (m mortal) Append(ctx context.Context, f federation.Filing) (entry federation.Entry, err error) {
	err = m.write(func() (err error) { entry, err = m.Bound.Append(ctx, f); return err })
	return entry, err
}

// KeepPending implements [home.Record].
func (m mortal) KeepPending(ctx context.Context, p federation.Pending, after federation.Version) error {
	return m.write(func() error { return m.Bound.KeepPending(ctx, p, after) })
}

// ResolvePending implements [home.Record].
func (m mortal) ResolvePending(ctx context.Context, id federation.HandoffID, from federation.DID, event federation.EventID) error {
	return m.write(func() error { return m.Bound.ResolvePending(ctx, id, from, event) })
}

// KeepMailboxLocation implements [routing.Record].
func (m mortal) KeepMailboxLocation(ctx context.Context, l federation.MailboxLocation) error {
	return m.write(func() error { return m.Bound.KeepMailboxLocation(ctx, l) })
}

// noDocuments are the documents of did:keys: they name no mailbox home.
type noDocuments struct{}

// MailboxURL implements [routing.Documents].
func (noDocuments) MailboxURL(context.Context, federation.DID) (string, error) { return "", nil }

// HostHome implements [routing.Documents].
func (noDocuments) HostHome(context.Context, string) (federation.HomeID, error) { return "", nil }

// peer returns another home, nil if it is no peer.
func (p *process) peer(to federation.HomeID) *relay.Peer {
	i := slices.IndexFunc(p.peers, func(peer *relay.Peer) bool { return peer.Home() == to })
	if i < 0 {
		return nil
	}
	return p.peers[i]
}

// All implements [routing.Peers].
func (p *process) All() iter.Seq[routing.Peer] {
	return func(yield func(routing.Peer) bool) {
		for _, peer := range p.peers {
			if !yield(routing.Peer{Home: peer.Home(), URL: peer.URL()}) {
				return
			}
		}
	}
}

// Peer implements [routing.Peers].
func (p *process) Peer(to federation.HomeID) (routing.Peer, bool) {
	peer := p.peer(to)
	if peer == nil {
		return routing.Peer{}, false
	}
	return routing.Peer{Home: to, URL: peer.URL()}, true
}

// Houses implements [routing.Peers].
func (p *process) Houses(ctx context.Context, to federation.HomeID, did federation.DID) (bool, error) {
	return p.peer(to).Houses(ctx, did)
}

// Give implements [routing.Peers].
func (p *process) Give(ctx context.Context, to federation.HomeID, did federation.DID) error {
	return p.peer(to).Move(ctx, did)
}

// Deliver implements [routing.Peers].
func (p *process) Deliver(ctx context.Context, to federation.HomeID, d federation.Delivery) error {
	return p.peer(to).Deliver(ctx, d)
}

// DeliverText implements [routing.Peers].
func (p *process) DeliverText(ctx context.Context, to federation.HomeID, t federation.Text) error {
	return p.peer(to).DeliverText(ctx, t)
}

// ReportMisbehavior implements [routing.Peers].
func (p *process) ReportMisbehavior(ctx context.Context, to federation.HomeID, kind federation.MisbehaviorKind, why string) {
	p.peer(to).ReportMisbehavior(ctx, kind, why)
}

// Submit implements [relay.Gateway], with the effects of the gateway of a server.
func (p *process) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	judged, err := p.home.Submit(ctx, ev, p.now())
	p.follow(ctx, judged, err)
	if err == nil && !judged.Duplicate && ev.Arrival.Home != "" {
		p.locator.LearnFromStep(ctx, ev.Actor(), ev.Provenance, ev.Arrival.Home, p.now())
	}
	return judged, err
}

// FileRuled implements [relay.Gateway].
func (p *process) FileRuled(ctx context.Context, ev federation.Event, r federation.Ruling) (federation.Judgement, error) {
	judged, err := p.home.FileRuled(ctx, ev, r, p.now())
	p.follow(ctx, judged, err)
	if err == nil && !judged.Duplicate && ev.Verb == federation.Offer && r.Home != p.id {
		p.locator.LearnFromStep(ctx, ev.Actor(), ev.Provenance, r.Home, p.now())
	}
	return judged, err
}

// follow asks the home of a remote handoff for a ruling, or settles the steps that waited for this
// one.
func (p *process) follow(ctx context.Context, judged federation.Judgement, err error) {
	switch {
	case err != nil:
	case !judged.View.Remote:
		p.unrouted.Probe(judged.Entry.Event.Actor())
	case judged.Awaits:
		p.wakes.Wake(rulingTopic(judged.View.Home))
	case !judged.Duplicate:
		p.settle(context.WithoutCancel(ctx), judged.View.ID)
		p.wakes.Wake(rulingTopic(judged.View.Home))
	}
}

func (p *process) settle(ctx context.Context, id federation.HandoffID) {
	p.settling.Lock()
	defer p.settling.Unlock()
	rulings, _ := p.home.Settle(ctx, id, p.now()) // unsettled steps are settled with the next step
	for _, r := range rulings {
		if r.Refused != nil {
			_ = p.ruledOut(ctx, r.Event, r.Refused)
		}
	}
}

// ruledOut notifies the sender of a refused step, and ends the wait of the step.
func (p *process) ruledOut(ctx context.Context, ev federation.Event, refused *federation.RefusalError) error {
	if p.dead.Load() {
		return errKilled
	}
	notice := federation.Notice{Kind: federation.NoticeRefused, Event: ev, Code: string(refused.Code), Why: refused.Sentence(), At: p.now()}
	if err := p.record.Notify(ctx, notice); err != nil {
		return err
	}
	return p.home.Drop(ctx, ev)
}

// RejectPending implements [relay.Gateway].
func (p *process) RejectPending(ctx context.Context, pending federation.Pending, code federation.RefusalCode, detail string) error {
	p.settling.Lock()
	defer p.settling.Unlock()
	held, err := p.record.ListPendingIn(ctx, pending.Event.Handoff)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(held, func(each federation.Pending) bool {
		return each.Event.ID == pending.Event.ID && each.Event.From == pending.Event.From
	}) {
		return nil
	}
	return p.ruledOut(ctx, pending.Event, federation.Refuse(pending.Event, code, detail))
}

// Say implements [relay.Gateway]. The agents of the simulation write no text.
func (*process) Say(_ context.Context, t federation.Text) (bool, error) {
	return false, t.Refuse(federation.UnknownVerb, "")
}

// Place implements [relay.Gateway].
func (*process) Place(context.Context, federation.Event) (federation.ChannelRef, error) {
	return federation.ChannelRef{}, nil
}

package identity

import (
	"context"
	"crypto/ed25519"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
)

// A lookup has one connection and at most one document in memory. A step beyond a limit is deferred.
const (
	lookupsPerUser = 4   // for one name on one link
	lookupsPerHost = 32  // for one host: the requests allowed by fetch.per_host in about 3 s
	lookupsTotal   = 256 // well below the usual limit of 1,024 open files
)

// A failed lookup has about 300 bytes.
const maxFailures = 4096

// Lookups contains a gateway's key lookups in progress, which [CachedKeys] starts. They block no
// caller. Lookups of the same key through the same link are merged. It is safe for concurrent use.
type Lookups struct {
	// Caught receives a panic in a lookup, which then fails. Set it before the first lookup.
	Caught func(ctx context.Context, err error)
	// found is called with each DID whose host answered.
	found   func(federation.DID)
	ctx     context.Context //nolint:containedctx // the lifetime of all lookups
	cancel  context.CancelFunc
	running fault.Group
	failed  *otter.Cache[miss, failedLookup]

	mu     sync.Mutex
	under  map[miss]*lookingUp
	users  map[string]map[*lookingUp]bool
	hosts  map[string]int
	total  int
	closed bool
}

type failedLookup struct {
	err   error
	until time.Time
}

type lookingUp struct {
	key        miss
	user, host string
	began      time.Time
	cancel     context.CancelFunc
	done       chan struct{}   // closed at the end
	links      map[string]bool // whose steps need it; guarded by Lookups.mu
}

// NewLookups returns an empty Lookups. Found is called with each DID whose host answered, and must not
// block.
func NewLookups(found func(federation.DID)) *Lookups {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // ended by Close
	return &Lookups{
		found: found, Caught: func(context.Context, error) {}, ctx: ctx, cancel: cancel,
		under: map[miss]*lookingUp{}, users: map[string]map[*lookingUp]bool{}, hosts: map[string]int{},
		failed: otter.Must(&otter.Options[miss, failedLookup]{MaximumSize: maxFailures, Executor: func(tidy func()) { tidy() }}),
	}
}

// Cancel ends the lookups needed only by one link.
func (l *Lookups) Cancel(link string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, one := range l.under {
		if delete(one.links, link); len(one.links) == 0 {
			one.cancel()
			delete(l.under, key) // the next step starts a new lookup
		}
	}
}

// Stop ends all lookups and prevents new ones, without blocking.
func (l *Lookups) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.cancel()
}

// Close is a Stop that waits for the lookups. It blocks on the record.
func (l *Lookups) Close() {
	l.Stop()
	l.running.Wait()
}

func (l *Lookups) failure(q federation.KeyQuery, now time.Time) error {
	if failed, ok := l.failed.GetIfPresent(keyOf(q)); ok && now.Before(failed.until) {
		return failed.err
	}
	return nil
}

// The result is nil at a limit.
func (l *Lookups) begin(q federation.KeyQuery, ask func(context.Context) error) *lookingUp {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := keyOf(q)
	if one := l.under[key]; one != nil {
		one.links[q.Link] = true
		return one
	}
	user, host := userOf(q), hostOf(q)
	if l.closed || len(l.users[user]) >= lookupsPerUser || l.hosts[host] >= lookupsPerHost || l.total >= lookupsTotal {
		return nil
	}
	ctx, cancel := context.WithCancel(l.ctx)
	one := &lookingUp{
		key: key, user: user, host: host, began: time.Now(), cancel: cancel,
		done: make(chan struct{}), links: map[string]bool{q.Link: true},
	}
	l.under[one.key] = one
	if l.users[one.user] == nil {
		l.users[one.user] = map[*lookingUp]bool{}
	}
	l.users[one.user][one] = true
	l.hosts[one.host]++
	l.total++
	l.running.Go(func() { l.run(ctx, one, ask) })
	return one
}

func (l *Lookups) run(ctx context.Context, one *lookingUp, ask func(context.Context) error) {
	defer close(one.done)
	defer one.cancel()
	err := fault.Catch(func() error { return ask(ctx) })
	if fault.Of(err) != nil {
		l.Caught(ctx, err)
		err = unavailable(string(one.key.did), 0, errors.New(err.Error()))
	}
	cancelled := ctx.Err() != nil
	_, away := errors.AsType[*federation.UnavailableError](err)
	if away && !cancelled {
		l.failed.Set(one.key, failedLookup{err: err, until: time.Now().Add(awayFor)})
	}
	l.discount(one)
	if !away && !cancelled {
		l.found(one.key.did)
	}
}

func (l *Lookups) discount(one *lookingUp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.under[one.key] == one {
		delete(l.under, one.key)
	}
	if delete(l.users[one.user], one); len(l.users[one.user]) == 0 {
		delete(l.users, one.user)
	}
	if l.hosts[one.host]--; l.hosts[one.host] == 0 {
		delete(l.hosts, one.host)
	}
	l.total--
}

func (l *Lookups) wait(ctx context.Context, one *lookingUp, q federation.KeyQuery) {
	patience := time.Until(one.began.Add(keyWait))
	if patience <= 0 || l.overdue(userOf(q), time.Now()) {
		return
	}
	over := time.NewTimer(patience)
	defer over.Stop()
	select {
	case <-one.done:
	case <-over.C:
	case <-ctx.Done():
	case <-l.ctx.Done():
	}
}

func (l *Lookups) overdue(user string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for one := range l.users[user] {
		if !now.Before(one.began.Add(keyWait)) {
			return true
		}
	}
	return false
}

// The link is included, because the server behind it is queried too.
func keyOf(q federation.KeyQuery) miss { return miss{q.DID, q.KeyID, q.Link} }

// The limits apply to the name on the link, or else the DID.
func userOf(q federation.KeyQuery) string {
	if q.Name == "" {
		return q.Link + " " + string(q.DID)
	}
	return q.Link + " " + q.Name
}

// hostOf returns the host of a did:web, the directory of did:plc, or else the server behind the link.
func hostOf(q federation.KeyQuery) string {
	switch q.DID.Method() {
	case "web":
		host, _, _ := strings.Cut(strings.TrimPrefix(string(q.DID), "did:web:"), ":")
		return host
	case "plc":
		return "did:plc"
	}
	return "link " + q.Link
}

// ErrNotCached is wrapped in the error of an offline source if a host must be queried.
var ErrNotCached = errors.New("its keys are not available yet")

func notAtHand(did federation.DID) error { return unavailable(string(did), 0, ErrNotCached) }

// keyWait is the longest wait of a step, from the start of its lookup: about twice the time for a
// distant host. The step is then deferred until the lookup ends.
const keyWait = time.Second

// CachedKeys is a [federation.KeySource] that never waits for a host, so that no slow host delays other
// steps. If a key is neither in memory nor in the record, the error wraps [ErrNotCached].
// [CachedKeys.Await] and [CachedKeys.Seek] start the missing lookups. Its methods may be called
// concurrently.
type CachedKeys struct {
	known   *KeySource // for judging steps; sends no requests
	probe   *KeySource // for finding the needed lookups
	asking  *KeySource
	lookups *Lookups
}

// Cached returns the part of a source that needs no network. Steps are judged with keys from offline,
// which is the source's offline directory or a wrapper around it. The given lookups fetch missing keys.
func (s *KeySource) Cached(offline Refresher, lookups *Lookups) *CachedKeys {
	return &CachedKeys{known: s.without(offline), probe: s.without(s.directory.Offline()), asking: s, lookups: lookups}
}

// The caches are shared.
func (s *KeySource) without(directory Refresher) *KeySource {
	known := *s
	known.directory, known.offline = directory, true
	return &known
}

// KeyOwner implements [federation.KeySource].
func (a *CachedKeys) KeyOwner(ctx context.Context, keyID string) (federation.DID, error) {
	return a.known.KeyOwner(ctx, keyID)
}

// Keys implements [federation.KeySource]. It returns the error of a failed lookup for a few seconds.
func (a *CachedKeys) Keys(ctx context.Context, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	return a.keys(ctx, a.known, q)
}

func (a *CachedKeys) keys(ctx context.Context, from *KeySource, q federation.KeyQuery) ([]ed25519.PublicKey, error) {
	keys, err := from.Keys(ctx, q)
	if errors.Is(err, ErrNotCached) {
		if failed := a.lookups.failure(q, time.Now()); failed != nil {
			return nil, failed
		}
	}
	return keys, err
}

// Await looks up the missing key of a query. It returns when the lookup ends, after [keyWait], or when
// ctx ends; the lookup continues. It returns at once while another lookup of the user is overdue, so
// that slow hosts delay a user only once.
func (a *CachedKeys) Await(ctx context.Context, q federation.KeyQuery) {
	if ctx.Err() != nil {
		return
	}
	if l := a.seek(ctx, q); l != nil {
		a.lookups.wait(ctx, l, q)
	}
}

// Seek starts the lookup of a missing key without blocking.
func (a *CachedKeys) Seek(ctx context.Context, q federation.KeyQuery) { a.seek(ctx, q) }

// The result is nil if no lookup is needed or possible now.
func (a *CachedKeys) seek(ctx context.Context, q federation.KeyQuery) *lookingUp {
	if document, err := a.probe.directory.Resolve(ctx, q.DID, time.Now()); err == nil && plain(q, document).standing == federation.KeyGood {
		return nil
	}
	if _, err := a.keys(ctx, a.probe, q); !errors.Is(err, ErrNotCached) {
		return nil
	}
	return a.lookups.begin(q, func(ctx context.Context) error { //nolint:contextcheck // a lookup outlives the step that asked for it
		_, err := a.asking.Keys(ctx, q)
		return err
	})
}

// Each waiting login has one outgoing connection. These limits are separate from the limits of
// [Lookups], so that strangers' logins do not delay steps.
const (
	loginsPerHost = 32
	loginsTotal   = 256
)

// The client may retry.
var errLogins = errors.New("too many logins wait for documents")

// A refused login has about 300 bytes.
const maxRefused = 1024

// Logins verifies the proofs of logins with DIDs. It is safe for concurrent use.
type Logins struct {
	refused *otter.Cache[federation.DID, RefusedLogin]

	mu    sync.Mutex
	hosts map[string]int
	total int
}

// RefusedLogin is a refused login, or zero.
type RefusedLogin struct {
	At  time.Time
	Why error
}

// NewLogins returns an empty Logins.
func NewLogins() *Logins {
	return &Logins{
		hosts:   map[string]int{},
		refused: otter.Must(&otter.Options[federation.DID, RefusedLogin]{MaximumSize: maxRefused, Executor: func(tidy func()) { tidy() }}),
	}
}

// Refused returns the last refused login of a DID since its last success, or the zero value.
func (l *Logins) Refused(did federation.DID) RefusedLogin {
	refused, _ := l.refused.GetIfPresent(did)
	return refused
}

// Proved is a [KeySource.Proved] within the limits. A proof decided by the cached document does not
// count.
func (l *Logins) Proved(ctx context.Context, s *KeySource, did federation.DID, message, signature []byte, now time.Time) (federation.PublicKey, federation.Verdict, error) {
	key, verdict, err := s.without(s.directory.Offline()).Proved(ctx, did, message, signature, now)
	if !errors.Is(err, ErrNotCached) {
		return key, verdict, err
	}
	host := hostOf(federation.KeyQuery{DID: did})
	if !l.acquire(host) {
		return federation.PublicKey{}, federation.Unverifiable, unavailable(string(did), time.Second, errLogins)
	}
	defer l.leave(host)
	return s.Proved(ctx, did, message, signature, now)
}

func (l *Logins) acquire(host string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= loginsTotal || l.hosts[host] >= loginsPerHost {
		return false
	}
	l.hosts[host]++
	l.total++
	return true
}

func (l *Logins) leave(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts[host]--; l.hosts[host] == 0 {
		delete(l.hosts, host)
	}
	l.total--
}

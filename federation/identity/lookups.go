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

// A lookup has one connection and at most one document (fetch.max_bytes) in memory. A step over a
// limit is deferred.
const (
	lookupsPerUser = 4   // for one name on one link: a person has one DID and few keys
	lookupsPerHost = 32  // for one host: the requests that fetch.per_host allows in about 3 s
	lookupsTotal   = 256 // for all links: well below the usual limit of 1,024 open files
)

// A failed lookup takes about 300 bytes.
const maxFailures = 4096

// Lookups contains the key lookups in progress of a gateway. [CachedKeys] starts them; they block no
// caller. Lookups of the same key through the same link are one lookup. [NewLookups] creates it; it
// is safe for concurrent use.
type Lookups struct {
	// Caught is called with a panic in a lookup, which then fails. Set it before the first lookup.
	Caught func(ctx context.Context, err error)
	// found is called with each DID whose host answered its lookup.
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
	done       chan struct{}   // closed at its end
	links      map[string]bool // links whose steps need it; guarded by the mutex of Lookups
}

// NewLookups returns Lookups without a lookup in progress. Found is called with each DID whose host
// answered its lookup, and must not block.
func NewLookups(found func(federation.DID)) *Lookups {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // ended by Close
	return &Lookups{
		found: found, Caught: func(context.Context, error) {}, ctx: ctx, cancel: cancel,
		under: map[miss]*lookingUp{}, users: map[string]map[*lookingUp]bool{}, hosts: map[string]int{},
		failed: otter.Must(&otter.Options[miss, failedLookup]{MaximumSize: maxFailures, Executor: func(tidy func()) { tidy() }}),
	}
}

// Cancel ends the lookups requested only by steps of one link.
func (l *Lookups) Cancel(link string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, one := range l.under {
		if delete(one.links, link); len(one.links) == 0 {
			one.cancel()
			delete(l.under, key) // the next step starts another lookup
		}
	}
}

// Stop ends all lookups, and prevents new ones. It does not block.
func (l *Lookups) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.cancel()
}

// Close ends all lookups and waits for them. It blocks on the record.
func (l *Lookups) Close() {
	l.Stop()
	l.running.Wait()
}

// failure returns nil if the error is too old.
func (l *Lookups) failure(q federation.KeyQuery, now time.Time) error {
	if failed, ok := l.failed.GetIfPresent(keyOf(q)); ok && now.Before(failed.until) {
		return failed.err
	}
	return nil
}

// begin returns the lookup in progress, or a new one, or nil at a limit.
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

// wait returns at the end of the lookup, [keyWait] after its start, or at the end of ctx.
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

// An overdue lookup has taken longer than [keyWait].
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

// The name of a lookup includes the link, because the server behind the link is queried too. The
// document is fetched once for all links.
func keyOf(q federation.KeyQuery) miss { return miss{q.DID, q.KeyID, q.Link} }

// The user for the limits is the name on its link, or otherwise the DID.
func userOf(q federation.KeyQuery) string {
	if q.Name == "" {
		return q.Link + " " + string(q.DID)
	}
	return q.Link + " " + q.Name
}

// The host is that of a did:web, the directory of did:plc, or otherwise the server behind the link.
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

// ErrNotCached is wrapped in the error of an offline source for an answer that only a host can give.
var ErrNotCached = errors.New("its keys are not available yet")

func notAtHand(did federation.DID) error { return unavailable(string(did), 0, ErrNotCached) }

// keyWait is the longest time that a step waits for the lookup of its key, counted from the start of
// the lookup: about twice the time for a distant host. A step with a longer lookup is deferred, and
// judged when the lookup has ended.
const keyWait = time.Second

// CachedKeys is a [federation.KeySource] that never waits for a host, so that no slow host delays
// other steps. It answers from memory and from the record. For any other key, its error wraps
// [ErrNotCached]. [CachedKeys.Await] and [CachedKeys.Seek] start the lookups of missing keys. Its
// methods may be called concurrently.
type CachedKeys struct {
	known   *KeySource // sends no requests; used to judge steps
	probe   *KeySource // used to find the needed lookups
	asking  *KeySource
	lookups *Lookups
}

// Cached returns the part of a source that needs no network. The given lookups fetch the rest. Steps
// are judged with keys from offline, which is the offline directory of the source or a wrapper
// around it.
func (s *KeySource) Cached(offline Refresher, lookups *Lookups) *CachedKeys {
	return &CachedKeys{known: s.without(offline), probe: s.without(s.directory.Offline()), asking: s, lookups: lookups}
}

// The new source has the same cache.
func (s *KeySource) without(directory Refresher) *KeySource {
	known := *s
	known.directory, known.offline = directory, true
	return &known
}

// KeyOwner implements [federation.KeySource].
func (a *CachedKeys) KeyOwner(ctx context.Context, keyID string) (federation.DID, error) {
	return a.known.KeyOwner(ctx, keyID)
}

// Keys implements [federation.KeySource]. For a few seconds after a failed lookup, it returns the
// error of the lookup.
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

// Await looks up the missing key of a query. It returns when the lookup has ended, after [keyWait],
// or when ctx ends; the lookup continues. It returns at once while another lookup for the same user
// is overdue, so that slow hosts delay the steps of a user only once.
func (a *CachedKeys) Await(ctx context.Context, q federation.KeyQuery) {
	if ctx.Err() != nil {
		return
	}
	if l := a.seek(ctx, q); l != nil {
		a.lookups.wait(ctx, l, q)
	}
}

// Seek starts the lookup of the missing key of a query. It does not block.
func (a *CachedKeys) Seek(ctx context.Context, q federation.KeyQuery) { a.seek(ctx, q) }

// seek returns nil if no lookup is needed or can be started now. A document in memory that lists the
// key answers without the record.
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

// Each login that waits for a document has one outgoing connection. The limits are separate from
// those in [Lookups], so that logins of strangers do not delay steps.
const (
	loginsPerHost = 32
	loginsTotal   = 256
)

// errLogins refuses a login over the limits. The client may retry.
var errLogins = errors.New("too many logins wait for documents")

// A refused login takes some 300 bytes.
const maxRefused = 1024

// Logins verifies the proofs of logins with DIDs. [NewLogins] creates it. It may be used
// concurrently.
type Logins struct {
	refused *otter.Cache[federation.DID, RefusedLogin]

	mu    sync.Mutex
	hosts map[string]int
	total int
}

// RefusedLogin is the time and the reason of a refused login.
type RefusedLogin struct {
	At  time.Time // zero for none
	Why error
}

// NewLogins returns Logins without a login in progress.
func NewLogins() *Logins {
	return &Logins{
		hosts:   map[string]int{},
		refused: otter.Must(&otter.Options[federation.DID, RefusedLogin]{MaximumSize: maxRefused, Executor: func(tidy func()) { tidy() }}),
	}
}

// Refused returns the last refused login of a DID since its last login, or the zero value.
func (l *Logins) Refused(did federation.DID) RefusedLogin {
	refused, _ := l.refused.GetIfPresent(did)
	return refused
}

// Proved is [KeySource.Proved] within the limits. A proof decided by the cached document does not
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

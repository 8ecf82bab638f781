package identity

import (
	"context"
	"errors"
	"sync"
	"time"

	"baton/federation"
)

// Bounds of the logins that wait for the document of their DID at a time, each with one outgoing
// connection. They are apart from the bounds of [Lookups], so that logins of strangers do not delay
// steps.
const (
	loginsPerHost = 32
	loginsTotal   = 256
)

// errLogins refuses a login beyond the bounds: the client may try again.
var errLogins = errors.New("too many logins wait for documents")

// Logins judges the proofs of DIDs that log in. The zero Logins is ready to use. It may be used
// concurrently.
type Logins struct {
	mu    sync.Mutex
	hosts map[string]int
	total int
}

// Proved is [KeySource.Proved] within the limits. A proof decided by the cached document does not
// count.
func (l *Logins) Proved(ctx context.Context, s *KeySource, did federation.DID, message, signature []byte, now time.Time) (federation.PublicKey, federation.Verdict, error) {
	key, verdict, err := s.without(s.directory.Offline()).Proved(ctx, did, message, signature, now)
	if !errors.Is(err, ErrNotAtHand) {
		return key, verdict, err
	}
	host := hostOf(federation.KeyQuery{DID: did})
	if !l.enter(host) {
		return federation.PublicKey{}, federation.Unverifiable, unavailable(string(did), time.Second, errLogins)
	}
	defer l.leave(host)
	return s.Proved(ctx, did, message, signature, now)
}

// enter counts a login, unless a bound is reached.
func (l *Logins) enter(host string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= loginsTotal || l.hosts[host] >= loginsPerHost {
		return false
	}
	if l.hosts == nil {
		l.hosts = map[string]int{}
	}
	l.hosts[host]++
	l.total++
	return true
}

// leave ends a login that enter counted.
func (l *Logins) leave(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts[host]--; l.hosts[host] == 0 {
		delete(l.hosts, host)
	}
	l.total--
}

package home

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// A newcomer takes about 200 bytes. The oldest are dropped first.
const maxMet = 1 << 16

// A known DID takes about 100 bytes.
const maxAcquainted = 1 << 16

const growthRetry = 5 * time.Minute

// StrangerLimits bounds the actions of DIDs new to the record. Zero means no limit.
type StrangerLimits struct {
	DIDs        int   // new DIDs within an hour
	PerAddress  int   // new DIDs of one address within an hour
	RecordBytes int64 // growth within an hour
}

// Strangers counts the DIDs first seen within the last hour, and caches the DIDs known for longer.
// It is safe for concurrent use. Create it with [NewStrangers].
type Strangers struct {
	mu         sync.Mutex
	met        []newcomer // oldest first
	newcomers  map[federation.DID]struct{}
	from       map[string]int // by address
	shares     map[string]int // DIDs per site in the total count
	counted    int            // sum of all shares
	acquainted map[federation.DID]struct{}
	growth     int64
}

// The address may be empty. A displaced newcomer is not in the total count.
type newcomer struct {
	did           federation.DID
	address, site string
	at            time.Time
	displaced     bool
}

// NewStrangers returns counters at zero.
func NewStrangers() *Strangers {
	return &Strangers{
		newcomers: map[federation.DID]struct{}{}, from: map[string]int{}, shares: map[string]int{}, acquainted: map[federation.DID]struct{}{},
	}
}

// Count records a new DID. If the total exceeds limit, the newest DID of the site with the largest
// share is displaced. A limit of 0 means none.
func (s *Strangers) Count(did federation.DID, address string, at time.Time, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, again := s.newcomers[did]; again {
		return
	}
	s.expire(at)
	if len(s.met) >= maxMet {
		s.drop(1)
	}
	if limit > 0 && s.counted >= limit {
		site, _ := federation.Heaviest(s.shares, "")
		s.displace(site)
	}
	one := newcomer{did: did, address: address, site: federation.Site(address), at: at}
	s.met = append(s.met, one)
	s.newcomers[did] = struct{}{}
	s.shares[one.site]++
	s.counted++
	if address != "" {
		s.from[address]++
	}
}

func (s *Strangers) displace(site string) {
	for i := len(s.met) - 1; i >= 0; i-- {
		if each := &s.met[i]; each.site == site && !each.displaced {
			each.displaced = true
			s.uncount(site)
			return
		}
	}
}

func (s *Strangers) uncount(site string) {
	s.counted--
	if s.shares[site]--; s.shares[site] == 0 {
		delete(s.shares, site)
	}
}

// Grown records the growth of the record within the last hour, in bytes.
func (s *Strangers) Grown(bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.growth = bytes
}

// Met returns the number of DIDs first seen within the last hour.
func (s *Strangers) Met(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	return len(s.met)
}

func (s *Strangers) expire(now time.Time) {
	old := 0
	for old < len(s.met) && now.Sub(s.met[old].at) >= federation.AcquaintanceAge {
		old++
	}
	s.drop(old)
}

func (s *Strangers) drop(n int) {
	for _, each := range s.met[:n] {
		delete(s.newcomers, each.did)
		if !each.displaced {
			s.uncount(each.site)
		}
		if each.address == "" {
			continue
		}
		if s.from[each.address]--; s.from[each.address] == 0 {
			delete(s.from, each.address)
		}
	}
	s.met = slices.Delete(s.met, 0, n)
}

// The result long is true for a DID known for more than an hour.
func (s *Strangers) recall(did federation.DID, now time.Time) (long, has bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	if _, has = s.newcomers[did]; has {
		return false, true
	}
	_, long = s.acquainted[did]
	return long, long
}

func (s *Strangers) remember(did federation.DID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.acquainted) >= maxAcquainted {
		clear(s.acquainted)
	}
	s.acquainted[did] = struct{}{}
}

// Over the total limit, a site is still admitted if its share stays below the largest share. A DID
// recorded within the hour was already counted, so only the growth of the record can cause its
// rejection.
func (s *Strangers) check(met bool, address string, l StrangerLimits, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	switch {
	case l.RecordBytes > 0 && s.growth >= l.RecordBytes:
		return &federation.NewDIDLimitError{Reason: federation.TooMuchGrowth, RetryAfter: growthRetry}
	case met:
	case l.DIDs > 0 && s.counted >= l.DIDs && !s.yields(address):
		return &federation.NewDIDLimitError{Reason: federation.TooManyNewDIDs, RetryAfter: s.leaves("", now)}
	case l.PerAddress > 0 && address != "" && s.from[address] >= l.PerAddress:
		return &federation.NewDIDLimitError{Reason: federation.TooManyFromOneAddress, RetryAfter: s.leaves(address, now)}
	}
	return nil
}

func (s *Strangers) yields(address string) bool {
	_, yields := federation.Heaviest(s.shares, federation.Site(address))
	return yields
}

// leaves returns the time until the oldest newcomer from an address is no longer counted. An
// empty address stands for all addresses.
func (s *Strangers) leaves(address string, now time.Time) time.Duration {
	for _, each := range s.met {
		if address == "" || each.address == address {
			return max(time.Second, each.at.Add(federation.AcquaintanceAge).Sub(now))
		}
	}
	return federation.AcquaintanceAge
}

// Admit returns a [*federation.NewDIDLimitError] for a new DID if there were too many within the
// hour, or the record grows too fast. It reports whether the DID is new. Known DIDs are never
// refused.
func (h *Home) Admit(ctx context.Context, did federation.DID, address string, now time.Time) (isNew bool, err error) {
	if h.Strangers == nil {
		return false, nil
	}
	long, has := h.Strangers.recall(did, now)
	if !has {
		var since time.Time
		if since, has, err = h.Record.Acquainted(ctx, did); err != nil {
			return false, fmt.Errorf("look up whether %s is known: %w", did, err)
		}
		long = has && now.Sub(since) >= federation.AcquaintanceAge
	}
	if long {
		h.Strangers.remember(did)
		return false, nil
	}
	return !has, h.Strangers.check(has, address, h.Limits.Strangers, now)
}

// Meet records a DID without a step as known.
func (h *Home) Meet(ctx context.Context, did federation.DID, address string, now time.Time) error {
	if h.Strangers == nil {
		return nil
	}
	if err := h.Record.Meet(ctx, did, now); err != nil {
		return fmt.Errorf("record that %s is known: %w", did, err)
	}
	h.Strangers.Count(did, address, now, h.Limits.Strangers.DIDs)
	return nil
}

package identity_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

type slowWeb struct {
	release chan struct{}

	mu    sync.Mutex
	pages map[string]string
	under int // requests
	asked int // requests so far
	down  bool
}

func (w *slowWeb) Get(ctx context.Context, address string) ([]byte, error) {
	w.count(1)
	defer w.count(-1)
	select {
	case <-w.release:
	case <-ctx.Done():
		return nil, &federation.UnavailableError{What: address, Err: ctx.Err()}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	page, ok := w.pages[address]
	switch {
	case w.down:
		return nil, &federation.UnavailableError{What: address, Err: errors.New("timeout")}
	case !ok:
		return nil, fmt.Errorf("fetch: %w", federation.ErrNotFound)
	}
	return []byte(page), nil
}

func (w *slowWeb) count(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.under += n
	w.asked += max(n, 0)
}

func (w *slowWeb) requests() int {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.under
}

type handStand struct {
	*testing.T

	web     *slowWeb
	keys    *identity.CachedKeys
	lookups *identity.Lookups

	mu    sync.Mutex // lookups end at once
	found []federation.DID
}

// atHand runs a test of keys at hand in a bubble of its own time.
func atHand(t *testing.T, test func(s *handStand)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &handStand{T: t, web: &slowWeb{release: make(chan struct{}), pages: map[string]string{aliceAddress: page(alice, seededKey('a'))}}}
		s.lookups = identity.NewLookups(func(did federation.DID) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.found = append(s.found, did)
		})
		defer s.lookups.Close()
		directory := newDirectory(s.web)
		s.keys = newKeySource(directory, s.web, storetest.Open(t)).Cached(directory.Offline(), s.lookups)
		test(s)
	})
}

func (s *handStand) of(user string, did federation.DID) federation.KeyQuery {
	q := query(did, seededKey('a'))
	q.Name = user
	return q
}

func (s *handStand) awaits(q federation.KeyQuery) time.Duration {
	begun := time.Now()
	s.keys.Await(s.Context(), q)
	return time.Since(begun)
}

func number(n int, host string) federation.DID {
	return federation.DID(fmt.Sprintf("did:web:%s:u%d", host, n))
}

func TestCachedKeysAskNoHost(t *testing.T) {
	atHand(t, func(s *handStand) {
		q := s.of("alice", alice)
		if _, err := s.keys.Keys(s.Context(), q); !errors.Is(err, identity.ErrNotCached) || s.web.requests() != 0 {
			s.Errorf("Keys: %v, with %d requests; want that the key is not at hand", err, s.web.requests())
		}
		close(s.web.release)
		s.keys.Await(s.Context(), q)
		if keys, err := s.keys.Keys(s.Context(), q); err != nil || len(keys) != 1 {
			s.Errorf("Keys after Await: %d keys, %v", len(keys), err)
		}
	})
}

func TestCachedKeysIncludeLocalKeys(t *testing.T) {
	atHand(t, func(s *handStand) {
		q := s.of("alice", identity.KeyDID(seededKey('a')))
		if took := s.awaits(q); took != 0 || s.web.requests() != 0 {
			s.Errorf("Await took %s, with %d requests", took, s.web.requests())
		}
		if keys, err := s.keys.Keys(s.Context(), q); err != nil || len(keys) != 1 {
			s.Errorf("Keys: %d keys, %v", len(keys), err)
		}
	})
}

func TestLookupsAskTheKeyServerOfALink(t *testing.T) {
	atHand(t, func(s *handStand) {
		q := query(identity.KeyDID(seededKey('a')), seededKey('b'))
		q.Link = "freeq"
		if _, err := s.keys.Keys(s.Context(), q); !errors.Is(err, identity.ErrNotCached) || s.web.requests() != 0 {
			s.Errorf("Keys: %v, with %d requests; want that the key is not at hand", err, s.web.requests())
		}
		close(s.web.release)
		s.keys.Await(s.Context(), q)
		if keys, err := s.keys.Keys(s.Context(), q); err != nil || s.web.asked != 1 {
			s.Errorf("Keys after Await: %v, %v, after %d requests; want that the server does not know the key", keys, err, s.web.asked)
		}
	})
}

func TestAwaitWaitsForASlowHostOnce(t *testing.T) {
	atHand(t, func(s *handStand) {
		if took := s.awaits(s.of("mallory", "did:web:a.example")); took != identity.KeyWait {
			s.Errorf("the first step waited %s, want %s", took, identity.KeyWait)
		}
		for _, did := range []federation.DID{"did:web:a.example", "did:web:b.example"} {
			if took := s.awaits(s.of("mallory", did)); took != 0 {
				s.Errorf("the next step waited %s for %s, want that it does not", took, did)
			}
		}
		if took := s.awaits(s.of("bob", "did:web:c.example")); took != identity.KeyWait {
			s.Errorf("a step of another user waited %s, want %s", took, identity.KeyWait)
		}
		if n := s.web.requests(); n != 3 {
			s.Errorf("%d lookups go on, want 3", n)
		}
	})
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	atHand(t, func(s *handStand) {
		ctx, cancel := context.WithCancel(s.Context())
		begun := time.Now()
		time.AfterFunc(identity.KeyWait/2, cancel)
		s.keys.Await(ctx, s.of("alice", alice))
		if took := time.Since(begun); took != identity.KeyWait/2 {
			s.Errorf("waited %s, want half of %s", took, identity.KeyWait)
		}
		s.keys.Await(ctx, s.of("bob", "did:web:bob.example"))
		if n := s.web.requests(); n != 1 {
			s.Errorf("%d lookups go on, want that none begins after the end of its context", n)
		}
	})
}

func TestLookupsAreSharedByDID(t *testing.T) {
	atHand(t, func(s *handStand) {
		for i := range 60 {
			s.keys.Seek(s.Context(), s.of(fmt.Sprintf("user%d", i), alice))
		}
		if n := s.web.requests(); n != 1 {
			s.Errorf("%d requests, want 1", n)
		}
	})
}

func TestLookupsAreBounded(t *testing.T) {
	for name, test := range map[string]struct {
		most int
		user func(i int) string
		host func(i int) string
	}{
		"of one user": {identity.LookupsPerUser, func(int) string { return "mallory" }, func(i int) string { return fmt.Sprintf("h%d.example", i) }},
		"at one host": {identity.LookupsPerHost, func(i int) string { return fmt.Sprintf("user%d", i) }, func(int) string { return "h.example" }},
		"in total":    {identity.LookupsTotal, func(i int) string { return fmt.Sprintf("user%d", i) }, func(i int) string { return fmt.Sprintf("h%d.example", i) }},
	} {
		t.Run(name, func(t *testing.T) {
			atHand(t, func(s *handStand) {
				seek := func(from int) {
					for i := range 2 * test.most {
						s.keys.Seek(s.Context(), s.of(test.user(from+i), number(from+i, test.host(from+i))))
					}
				}
				seek(0)
				if n := s.web.requests(); n != test.most {
					s.Errorf("%d lookups at a time, want %d", n, test.most)
				}
				over := s.of(test.user(9999), number(9999, test.host(9999)))
				if took := s.awaits(over); took != 0 {
					s.Errorf("a step above the bound waited %s", took)
				}
				if _, err := s.keys.Keys(s.Context(), over); !errors.Is(err, identity.ErrNotCached) {
					s.Errorf("Keys above the bound: %v, want a not now", err)
				}
				for range test.most {
					s.web.release <- struct{}{}
				}
				if n := s.web.requests(); n != 0 {
					s.Errorf("%d lookups left", n)
				}
				seek(5000)
				if n := s.web.requests(); n != test.most {
					s.Errorf("%d lookups after the first ended, want %d", n, test.most)
				}
			})
		})
	}
}

func TestLookupsEndWithTheirLink(t *testing.T) {
	atHand(t, func(s *handStand) {
		other := func(q federation.KeyQuery) federation.KeyQuery { q.Link = "lab"; return q }
		s.keys.Seek(s.Context(), s.of("alice", alice))
		s.keys.Seek(s.Context(), s.of("bob", "did:web:bob.example"))
		s.keys.Seek(s.Context(), other(s.of("carol", "did:web:carol.example")))
		s.keys.Seek(s.Context(), other(s.of("alice", alice)))
		if n := s.web.requests(); n != 3 {
			s.Fatalf("%d requests, want one for each document", n)
		}
		s.lookups.Cancel("oftc")
		if n := s.web.requests(); n != 2 {
			s.Errorf("%d requests when one link has ended, want the two of the other", n)
		}
		s.keys.Seek(s.Context(), s.of("bob", "did:web:bob.example"))
		if n := s.web.requests(); n != 3 {
			s.Errorf("%d requests when it is back, want 3: the one that was cancelled says nothing of its host", n)
		}
	})
}

func TestLookupsEndWithTheGateway(t *testing.T) {
	atHand(t, func(s *handStand) {
		s.keys.Seek(s.Context(), s.of("alice", alice))
		waited := make(chan time.Duration, 1)
		go func() { waited <- s.awaits(s.of("bob", "did:web:bob.example")) }()
		if n := s.web.requests(); n != 2 {
			s.Fatalf("%d requests, want 2", n)
		}
		s.lookups.Close()
		if took := <-waited; took != 0 {
			s.Errorf("a step waited %s for a lookup that was ended", took)
		}
		s.keys.Seek(s.Context(), s.of("carol", "did:web:carol.example"))
		if n := s.web.requests(); n != 0 {
			s.Errorf("%d requests after the end", n)
		}
	})
}

func TestLookupsReportOnlyAnswers(t *testing.T) {
	atHand(t, func(s *handStand) {
		close(s.web.release)
		s.web.down = true
		bob := s.of("bob", "did:web:bob.example")
		s.keys.Await(s.Context(), bob)
		_, err := s.keys.Keys(s.Context(), bob)
		if _, away := errors.AsType[*federation.UnavailableError](err); !away || errors.Is(err, identity.ErrNotCached) {
			s.Errorf("Keys of a host that is away: %v, want the error of its lookup", err)
		}
		s.web.down = false
		s.keys.Await(s.Context(), s.of("alice", alice))
		synctest.Wait()
		if diff := cmp.Diff([]federation.DID{alice}, s.found); diff != "" {
			s.Errorf("told of (-want +got):\n%s", diff)
		}
		if s.keys.Await(s.Context(), bob); s.web.asked != 2 {
			s.Errorf("%d requests, want that a host which was away is not asked again at once", s.web.asked)
		}
		time.Sleep(identity.AwayFor)
		if s.keys.Await(s.Context(), bob); s.web.asked < 3 {
			s.Errorf("%d requests, want that a host which was away is asked again later", s.web.asked)
		}
	})
}

func TestLoginsAreBoundedPerHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slowWeb{release: make(chan struct{})}
		logins, source := identity.NewLogins(), newKeySource(newDirectory(w), w, storetest.Open(t))
		prove := func(did federation.DID) (federation.Verdict, error) {
			_, verdict, err := logins.Proved(t.Context(), source, did, nil, nil, time.Now())
			return verdict, err
		}
		var waiting sync.WaitGroup
		for i := range identity.LoginsPerHost {
			waiting.Go(func() { _, _ = prove(number(i, "h.example")) }) // its host answers that there is nothing
		}
		if n := w.requests(); n != identity.LoginsPerHost {
			t.Fatalf("%d requests, want %d", n, identity.LoginsPerHost)
		}
		verdict, err := prove(number(9999, "h.example"))
		if _, away := errors.AsType[*federation.UnavailableError](err); verdict != federation.Unverifiable || !away {
			t.Errorf("a login above the bound: %v, %v; want a not now", verdict, err)
		}
		if verdict, err = prove(identity.KeyDID(seededKey('a'))); verdict != federation.Invalid || err != nil {
			t.Errorf("a login that needs no host: %v, %v; want that it is judged", verdict, err)
		}
		waiting.Go(func() { _, _ = prove("did:web:other.example") }) // likewise
		if n := w.requests(); n != identity.LoginsPerHost+1 {
			t.Errorf("%d requests, want one at another host too", n)
		}
		close(w.release)
		waiting.Wait()
		if verdict, err = prove(number(9999, "h.example")); verdict != federation.Invalid {
			t.Errorf("a login after the others: %v, %v; want that it is judged", verdict, err)
		}
	})
}

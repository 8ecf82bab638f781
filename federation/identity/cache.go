package identity

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
)

// An unresponsive host is not queried again for the same DID within this time, because each query may
// delay a step by the fetch timeout.
const awayFor = 5 * time.Second

// Any caller can force a refresh with an invalid proof.
const refetchEvery = 30 * time.Second

// A cached document has about 200 bytes, and at most 6 KiB.
const maxDocuments = 4096

type lookup func(ctx context.Context, did federation.DID) (federation.Document, error)

// Concurrent callers share one lookup per DID.
type answers struct {
	cfg   DirectoryConfig
	look  lookup
	known *otter.Cache[federation.DID, answer]

	mu      sync.Mutex
	flights map[federation.DID]*flight
}

type flight struct {
	done    chan struct{} // closed when found is set
	found   answer
	waiting int // callers; guarded by answers.mu, as is again
	again   bool
	cancel  context.CancelFunc
}

// An answer is a document, or the reason for its absence.
type answer struct {
	document federation.Document
	err      error
	asked    time.Time
	until    time.Time
	again    time.Time // last forced refresh, or zero
}

func newAnswers(cfg DirectoryConfig, look lookup) *answers {
	return &answers{cfg: cfg, look: look, flights: map[federation.DID]*flight{}, known: newCache[federation.DID, answer]()}
}

func newCache[K comparable, V any]() *otter.Cache[K, V] {
	return otter.Must(&otter.Options[K, V]{
		MaximumSize: maxDocuments,
		Executor:    func(tidy func()) { tidy() }, // in the caller's goroutine
	})
}

func (a *answers) fresh(did federation.DID, now time.Time) (known answer, ok bool) {
	known, ok = a.known.GetIfPresent(did)
	return known, ok && now.Before(known.until)
}

func (a *answers) recent(did federation.DID, now time.Time) (known answer, ok bool) {
	known, ok = a.known.GetIfPresent(did)
	if !ok {
		return known, false
	}
	tried := known.asked.After(known.document.Fetched) // it failed, or the DID does not exist
	return known, tried && now.Before(known.asked.Add(awayFor)) || now.Before(known.again.Add(refetchEvery))
}

// The lookup ends with its last caller, or at the fetch timeout.
func (a *answers) ask(ctx context.Context, did federation.DID, now time.Time, again bool) (federation.Document, error) {
	f := a.join(ctx, did, now, again)
	defer a.leave(did, f)
	select {
	case <-f.done:
		return f.found.document, f.found.err
	case <-ctx.Done():
		return federation.Document{}, unavailable(string(did), 0, ctx.Err())
	}
}

func (a *answers) join(ctx context.Context, did federation.DID, now time.Time, again bool) *flight {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.flights[did]
	if f == nil {
		looking, cancel := context.WithCancel(context.WithoutCancel(ctx))
		f = &flight{done: make(chan struct{}), cancel: cancel}
		a.flights[did] = f
		go a.fly(looking, did, f, now)
	}
	f.waiting++
	f.again = f.again || again
	return f
}

func (a *answers) leave(did federation.DID, f *flight) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f.waiting--; f.waiting > 0 {
		return
	}
	f.cancel()
	if a.flights[did] == f {
		delete(a.flights, did) // the next caller starts a new lookup
	}
}

// An error does not count against the host if all callers have left.
func (a *answers) fly(ctx context.Context, did federation.DID, f *flight, now time.Time) {
	err := fault.Catch(func() error { f.found = a.resolve(ctx, did, now); return nil })
	if err != nil { // a panic proves nothing about the DID
		if a.cfg.Caught != nil {
			a.cfg.Caught(ctx, err)
		}
		f.found = answer{err: unavailable(string(did), 0, errors.New(err.Error())), asked: now, until: now.Add(awayFor)}
	}
	a.mu.Lock()
	if known, ok := a.known.GetIfPresent(did); ok {
		if f.found.again = known.again; f.again {
			f.found.again = now
		}
	}
	if ctx.Err() == nil {
		a.known.Set(did, f.found)
	}
	if a.flights[did] == f {
		delete(a.flights, did)
	}
	a.mu.Unlock()
	close(f.done)
}

// While the host does not answer, the result is the last document.
func (a *answers) resolve(ctx context.Context, did federation.DID, now time.Time) answer {
	document, err := a.look(ctx, did)
	if a.cfg.Fetched != nil && ctx.Err() == nil {
		if failed := a.cfg.Fetched(ctx, did, document, err); failed != nil {
			err = unavailable(string(did), 0, failed)
		}
	}
	if err == nil {
		document.Fetched = now
		return answer{document: document, asked: now, until: now.Add(a.cfg.Fresh)}
	}
	if _, away := errors.AsType[*federation.UnavailableError](err); !away {
		return answer{err: err, asked: now, until: now.Add(a.cfg.Negative)}
	}
	if old, ok := a.known.GetIfPresent(did); ok && old.err == nil && now.Before(old.document.Fetched.Add(a.cfg.Stale)) {
		return answer{document: old.document, asked: now, until: now.Add(awayFor)}
	}
	return answer{err: err, asked: now, until: now.Add(awayFor)}
}

// A history has about 300 bytes per key.
const maxHistories = 4096

// A shared record is not cached, because a key revoked by another replica must not stay valid here.
type histories struct {
	record federation.Keys
	shared bool
	known  *otter.Cache[federation.DID, federation.KeyHistory] // unused if the record is shared

	mu      sync.Mutex
	changes uint64
}

func newHistories(record federation.Keys, shared bool) *histories {
	return &histories{record: record, shared: shared, known: otter.Must(&otter.Options[federation.DID, federation.KeyHistory]{
		MaximumSize: maxHistories, Executor: func(tidy func()) { tidy() },
	})}
}

// The caller must not change the result.
func (h *histories) of(ctx context.Context, did federation.DID) (federation.KeyHistory, error) {
	if history, ok := h.known.GetIfPresent(did); ok {
		return history, nil
	}
	h.mu.Lock()
	before := h.changes
	h.mu.Unlock()
	history, err := h.record.History(ctx, did)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changes == before && !h.shared { // otherwise, the history may have changed
		h.known.Set(did, history)
	}
	return history, nil
}

// The cached history is dropped even after an error.
func (h *histories) change(did federation.DID, write func() error) error {
	err := write()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes++
	h.known.Invalidate(did)
	return err
}

// A miss has about 200 bytes.
const maxMisses = 8192

// Misses are per link, because links query different servers.
type miss struct {
	did   federation.DID
	keyID string
	link  string
}

type misses struct {
	last  time.Duration
	until *otter.Cache[miss, time.Time]
}

func newMisses(last time.Duration) *misses {
	return &misses{last: last, until: otter.Must(&otter.Options[miss, time.Time]{
		MaximumSize: maxMisses, Executor: func(tidy func()) { tidy() },
	})}
}

func (m *misses) has(q federation.KeyQuery, now time.Time) bool {
	until, ok := m.until.GetIfPresent(miss{q.DID, q.KeyID, q.Link})
	return ok && now.Before(until)
}

func (m *misses) add(q federation.KeyQuery, now time.Time) {
	m.until.Set(miss{q.DID, q.KeyID, q.Link}, now.Add(m.last))
}

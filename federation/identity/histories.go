package identity

import (
	"context"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"baton/federation"
)

// maxHistories bounds the histories in memory. One is some 300 bytes a key.
const maxHistories = 4096

// histories caches the key histories of DIDs, so that a step costs no query. It caches nothing of a
// record that other replicas change: a key that is revoked there must not stay valid here.
type histories struct {
	record federation.Keys
	shared bool
	known  *otter.Cache[federation.DID, federation.KeyHistory] // empty where the record is shared

	mu      sync.Mutex
	changes uint64
}

func newHistories(record federation.Keys, shared bool) *histories {
	return &histories{record: record, shared: shared, known: otter.Must(&otter.Options[federation.DID, federation.KeyHistory]{
		MaximumSize: maxHistories, Executor: func(tidy func()) { tidy() },
	})}
}

// of returns the history of a DID. The caller must not change it.
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
	if h.changes == before && !h.shared { // else the history may have changed since the read
		h.known.Set(did, history)
	}
	return history, nil
}

// change writes to the record and drops the cached history, also after an error.
func (h *histories) change(did federation.DID, write func() error) error {
	err := write()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes++
	h.known.Invalidate(did)
	return err
}

// maxMisses bounds the unknown key ids, at some 200 bytes each.
const maxMisses = 8192

// miss is an unknown key id. Links differ in the servers that they can ask.
type miss struct {
	did   federation.DID
	keyID string
	link  string
}

// misses remembers unknown key ids for a while.
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

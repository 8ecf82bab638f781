package engine

import (
	"errors"
	"sync"

	"baton/federation"
)

// maxRemembered bounds what one cache keeps.
const maxRemembered = 1 << 14

// Cache keeps what was read of rows that hardly ever change, and which are not
// there: each step is looked at by several links, and asks for the same few. One
// process has the record open, so what it writes is all that can change; of a record
// that several may have open, nothing is remembered. The zero Cache is empty. It
// may be used concurrently.
type Cache[K comparable, V any] struct {
	off   bool // set before first use
	mu    sync.Mutex
	kept  map[K]*V // nil for what is not there
	edges uint64   // counts the times that something was forgotten
}

// Attach turns the cache off for a record that other processes may write to. It is called
// before the first use.
func (r *Cache[K, V]) Attach(db *DB) { r.off = db.Replicated() }

// Off reports whether the cache is off.
func (r *Cache[K, V]) Off() bool { return r.off }

// Find returns the remembered value of a key, or else asks look. Callers share the value, and
// must not change it. [federation.ErrNotFound] is remembered, and no other error.
func (r *Cache[K, V]) Find(key K, look func() (V, error)) (V, error) {
	r.mu.Lock()
	value, known := r.kept[key]
	edge := r.edges
	r.mu.Unlock()
	if !known {
		found, err := look()
		switch {
		case err == nil:
			value = &found
		case !errors.Is(err, federation.ErrNotFound):
			return found, err
		}
		r.remember(key, value, edge)
	}
	if value == nil {
		return *new(V), federation.ErrNotFound
	}
	return *value, nil
}

// remember keeps what was found, unless it may have changed since.
func (r *Cache[K, V]) remember(key K, value *V, edge uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.off || edge != r.edges {
		return
	}
	if r.kept == nil || len(r.kept) >= maxRemembered {
		r.kept = map[K]*V{}
	}
	r.kept[key] = value
}

// Forget drops what is kept under a key. It is called at the end of each transaction that
// may have changed such a row, see [Tx.Then].
func (r *Cache[K, V]) Forget(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.kept, key)
	r.edges++
}

// ForgetAll is Forget for all keys.
func (r *Cache[K, V]) ForgetAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = nil
	r.edges++
}

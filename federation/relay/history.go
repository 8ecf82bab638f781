package relay

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"baton/federation"
)

// maxBoots bounds the starts of one home that are remembered: more than it has replicas.
const maxBoots = 64

// Loss is a handoff of another home of which that home has lost steps: its record was restored
// to before them, and it did not take them back.
type Loss struct {
	Handoff federation.HandoffID
	Version federation.Version // steps that are here
	Have    federation.Version // steps that the home has
	Why     string             // the home does not take the steps back; for people
}

// history is what this home knows of comparisons with another one. It is kept in memory: the
// first connection after a start compares anew. It may be used concurrently.
type history struct {
	restarted chan struct{} // holds a token once the other home has another start

	mu       sync.Mutex
	boot     string               // of the other home, as it said last
	compared map[string]time.Time // by the start of the other home
	lost     []Loss               // of the last comparison
}

func newHistory() history {
	return history{restarted: make(chan struct{}, 1), compared: map[string]time.Time{}}
}

// bootOf returns the start that a message of a home names, "" for none.
func bootOf(body []byte) string {
	var said struct{ Boot string }
	if json.Unmarshal(body, &said) != nil {
		return ""
	}
	return said.Boot
}

// started notes the start that the other home named.
func (h *history) started(boot string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if boot == h.boot {
		return
	}
	h.boot = boot
	select {
	case h.restarted <- struct{}{}:
	default: // one token says as much as two
	}
}

// due reports whether a comparison with the other home is due, and with which start of it: one
// that this home did not compare with, or not for some time.
func (h *history) due(now time.Time) (boot string, due bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last, known := h.compared[h.boot]
	return h.boot, !known || now.Sub(last) >= compareAgain
}

// note keeps the result of a comparison with a start of the other home.
func (h *history) note(boot string, lost []Loss, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.compared) >= maxBoots {
		clear(h.compared)
	}
	h.compared[boot], h.lost = now, lost
}

// lostOf returns what the other home lost of a handoff, as the last comparison found.
func (h *history) lostOf(id federation.HandoffID) (Loss, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.lost, func(l Loss) bool { return l.Handoff == id })
	if i < 0 {
		return Loss{}, false
	}
	return h.lost[i], true
}

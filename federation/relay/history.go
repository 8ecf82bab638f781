package relay

import (
	"slices"
	"sync"
	"time"

	"baton/federation"
)

// maxBoots bounds how many starts of one home are remembered: more than a home has replicas.
const maxBoots = 64

// Loss is a handoff whose home lost steps in a restore of its record, and did not take them back.
type Loss struct {
	Handoff federation.HandoffID
	Version federation.Version // steps that are here
	Have    federation.Version // steps that the home has
	Why     string             // why the home does not take them back, for people
}

// history is the results of comparisons with another home. It is in memory: the first connection
// after a start compares again. It may be used concurrently.
type history struct {
	restarted chan struct{} // holds a token once the other home has started again

	mu       sync.Mutex
	boot     string               // that the other home named last
	compared map[string]time.Time // by the start of the other home
	lost     []Loss               // of the last comparison
}

func newHistory() history {
	return history{restarted: make(chan struct{}, 1), compared: map[string]time.Time{}}
}

// bootOf returns the start that a message of a home names, "" for none.
func bootOf(body []byte) string {
	var message struct {
		Boot string `json:"boot"`
	}
	if federation.DecodeJSON(body, &message) != nil {
		return ""
	}
	return message.Boot
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
	default: // one token stands for several starts
	}
}

// due returns the current start of the other home, and whether a comparison with it is due.
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

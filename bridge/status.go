package bridge

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// LinkState is the state of a link.
type LinkState string

// The states of a link.
const (
	LinkUp       LinkState = "up"       // the peer has authenticated
	LinkDialling LinkState = "dialling" // dialling, accepting, or waiting to retry
	LinkDown     LinkState = "down"
	LinkStandby  LinkState = "standby" // another replica of the home runs it
)

// Status is the current state of a link, with the reason.
type Status struct {
	State     LinkState
	NextDial  time.Time // zero unless waiting to dial
	LastError string    // reason for the end of the last session; "" before
}

// Unforwarded counts requests from trusted proxies without a usable client address.
type Unforwarded struct {
	Header     string
	Unreadable int // requests rejected with 400
	Unnamed    int // requests without the header, not subject to limits and blocks by address
	Last       string
	At         time.Time
}

// Hearer is a [Link] that reports the time of its peer's last message.
type Hearer interface {
	Link
	// Heard returns the time of the last read, or the zero time before the first. It may be called
	// while Run runs.
	Heard() time.Time
}

// Hearing makes a [Link] that embeds it a [Hearer]. The zero Hearing is ready. It may be used
// concurrently.
type Hearing struct{ last atomic.Int64 } // unix nanoseconds; 0 before the first read

// Hear records the time of a read.
func (h *Hearing) Hear(now time.Time) { h.last.Store(now.UnixNano()) }

// Heard implements [Hearer].
func (h *Hearing) Heard() time.Time {
	if at := h.last.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// DisconnectNotifier is a [Link] whose Run continues after a disconnect, to judge the steps already
// read.
type DisconnectNotifier interface {
	Link
	// Disconnected returns a channel that holds a token after the current Run's connection has
	// ended.
	Disconnected() <-chan struct{}
}

// DisconnectSignal makes a [Link] that embeds it a [DisconnectNotifier]. Create one with
// [NewDisconnectSignal].
type DisconnectSignal struct{ ended chan struct{} }

// NewDisconnectSignal returns a signal for a new link.
func NewDisconnectSignal() DisconnectSignal { return DisconnectSignal{make(chan struct{}, 1)} }

// SignalDisconnect signals the end of the connection without blocking.
func (l DisconnectSignal) SignalDisconnect() {
	select {
	case l.ended <- struct{}{}:
	default:
	}
}

// Disconnected implements [DisconnectNotifier].
func (l DisconnectSignal) Disconnected() <-chan struct{} { return l.ended }

// Describer is a [Link] with details for operators.
type Describer interface {
	Link
	// Describe returns the details. It may be called while Run runs.
	Describe() Description
}

// Description holds the details of a link besides its status.
type Description struct {
	// Negotiated is the outcome of the negotiation, in terms of the network; empty while the link
	// is not up.
	Negotiated map[string]string
	Skew       time.Duration // how far our clock is ahead of the peer's; zero if unknown
	Channels   []string      // as venues; empty for a network without channels
	NotCarried []string      // parts of a step that this link cannot carry, one sentence each
	// Obstacles lists problems with deliveries or receipts that are known from the configuration
	// and this host: one sentence each, with the remedy.
	Obstacles []string
	// Agent is the external agent behind a link to one agent; nil for other links.
	Agent *AgentDescription
}

// AgentDescription is an external agent. The fields of its card are empty until the link was up.
type AgentDescription struct {
	DID      federation.DID
	Card     string
	Name     string
	Version  string
	Protocol string   // binding and version
	Updates  string   // how the agent reports changes of its tasks
	Claims   []string // capabilities of the open offers that it gets
	Tasks    int      // in progress
}

// status may be used concurrently.
type status struct {
	mu  sync.Mutex
	now Status
}

func newStatus() *status { return &status{now: Status{State: LinkDown}} }

func (s *status) get() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *status) up() { s.set(func(now *Status) { now.State, now.NextDial = LinkUp, time.Time{} }) }

func (s *status) dialling() {
	s.set(func(now *Status) { now.State, now.NextDial = LinkDialling, time.Time{} })
}

func (s *status) lost(why error, next time.Time) {
	s.set(func(now *Status) {
		now.State, now.NextDial = LinkDialling, next
		if why != nil {
			now.LastError = strings.ReplaceAll(why.Error(), "\n", "; ")
		}
	})
}

func (s *status) down() { s.set(func(now *Status) { now.State, now.NextDial = LinkDown, time.Time{} }) }

func (s *status) set(change func(now *Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.now)
}

// LinkStatus is a link with its status.
type LinkStatus struct {
	Link   Link
	Status Status
}

// Sender has the counts of one sender.
type Sender struct {
	Name    string
	Steps   int
	Refused int
	Limited int   // refused because of a rate limit
	Blocked int   // steps, logins and connections refused because of an operator's block
	Bytes   int64 // documents and evidence of all steps
}

// Purged counts the handoffs and steps that a purge ended.
type Purged struct {
	federation.Purged

	Handoffs int
}

// OrphanAfter is how long a home may be silent before its handoffs count as orphaned.
const OrphanAfter = 24 * time.Hour

// WhyOrphaned returns why a handoff is orphaned, or "". Its home has lost steps of it, or is
// silent; see [Orphaned].
func WhyOrphaned(v federation.View, links []Link, up func(Link) bool, now time.Time) string {
	if !v.Remote || v.Over {
		return ""
	}
	for _, link := range links {
		if forgetful, ok := link.(LossReporter); ok && forgetful.Home() == v.Home {
			if why, lost := forgetful.LostSteps(v.ID); lost {
				return "its home " + string(v.Home) + " has lost steps: " + why
			}
		}
	}
	if Orphaned(v, links, up, now) {
		return "no contact with its home " + string(v.Home) + " for " + OrphanAfter.String()
	}
	return ""
}

// Orphaned reports whether a handoff is open at another home that has been silent for
// [OrphanAfter]: its link read nothing, and no step of the handoff arrived. No step records this.
// The home may return, so work that is offered again may be done twice. The links are all links of
// the gateway, and up reports whether a link is up.
//
// spec: freeq-s2s "State machines"
func Orphaned(v federation.View, links []Link, up func(Link) bool, now time.Time) bool {
	if !v.Remote || v.Over {
		return false
	}
	heard := v.Moved
	for _, link := range links {
		homed, ok := link.(Homed)
		if !ok || homed.Home() != v.Home {
			continue
		}
		if up(link) {
			return false
		}
		if hearer, ok := link.(Hearer); ok && hearer.Heard().After(heard) {
			heard = hearer.Heard()
		}
	}
	return now.Sub(heard) >= OrphanAfter
}

package bridge

import (
	"time"

	"baton/federation"
)

// OrphanAfter is how long nothing may be heard of a home before the handoffs that it
// orders count as orphaned. Servers wait as long for each other.
const OrphanAfter = 24 * time.Hour

// Orphaned reports whether a handoff is under way at another home of which nothing was
// heard for [OrphanAfter]: neither by the link to it nor by a step of the handoff. No step
// says so, and the home may come back: whoever offers the work again may have it done
// twice. The links are all that there are, and up says which of them are.
//
// spec: freeq-s2s "State machines"
func Orphaned(v federation.View, links Links, up func(Link) bool, now time.Time) bool {
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

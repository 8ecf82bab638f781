package bridge

import (
	"time"

	"baton/federation"
)

// OrphanAfter is how long a home may be silent before the handoffs that it orders count as
// orphaned.
const OrphanAfter = 24 * time.Hour

// WhyOrphaned returns why no home orders the steps of a handoff any more, "" where its home
// does: the home has lost steps of it, or is silent, see [Orphaned].
func WhyOrphaned(v federation.View, links Links, up func(Link) bool, now time.Time) string {
	if !v.Remote || v.Over {
		return ""
	}
	for _, link := range links {
		if forgetful, ok := link.(Forgetful); ok && forgetful.Home() == v.Home {
			if why, lost := forgetful.LostSteps(v.ID); lost {
				return "its home " + string(v.Home) + " has lost steps: " + why
			}
		}
	}
	if Orphaned(v, links, up, now) {
		return "nothing was heard of its home " + string(v.Home) + " for " + OrphanAfter.String()
	}
	return ""
}

// Orphaned reports whether a handoff is open at another home that was silent for [OrphanAfter]:
// its link read nothing, and no step of the handoff came. No step states that, and the home may
// come back: work that is offered again may be done twice. The links are all links of the
// gateway, and up reports whether a link is up.
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

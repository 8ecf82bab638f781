package federation

import (
	"time"
)

// Pending is a step in a handoff of another home which that has not ruled on yet. It
// is in no log and moves nothing; what becomes of it the home says, by a [Confirm] or
// by one that rules it out.
type Pending struct {
	Event Event
	Home  HomeID // the home that has to rule
	Since time.Time
}

package federation

import (
	"time"
)

// KnownHome is another home that an operator added while the gateway ran.
type KnownHome struct {
	Home  HomeID
	URL   string // where it is reached, without a path
	Path  string // relay or https
	Since time.Time
}

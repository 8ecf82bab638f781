package federation

import "time"

// Samples for charts: one every five minutes for a day.
const (
	ChartEvery = 5 * time.Minute
	ChartAge   = 24 * time.Hour
)

// Sample is the state of a gateway at one time.
type Sample struct {
	At      time.Time
	Step    int64 // number of the newest step
	Waiting int
	Dead    int
	Down    int
	Disk    int // percent of free space
}

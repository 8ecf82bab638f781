package federation

import "time"

// The samples for the charts of operators: one each five minutes of the last day.
const (
	ChartEvery = 5 * time.Minute
	ChartAge   = 24 * time.Hour
)

// Sample is the state of a gateway at one time.
type Sample struct {
	At      time.Time
	Step    int64 // number of the newest step; the difference of two samples is the number of filed steps
	Waiting int   // pending deliveries
	Dead    int   // dead letters
	Down    int   // links that are down
	Disk    int   // free percent of the disk
}

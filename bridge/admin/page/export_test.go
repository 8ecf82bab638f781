package page

import (
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
)

// Chart returns the words and the paths of the chart of values.
func Chart(samples []admin.Sample, now time.Time, values []int) (words, line, area string) {
	c := newChart(samples, now, "", "", "", last(values), values)
	return c.Words, c.Line, c.Area
}

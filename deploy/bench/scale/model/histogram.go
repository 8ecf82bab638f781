package model

import "math"

// perDouble is the number of buckets per factor of two; each is 2 % wide.
const perDouble = 32

// Histogram counts times in buckets of equal ratio, from a microsecond.
type Histogram struct {
	counts [64 * perDouble]int64
	all    int64
}

func (h *Histogram) add(t micros) {
	h.counts[int(math.Log2(float64(max(t, 1)))*perDouble)]++
	h.all++
}

// Percentile returns a percentile in seconds, or 0 if there are no times.
func (h *Histogram) Percentile(percent float64) float64 {
	if h.all == 0 {
		return 0
	}
	left := int64(math.Ceil(float64(h.all) * percent / 100))
	for i, n := range h.counts {
		if left -= n; left <= 0 {
			return math.Exp2((float64(i)+0.5)/perDouble) / float64(second)
		}
	}
	return 0
}

// Count returns the number of times.
func (h *Histogram) Count() int64 { return h.all }

package bridge

import (
	"net/http"
	"strconv"
	"time"
)

// Allowance is how much of a rate somebody has left.
type Allowance struct {
	Limit int // of a full bucket; 0 where there is no limit
	Left  int
	Full  time.Time // when all of it is there again
}

// WriteHeader tells an HTTP client what it has left.
func (a Allowance) WriteHeader(h http.Header) {
	if a.Limit == 0 {
		return
	}
	h.Set("X-RateLimit-Limit", strconv.Itoa(a.Limit))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(a.Left))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(a.Full.Add(time.Second-1).Unix(), 10))
}

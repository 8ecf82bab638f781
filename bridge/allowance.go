package bridge

import (
	"net/http"
	"strconv"
	"time"
)

// Allowance is how much of a rate a participant or an address has left.
type Allowance struct {
	Limit int // of a full bucket; 0 where there is no limit
	Left  int
	Full  time.Time // when the bucket is full again
}

// WriteHeader writes the allowance into the header of an HTTP answer.
func (a Allowance) WriteHeader(h http.Header) {
	if a.Limit == 0 {
		return
	}
	h.Set("X-RateLimit-Limit", strconv.Itoa(a.Limit))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(a.Left))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(a.Full.Add(time.Second-1).Unix(), 10))
}

package federation

import (
	"time"
)

// Answer is the response to a request that carried an idempotency key. The same request with
// the same key gets the same response.
type Answer struct {
	DID    DID
	Key    string   // the caller's, at most 255 bytes
	Digest [32]byte // SHA-256 of the request
	// Event is the id of the step that the request is, whenever it comes.
	Event  EventID
	Status int    // of HTTP; 0 while the request was not answered yet
	Body   []byte // nil until then
	At     time.Time
}

package federation

import (
	"time"
)

// Answer is what somebody was told who gave a request a key of their own, so that the
// same request again is answered as the first time.
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

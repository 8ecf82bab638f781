package federation

import "time"

// Password is a stored password of a DID: keys that verify it without revealing it.
//
// spec: RFC 5802; RFC 7677
type Password struct {
	DID        DID
	Salt       []byte
	Iterations int
	StoredKey  []byte
	ServerKey  []byte
	Since      time.Time
}

package airc

import (
	"errors"
	"maps"
	"time"

	"baton/federation"
)

// nonceLife is how long a nonce counts as used: as long as a message that carries it
// may be early and late together.
const nonceLife = 2 * clockSkew

// maxNonces bounds the nonces that are remembered, about 150 bytes each.
const maxNonces = 1 << 16

// maxNonceBytes bounds one nonce.
const maxNonceBytes = 128

// nonces takes each nonce of each sender once. A restart forgets them: a message is
// known by its id too, which the record keeps.
type nonces struct {
	// spent holds the used nonces until they expire. The goroutine that receives the map
	// owns it until it sends it back.
	spent chan map[string]time.Time
}

func newNonces() nonces {
	n := nonces{spent: make(chan map[string]time.Time, 1)}
	n.spent <- map[string]time.Time{}
	return n
}

// checkUnused refuses a nonce that its sender used before.
//
// spec: airc-v0.1.1 §7.3
func (n nonces) checkUnused(from, nonce string, now time.Time) error {
	if len(nonce) > maxNonceBytes {
		return refuse(codeBadRequest, "a nonce is at most 128 bytes")
	}
	spent := <-n.spent
	defer func() { n.spent <- spent }()
	if ends, used := spent[from+" "+nonce]; used && now.Before(ends) {
		return refuse(codeDuplicateMessage, "this nonce was used before")
	}
	if len(spent) >= maxNonces {
		maps.DeleteFunc(spent, func(_ string, ends time.Time) bool { return !now.Before(ends) })
	}
	if len(spent) >= maxNonces {
		return &federation.UnavailableError{What: "messages with a nonce", Err: errors.New("too many nonces used")}
	}
	return nil
}

// spend uses up the nonce of a message that was accepted.
func (n nonces) spend(from, nonce string, now time.Time) {
	spent := <-n.spent
	defer func() { n.spent <- spent }()
	spent[from+" "+nonce] = now.Add(nonceLife)
}

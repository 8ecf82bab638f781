package airc

import (
	"fmt"
	"net/http"
	"time"

	"baton/federation"
)

// fate is what became of an attempt.
type fate struct {
	delivered bool
	dead      bool          // never again; reason says why
	expired   bool          // because it waited too long
	away      bool          // the registry answers no request now
	unsure    bool          // it did not answer, and may have taken the message
	pause     time.Duration // when it says itself when to come again
	tooMuch   bool          // it took what came before for too much
	consent   bool          // its agent has not consented yet
	reason    string
}

// outcome is the word for an attempt in the counter.
func (f fate) outcome() string {
	switch {
	case f.delivered:
		return "delivered"
	case f.dead:
		return "refused"
	case f.away:
		return "away"
	case f.consent:
		return "consent"
	}
	return "again"
}

// ended returns why a message was given up.
func (f fate) ended() federation.DeadReason {
	if f.expired {
		return federation.DeadExpired
	}
	return federation.DeadRefused
}

// readReply tells what a registry made of a message. A deployed one marks an id as
// seen before it judges: whatever it says but 201, nothing is delivered.
func readReply(reply Reply, dialect string) fate {
	var said struct {
		Error        string `json:"error"`
		Deduplicated bool   `json:"deduplicated"`
		Status       string `json:"consent_status"`
	}
	readable := federation.DecodeJSON(reply.Body, &said) == nil
	reason := fmt.Sprintf("%d %s", reply.Status, said.Error)
	switch {
	case reply.Status == http.StatusCreated:
		return fate{delivered: true}
	case reply.Status == http.StatusTooManyRequests, reply.Status >= http.StatusInternalServerError, !readable:
		return fate{away: true, pause: reply.RetryAfter, tooMuch: reply.Status == http.StatusTooManyRequests, reason: reason}
	case reply.Status == http.StatusAccepted && dialect != dialectD3:
		return fate{delivered: true} // it is held there, and delivered from there
	case reply.Status < http.StatusBadRequest && said.Deduplicated:
		return fate{reason: "deduplicated"}
	case reply.Status < http.StatusBadRequest, reply.Status == http.StatusUnauthorized && said.Error == string(codeInvalidTimestamp):
		return fate{reason: reason}
	case said.Error == string(codeRemoteConsentRequired), said.Error == "consent_required", said.Error == "consent_pending",
		reply.Status == http.StatusForbidden && said.Status == "pending":
		return fate{consent: true, reason: reason}
	}
	return fate{dead: true, reason: reason}
}

package airc

import (
	"errors"
	"fmt"

	"baton/federation"
)

// The paths of consent, for agents that sign and for the clients of today.
const (
	consentPath         = "/consent"
	deployedConsentPath = deployedRoot + consentPath
)

// consentCall writes the request with which an agent decides about a handle.
func consentCall(path, action, handle string) string {
	return fmt.Sprintf(`POST %s {"action":%q,"handle":%q}`, path, action, handle)
}

// heldNotice tells the sender of a held message what delivers it: many client libraries
// never make the consent call.
func heldNotice(path, from, to string) string {
	return fmt.Sprintf("the message is held until %s consents: it sends %s, or writes to %s", to, consentCall(path, actionAccept, from), from)
}

// knockText returns the first line of the handshake that an agent reads: it names the
// requester, and the call that answers.
func knockText(requester string) string {
	return requester + " asks to write to you; to accept, send " + consentCall(consentPath, actionAccept, requester) +
		" (with a token of " + deployedRoot + ": " + deployedConsentPath + ")"
}

// withRemedy adds to the refusal of a request for consent what the recipient can do.
func withRemedy(err error, from, to string) error {
	refused, ok := errors.AsType[*federation.RefusalError](err)
	if !ok {
		return err
	}
	told := *refused
	told.Detail += "; " + to + " has not consented yet: it sends " + consentCall(consentPath, actionAccept, from)
	return &told
}

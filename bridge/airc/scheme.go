package airc

import (
	"crypto/ed25519"
	"net/http"

	"baton/federation"
	"baton/federation/signing"
)

// scheme is how a request below /api was signed. Each scheme proves at most that the sender
// has the key: most cover no time, and the schemes of headers cover no sender. The token
// identifies the sender.
type scheme string

const (
	schemeNone   scheme = "none"
	schemeD2     scheme = "d2"     // in the body, over all of it
	schemeLegacy scheme = "legacy" // in the body, over a part of it
	schemeHeader scheme = "header" // in X-AIRC-Signature, over the body
	schemeBad    scheme = "bad"    // under no key of the sender
)

// findScheme finds out how a body was signed with one of some keys.
func findScheme(body []byte, header http.Header, keys []ed25519.PublicKey) scheme {
	var signed struct {
		Signature string `json:"signature"`
	}
	_ = federation.DecodeJSON(body, &signed) // a value that is not a string counts as no signature
	fromHeader := header.Get("X-AIRC-Signature")
	if signed.Signature == "" && fromHeader == "" {
		return schemeNone
	}
	for _, key := range keys {
		matches := func(signature string, schemes ...signing.Scheme) bool {
			_, verdict := signing.Match(body, signature, key, schemes...)
			return signature != "" && verdict == federation.Valid
		}
		switch {
		case matches(signed.Signature, signing.LegacyMessage()):
			return schemeD2
		case matches(signed.Signature, signing.LegacyTextless(), signing.LegacyFive()):
			return schemeLegacy
		case matches(fromHeader, signing.LegacyHeader(), signing.LegacyASCIIHeader()):
			return schemeHeader
		}
	}
	return schemeBad
}

package signing

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// algorithm is the prefix of a signature on the wire, with its separator.
const algorithm = "ed25519:"

// Encoding is how a scheme writes a signature: base64 of its 64 bytes, after an optional prefix and an
// optional key id with a colon.
type Encoding struct {
	prefix string
	named  bool // the id of the key precedes the signature
	base64 *base64.Encoding
	lax    bool // reads either alphabet, padded or not, with or without the prefix
}

// inTag is the signature tag of a step: "ed25519:<kid>:<base64url>".
func inTag() Encoding { return Encoding{prefix: algorithm, named: true, base64: base64.RawURLEncoding} }

// inEnvelope is bare base64url without padding.
func inEnvelope() Encoding { return Encoding{base64: base64.RawURLEncoding} }

// withAlgorithm is "ed25519:" and padded base64 of the standard alphabet.
func withAlgorithm() Encoding { return Encoding{prefix: algorithm, base64: base64.StdEncoding} }

// asFound writes padded base64 of the standard alphabet, and reads all forms that clients in use send.
func asFound() Encoding { return Encoding{prefix: algorithm, base64: base64.StdEncoding, lax: true} }

// Write returns a signature in its wire form. Only encodings that name a key use the key id.
func (e Encoding) Write(kid string, sig []byte) string {
	prefix := e.prefix
	if e.lax {
		prefix = ""
	}
	if e.named {
		prefix += kid + ":"
	}
	return prefix + e.base64.EncodeToString(sig)
}

// Read is the reverse of Write. The result ours is false for a signature of another algorithm. A signature
// that does not have 64 bytes never verifies. Each value has one spelling, except in the encoding asFound.
func (e Encoding) Read(text string) (kid string, sig []byte, ours bool) {
	rest, found := strings.CutPrefix(text, e.prefix)
	if !found && !e.lax {
		return "", nil, false
	}
	if e.named {
		if kid, rest, found = strings.Cut(rest, ":"); !found || kid == "" {
			return "", nil, false
		}
	}
	if e.lax {
		return "", decodeAnyBase64(rest), true
	}
	sig, _ = decodeStrict(e.base64, rest) // nil never verifies
	return kid, sig, true
}

// decodeAnyBase64 decodes either alphabet, padded or not; nil is no base64.
func decodeAnyBase64(s string) []byte {
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(s), "="))
	if err != nil {
		return nil
	}
	return raw
}

// DecodeBase64URL decodes base64url without padding. Unused bits must be zero, so that each value has one
// spelling.
func DecodeBase64URL(s string) ([]byte, error) { return decodeStrict(base64.RawURLEncoding, s) }

func decodeStrict(encoding *base64.Encoding, s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") { // the decoder would skip them
		return nil, errors.New("decode base64: line break")
	}
	raw, err := encoding.Strict().DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("decode base64: %w", err)
	}
	return raw, nil
}

// parse reads the signature of a step: "ed25519:<kid>:<base64url>", or "ed25519:<base64>" as in the RFC,
// without key id, in either alphabet and padded or not. The result ours is false for another algorithm.
func parse(text string) (kid string, sig []byte, ours bool) {
	if kid, sig, ours = inTag().Read(text); ours {
		return kid, sig, true
	}
	if !strings.HasPrefix(text, algorithm) {
		return "", nil, false
	}
	return asFound().Read(text)
}

package wire

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/signing"
)

// maxAddressChars is the limit of deployed registries.
const maxAddressChars = 100

// Address is a handle at another registry.
type Address struct{ Handle, Domain string }

func (r Address) String() string { return r.Handle + "@" + r.Domain }

// ParseAddress reads "handle@domain", optionally preceded by "@". The domain must be a name without a port.
//
//	amy@peer.example, @amy@peer.example
func ParseAddress(text string) (Address, bool) {
	handle, domain, ok := strings.Cut(strings.TrimPrefix(text, "@"), "@")
	r := Address{handle, domain}
	return r, ok && len(text) <= maxAddressChars && WellFormed(handle) && ValidDomain(domain)
}

// LowerASCII lowers only A to Z. Some other letters, such as the Kelvin sign, have an ASCII lower case,
// so folding them would make different names equal.
func LowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// SplitAddress returns the domain of a valid address, see [ParseAddress].
func SplitAddress(handle string) (domain string, isRemote bool) {
	_, domain, isRemote = strings.Cut(handle, "@")
	return domain, isRemote
}

// ValidDomain reports whether a text is a lower-case host name of at least two labels, and no IP address.
func ValidDomain(text string) bool {
	const letters, digits = "abcdefghijklmnopqrstuvwxyz", "0123456789"
	labels := strings.Split(text, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.Trim(label, letters+digits+"-") != "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	return len(text) <= 253 && len(labels) >= 2 && strings.ContainsAny(labels[len(labels)-1], letters)
}

const plcIDChars = 24

// With 50 bits, 40 million names have a collision with probability one half.
const aliasHashChars = 10

// This leaves room for the hash in 30 characters, the limit of the strictest peers.
const maxSlugChars = 19

// Handle returns the stable handle of a DID of another network, which no agent can register.
//
//	did:plc:ewvi7nxzyoun6zhxrhs64oiz → plc_ewvi7nxzyoun6zhxrhs64oiz
//	did:web:freeq.at:bots:factory    → web_l57chsxpyrjlo673eggecfxicj
func Handle(did federation.DID) string {
	if id, ok := strings.CutPrefix(string(did), "did:plc:"); ok && isPLC(id) {
		return "plc_" + id
	}
	if did.Method() == "key" {
		return "key_" + did.Hash()
	}
	return "web_" + did.Hash()
}

// Alias returns the readable handle of a DID: its first-seen name and a part of its hash.
func Alias(did federation.DID, first string) string {
	return slug(first) + "_" + did.Hash()[:aliasHashChars]
}

func slug(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			b.WriteRune(r)
		case !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	s := strings.Trim(b.String(), "_")
	s = strings.TrimRight(s[:min(len(s), maxSlugChars)], "_")
	if s == "" {
		return "did"
	}
	return s
}

// ParseHandle returns the DID, or the first characters of its hash. Both are empty for a handle that can
// only belong to an agent.
func ParseHandle(handle string) (did federation.DID, hash string) {
	i := strings.LastIndexByte(handle, '_')
	if i < 0 {
		return "", ""
	}
	switch prefix, rest := handle[:i], handle[i+1:]; {
	case prefix == "plc" && isPLC(rest):
		return federation.DID("did:plc:" + rest), ""
	case isBase32(rest) && len(rest) == aliasHashChars,
		isBase32(rest) && len(rest) == len(federation.DID("").Hash()) && (prefix == "key" || prefix == "web"):
		return "", rest
	}
	return "", ""
}

func isPLC(id string) bool { return len(id) == plcIDChars && isBase32(id) }

func isBase32(s string) bool { return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567") == "" }

// WellFormed reports whether a text has the form of a handle.
func WellFormed(handle string) bool {
	return len(handle) >= 3 && len(handle) <= 32 && strings.Trim(handle, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// Key is a key for verifying messages. For a DID of another network, it is the key that verified last;
// it was never registered.
type Key struct {
	ID        string           `json:"kid"`
	Public    string           `json:"publicKey"`
	Status    agents.KeyStatus `json:"status"`
	CreatedAt *int64           `json:"createdAt"`
	ExpiresAt *int64           `json:"expiresAt"`
	RevokedAt *int64           `json:"revokedAt"`
}

// UnixTime returns Unix seconds, or nil for the zero time.
func UnixTime(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.Unix())
}

const spkiPrefix = "\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"

// ParsePublicKey reads PEM, or 32 bytes or X.509 in base64 of either alphabet, with or without padding and
// the prefix "ed25519:".
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	malformed := Refuse(CodeBadRequest, "the public key is not a valid Ed25519 key")
	encoded := strings.TrimRight(strings.TrimPrefix(strings.TrimSpace(text), "ed25519:"), "=")
	raw, err := base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/").Replace(encoded))
	if block, _ := pem.Decode([]byte(text)); block != nil {
		raw, err = block.Bytes, nil
	}
	if err != nil {
		return nil, malformed
	}
	if key, ok := strings.CutPrefix(string(raw), spkiPrefix); ok {
		raw = []byte(key)
	}
	if len(raw) != rawKeyBytes {
		return nil, malformed
	}
	return identityKeyOf(raw)
}

const rawKeyBytes = 32

// ParseStrictKey parses a key in a D1 request: 32 bytes in base64url without padding.
func ParseStrictKey(member, text string) (ed25519.PublicKey, error) {
	raw, err := signing.DecodeBase64URL(text)
	if err != nil || len(raw) != rawKeyBytes {
		return nil, Refuse(CodeBadRequest, member+" is not 32 bytes in base64url without padding")
	}
	return identityKeyOf(raw)
}

// identityKeyOf rejects a key that cannot be an identity.
//
// spec: airc-shapes "Who is who"
func identityKeyOf(raw []byte) (ed25519.PublicKey, error) {
	key, err := federation.ParsePublicKey(raw)
	switch {
	case errors.Is(err, federation.ErrWeakKey):
		return nil, Refuse(codeInvalidPublicKey, "the public key has small order: a signature under it needs no private key")
	case err != nil:
		return nil, Refuse(codeInvalidPublicKey, "the public key is not the canonical encoding of a point of Ed25519")
	}
	return key, nil
}

// KeyText formats a key for well-known documents.
func KeyText(key ed25519.PublicKey) string {
	return "ed25519:" + base64.StdEncoding.EncodeToString(key)
}

package federation

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrNotCanonical is returned for a valid value in a non-canonical form.
var ErrNotCanonical = errors.New("federation: not in canonical form")

// MaxDIDBytes bounds a DID, so that it fits into message tags.
const MaxDIDBytes = 512

// DID names one identity on every network, as in "did:plc:z72i7hdynmk6r22z27h6tvur". Create one with
// [ParseDID]. Only federation/identity looks inside it.
type DID string

// ParseDID accepts only the canonical spelling of a DID. The error wraps [ErrNotCanonical] for
// another spelling.
//
// spec: did-core §3.1
func ParseDID(s string) (DID, error) {
	if len(s) > MaxDIDBytes {
		return "", fmt.Errorf("parse DID: longer than %d bytes", MaxDIDBytes)
	}
	scheme, rest, _ := strings.Cut(s, ":")
	method, id, ok := strings.Cut(rest, ":")
	switch {
	case scheme != "did" || !ok || method == "" || id == "" || strings.HasSuffix(id, ":"):
		return "", fmt.Errorf("parse DID %q: want did:method:id", s)
	case method != strings.ToLower(method):
		return "", fmt.Errorf("parse DID %q: %w", s, ErrNotCanonical)
	case strings.Trim(method, "abcdefghijklmnopqrstuvwxyz0123456789") != "":
		return "", fmt.Errorf("parse DID %q: a method is lower-case letters and digits", s)
	}
	if err := checkMethodID(id); err != nil {
		return "", fmt.Errorf("parse DID %q: %w", s, err)
	}
	if host, _, _ := strings.Cut(id, ":"); method == "web" && host != strings.ToLower(host) && !strings.Contains(host, "%") {
		return "", fmt.Errorf("parse DID %q: %w", s, ErrNotCanonical)
	}
	return DID(s), nil
}

// EscapeDID percent-encodes all bytes except letters, digits, "-", "." and "_".
//
// spec: did-core §3.1
func EscapeDID(text string) string {
	var part strings.Builder
	for _, c := range []byte(text) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(".-_", c) >= 0 {
			part.WriteByte(c)
		} else {
			fmt.Fprintf(&part, "%%%02X", c)
		}
	}
	return part.String()
}

func checkMethodID(id string) error {
	for i := 0; i < len(id); i++ {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(".-_:", c) >= 0:
		case c == '%' && i+2 < len(id) && isHex(id[i+1]) && isHex(id[i+2]):
			if escape := id[i+1 : i+3]; escape != strings.ToUpper(escape) || needsNoEscape(escape) {
				return ErrNotCanonical
			}
			i += 2
		default:
			return fmt.Errorf("character %q is not allowed", c)
		}
	}
	return nil
}

// Escaping a colon would change its meaning.
func needsNoEscape(digits string) bool {
	code, err := strconv.ParseUint(digits, 16, 8)
	if err != nil {
		return false
	}
	c := byte(code)
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(".-_", c) >= 0
}

func isHex(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }

// Method returns the method, such as "plc".
func (d DID) Method() string {
	_, rest, _ := strings.Cut(string(d), ":")
	method, _, _ := strings.Cut(rest, ":")
	return method
}

// Hash returns 26 characters of the DID's SHA-256 in lower-case base32, for names without dots and
// colons.
func (d DID) Hash() string {
	sum := sha256.Sum256([]byte(d))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:26]
}

// Short returns the DID truncated for display, as in "did:key:z6Mkqo…".
func (d DID) Short() string {
	const keep = 16 // the method, and enough of the ID to distinguish two DIDs in one channel
	if len(d) <= keep {
		return string(d)
	}
	return string(d[:keep]) + "…"
}

// Names are metric labels, and a readable line contains three of them.
const maxNameBytes = 32

// ValidName reports whether a text can name a kind, a verb or a state: at most 32 lower-case letters,
// digits, "-" and "_", starting with a letter.
func ValidName(text string) bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	return text != "" && len(text) <= maxNameBytes && text[0] >= 'a' && text[0] <= 'z' && !strings.ContainsFunc(text, odd)
}

package airc

import (
	"strings"
)

// maxAddressChars is what deployed registries keep of an address.
const maxAddressChars = 100

// remote is a handle at another registry.
type remote struct{ handle, domain string }

func (r remote) String() string { return r.handle + "@" + r.domain }

// parseAddress reads "handle@domain", with or without an "@" before it. The domain must be
// a name: no IP address, no port, and no second "@", which would be a user in a URL.
//
//	amy@peer.example, @amy@peer.example
func parseAddress(text string) (remote, bool) {
	handle, domain, ok := strings.Cut(strings.TrimPrefix(text, "@"), "@")
	r := remote{handle, domain}
	return r, ok && len(text) <= maxAddressChars && wellFormed(handle) && ValidDomain(domain)
}

// lowerASCII lowers the letters A to Z of a name. Some other letters, such as the Kelvin sign, have
// an ASCII letter as their lower case: folding them would make different names equal.
func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// splitAddress is parseAddress for what was read as an address before.
func splitAddress(handle string) (domain string, isRemote bool) {
	_, domain, isRemote = strings.Cut(handle, "@")
	return domain, isRemote
}

// ValidDomain reports whether a text is a host name of two labels at least, in lower
// case. No top-level name is a number, so no address is one.
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

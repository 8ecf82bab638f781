package airc

import (
	"strings"
)

// maxAddressChars is what deployed registries keep of an address.
const maxAddressChars = 100

// remote is a handle at another registry.
type remote struct{ handle, domain string }

func (r remote) String() string { return r.handle + "@" + r.domain }

// parseAddress reads "handle@domain", with an "@" before it or not. The domain is a
// name and nothing else: no address in numbers, no port, and nobody before another
// "@", which in a URL would be a user.
//
//	amy@peer.example, @amy@peer.example
func parseAddress(text string) (remote, bool) {
	handle, domain, ok := strings.Cut(strings.TrimPrefix(text, "@"), "@")
	r := remote{handle, domain}
	return r, ok && len(text) <= maxAddressChars && wellFormed(handle) && ValidDomain(domain)
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

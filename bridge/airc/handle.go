package airc

import (
	"slices"
	"strings"

	"baton/federation"
	"baton/federation/agents"
)

// plcIDChars is the length of the part of a did:plc after the method, which fits
// a handle as it is.
const plcIDChars = 24

// aliasHashChars is how much of a hash an alias ends in: 50 bits, which two of
// 40 million names share with a chance of one half.
const aliasHashChars = 10

// maxSlugChars leaves room for the hash in 30 characters, which the strictest
// peers take.
const maxSlugChars = 19

// Handle returns the handle of a DID of another network: one stable string for each DID,
// which no agent can register. A did:plc is written out; any other DID is hashed.
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

// HandlesOf implements [bridge.Registrar].
func (*Link) HandlesOf(did federation.DID, first string) []string {
	return []string{Handle(did), Alias(did, first)}
}

// Alias returns the readable handle of a DID: the name that it had when it was
// first seen, and a part of its hash.
func Alias(did federation.DID, first string) string {
	return slug(first) + "_" + did.Hash()[:aliasHashChars]
}

// slug writes a name in the characters of handles.
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

// parseHandle says what a handle of another network's DID holds: the DID itself,
// or the first characters of its hash. Both are empty for a handle that can only
// be an agent's.
func parseHandle(handle string) (did federation.DID, hash string) {
	prefix, rest, ok := cutLast(handle)
	switch {
	case !ok:
	case prefix == "plc" && isPLC(rest):
		return federation.DID("did:plc:" + rest), ""
	case isBase32(rest) && len(rest) == aliasHashChars,
		isBase32(rest) && len(rest) == len(federation.DID("").Hash()) && (prefix == "key" || prefix == "web"):
		return "", rest
	}
	return "", ""
}

func cutLast(handle string) (before, after string, ok bool) {
	i := strings.LastIndexByte(handle, '_')
	if i < 0 {
		return "", "", false
	}
	return handle[:i], handle[i+1:], true
}

func isPLC(id string) bool { return len(id) == plcIDChars && isBase32(id) }

func isBase32(s string) bool { return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567") == "" }

// checkHandle refuses a handle that no agent may register: a malformed one, a reserved
// prefix, the name of a role, or a name that hides a path.
//
// spec: airc-v0.1.1 §5.2
func checkHandle(handle string) error {
	if !wellFormed(handle) {
		return refuse(codeInvalidHandle, "a handle is 3 to 32 lower-case letters, digits and underscores")
	}
	if agents.ReservedName(network, handle) {
		return refuse(codeInvalidHandle, "handles that start with "+handle[:4]+" stand for DIDs of other networks")
	}
	if slices.Contains([]string{
		systemHandle, anyoneHandle, "rotate", "revoke", "verification", "capabilities", "inbox", "thread", "contacts", "public",
	}, handle) {
		return refuse(codeInvalidHandle, "this handle is reserved")
	}
	return nil
}

func wellFormed(handle string) bool {
	return len(handle) >= 3 && len(handle) <= 32 && strings.Trim(handle, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

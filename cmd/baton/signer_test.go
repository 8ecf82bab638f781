//go:build interop

package main_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
)

// This file makes and checks signed steps only from the published rules. It
// shares no code with the gateway, so that each checks the other.

// vendor stands before the name of every tag of the dialect.
const vendor = "+freeq.at/"

// person is an author with a key of its own.
type person struct {
	key ed25519.PrivateKey
	did string // did:key
}

func newPerson(t *testing.T) person {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return person{key: private, did: didKey(public)}
}

// offer returns the tags of a signed offer, and its id.
func (p person) offer(venue, to string, fields map[string]string) (tags map[string]string, id string) {
	id = ulid.Make().String()
	all := map[string]string{"handoff": "offer", "handoff-id": id, "handoff-to": to, "handoff-from": p.did}
	maps.Copy(all, fields)
	return p.sign(venue, id, all), id
}

// step returns the tags of a signed step after the offer.
func (p person) step(venue, verb, id string) map[string]string {
	return p.sign(venue, ulid.Make().String(), map[string]string{"handoff": verb, "handoff-id": id, "handoff-from": p.did})
}

// sign returns the tags of a step with these fields, as they go on the wire.
func (p person) sign(venue, eventID string, fields map[string]string) map[string]string {
	document := canonical(fields, fields["handoff-from"], venue, eventID)
	signature := ed25519.Sign(p.key, []byte(document))
	public := p.key[ed25519.SeedSize:]
	tags := map[string]string{
		vendor + "eventid": eventID,
		vendor + "sig":     "ed25519:" + keyID(public) + ":" + base64.RawURLEncoding.EncodeToString(signature),
	}
	for name, value := range fields {
		tags[vendor+name] = value
	}
	return tags
}

// verify returns why the tags of a step are not signed by the DID in
// handoff-from, which is a did:key.
func verify(tags map[string]string, venue string) error {
	fields := map[string]string{}
	for full, value := range tags {
		name, ours := strings.CutPrefix(full, vendor)
		if ours && (name == "handoff" || strings.HasPrefix(name, "handoff-")) {
			fields[name] = value
		}
	}
	public, err := publicKey(fields["handoff-from"])
	if err != nil {
		return err
	}
	text, ours := strings.CutPrefix(tags[vendor+"sig"], "ed25519:"+keyID(public)+":")
	signature, err := base64.RawURLEncoding.DecodeString(text)
	if !ours || err != nil {
		return fmt.Errorf("sig is %q, not of key %s", tags[vendor+"sig"], keyID(public))
	}
	document := canonical(fields, fields["handoff-from"], venue, tags[vendor+"eventid"])
	if !ed25519.Verify(public, []byte(document), signature) {
		return fmt.Errorf("the signature does not match %s", document)
	}
	return nil
}

// canonical writes the document that a signature covers: an object of strings,
// sorted, as RFC 8785 has it for names in ASCII.
func canonical(fields map[string]string, from, venue, eventID string) string {
	members := maps.Clone(fields)
	members["from"], members["target"], members["id"] = from, venue, eventID
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quoted(name) + ":" + quoted(members[name]))
	}
	return "{" + b.String() + "}"
}

// quoted writes a string with as few escapes as JSON allows.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case strings.ContainsRune("\b\f\n\r\t", r):
			b.WriteString(map[rune]string{'\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}[r])
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// keyID names a key as signatures do.
func keyID(public []byte) string {
	sum := sha256.Sum256(public)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// base58 is the alphabet of did:key.
const base58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// ed25519Prefix is the multicodec of an Ed25519 key.
const ed25519Prefix = "\xed\x01"

// didKey writes a key as a DID. Its first byte is never zero, so that no leading
// digit is lost.
func didKey(public []byte) string {
	n := new(big.Int).SetBytes(append([]byte(ed25519Prefix), public...))
	var digits []byte
	for digit := new(big.Int); n.Sign() > 0; {
		n.DivMod(n, big.NewInt(int64(len(base58))), digit)
		digits = append(digits, base58[digit.Int64()])
	}
	slices.Reverse(digits)
	return "did:key:z" + string(digits)
}

func publicKey(did string) (ed25519.PublicKey, error) {
	digits, ours := strings.CutPrefix(did, "did:key:z")
	n := new(big.Int)
	for _, c := range digits {
		digit := strings.IndexRune(base58, c)
		if digit < 0 {
			return nil, fmt.Errorf("%s is not in base58", did)
		}
		n.Add(n.Mul(n, big.NewInt(int64(len(base58)))), big.NewInt(int64(digit)))
	}
	public, ed := strings.CutPrefix(string(n.Bytes()), ed25519Prefix)
	if !ours || !ed || len(public) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%q is no did:key of an Ed25519 key", did)
	}
	return ed25519.PublicKey(public), nil
}

// handleOf returns the registry's handle for a did:key of no agent there.
func handleOf(did string) string {
	sum := sha256.Sum256([]byte(did))
	method, _, _ := strings.Cut(strings.TrimPrefix(did, "did:"), ":")
	return method + "_" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:26]
}

// signedMessage returns why the signature of an AIRC message is not that of a key.
func signedMessage(text, key []byte) error {
	var members map[string]any
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	signature, err := base64.RawURLEncoding.DecodeString(fmt.Sprint(members["signature"]))
	if err != nil {
		return err
	}
	delete(members, "signature")
	delete(members, "seq")
	if !ed25519.Verify(key, []byte(canonicalValue(members)), signature) {
		return errors.New("the signature does not match the message")
	}
	return nil
}

// canonicalValue writes the values in a test's messages: objects, arrays,
// strings, whole numbers, true and false.
func canonicalValue(value any) string {
	switch v := value.(type) {
	case map[string]any:
		var members []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			members = append(members, quoted(name)+":"+canonicalValue(v[name]))
		}
		return "{" + strings.Join(members, ",") + "}"
	case []any:
		var items []string
		for _, item := range v {
			items = append(items, canonicalValue(item))
		}
		return "[" + strings.Join(items, ",") + "]"
	case string:
		return quoted(v)
	case float64:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprint(value)
}

package main_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
)

// weakKeys are all encodings of Ed25519 points of small order: first the canonical ones,
// then other encodings of the same points.
const weakKeys = `
0100000000000000000000000000000000000000000000000000000000000000
ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f
0000000000000000000000000000000000000000000000000000000000000000
0000000000000000000000000000000000000000000000000000000000000080
26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05
26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85
c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a
c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa
0100000000000000000000000000000000000000000000000000000000000080
ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff
eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f
eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff
edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f
edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff`

// A party signs with a key. A weak party has a public key of small order and no secret.
type party struct {
	secret ed25519.PrivateKey // nil for a weak party
	public ed25519.PublicKey
	did    federation.DID
}

func newParty(t *testing.T) party {
	t.Helper()
	public, secret, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return party{secret, public, identity.KeyDID(public)}
}

// weakTries is how many challenges and documents a weak party looks at, at most: its signature fits
// one of eight.
const weakTries = 500

// weakParties returns one party for each weak key.
func weakParties(t *testing.T) []party {
	t.Helper()
	var all []party
	for digits := range strings.FieldsSeq(weakKeys) {
		public, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, party{nil, public, identity.KeyDID(public)})
	}
	return all
}

// sign returns a signature. That of a weak party is the neutral point and zero: a verifier
// that takes the key takes it for one message of at most eight.
func (p party) sign(message []byte) []byte {
	if p.secret == nil {
		return append([]byte{1}, make([]byte, ed25519.SignatureSize-1)...)
	}
	return ed25519.Sign(p.secret, message)
}

// signs reports whether the standard library takes the signature of a party for a message.
func (p party) signs(message []byte) bool { return ed25519.Verify(p.public, message, p.sign(message)) }

func (p party) String() string {
	return hex.EncodeToString(p.public[:4]) + "…" + hex.EncodeToString(p.public[28:])
}

// A tagged step is one as it stands in the tags of an IRC message.
type taggedStep struct {
	id     string // of the event
	venue  string // that the signature covers
	fields map[string]string
	from   string
	tags   map[string]string
}

// offerFields returns the fields of an offer in a dialect.
func offerFields(d federation.Dialect, p party, id string, to federation.DID, title string) map[string]string {
	if d == federation.ActTags {
		return map[string]string{"act": "handoff", "act-verb": "offer", "act-title": title, "act-to": string(to)}
	}
	return map[string]string{
		"handoff": "offer", "handoff-id": id, "handoff-from": string(p.did), "handoff-to": string(to), "handoff-task": title,
	}
}

// stepFields returns the fields of a later step in a dialect.
func stepFields(d federation.Dialect, p party, verb, handoff string) map[string]string {
	if d == federation.ActTags {
		return map[string]string{"act": "handoff", "act-verb": verb, "act-id": handoff}
	}
	return map[string]string{"handoff": verb, "handoff-id": handoff, "handoff-from": string(p.did)}
}

// offer returns a signed offer in the channel of the stage. Changes replace fields; an
// empty value removes one.
func (p party) offer(t *testing.T, d federation.Dialect, to federation.DID, changes map[string]string) taggedStep {
	t.Helper()
	return p.seal(t, d, channelOfStage, func(id string) map[string]string { return offerFields(d, p, id, to, "Cite three sources") }, changes)
}

func (p party) step(t *testing.T, d federation.Dialect, verb, handoff string) taggedStep {
	t.Helper()
	return p.seal(t, d, channelOfStage, func(string) map[string]string { return stepFields(d, p, verb, handoff) }, nil)
}

// seal signs a step for a venue. A weak party looks for an event id whose document its
// signature fits, so that only the refusal of the key can stop the step.
func (p party) seal(t *testing.T, d federation.Dialect, venue string, fields func(id string) map[string]string, changes map[string]string) taggedStep {
	t.Helper()
	for range weakTries {
		id := ulid.MustNew(ulid.Timestamp(time.Now()), ulid.DefaultEntropy()).String()
		s := taggedStep{id: id, venue: venue, fields: fields(id), from: string(p.did)}
		maps.Copy(s.fields, changes)
		maps.DeleteFunc(s.fields, func(_, value string) bool { return value == "" })
		document, err := signing.Canonical(s.fields, p.did, venue, id)
		if err != nil {
			t.Fatal(err)
		}
		if p.signs([]byte(document)) {
			return s.write(d, p, p.sign([]byte(document)))
		}
	}
	t.Fatalf("no signature of %s fits a document", p)
	return taggedStep{}
}

// write puts the fields and the signature into tags.
func (s taggedStep) write(d federation.Dialect, p party, signature []byte) taggedStep {
	s.tags = map[string]string{
		"+freeq.at/eventid": s.id,
		"+freeq.at/sig":     "ed25519:" + federation.KeyID(p.public) + ":" + base64.RawURLEncoding.EncodeToString(signature),
	}
	for name, value := range s.fields {
		s.tags["+freeq.at/"+name] = value
	}
	if d == federation.ActTags {
		s.tags["+freeq.at/from"] = s.from
	}
	return s
}

// with returns a step with other tags; an empty value removes one.
func (s taggedStep) with(changes map[string]string) taggedStep {
	s.tags = maps.Clone(s.tags)
	for name, value := range changes {
		s.tags["+freeq.at/"+name] = value
		if value == "" {
			delete(s.tags, "+freeq.at/"+name)
		}
	}
	return s
}

// field returns the name of a field in a dialect.
func field(d federation.Dialect, name string) string { return fmt.Sprintf("%s-%s", d, name) }

// sealAnyhow signs a step whether or not the signature fits the key that it names.
func (p party) sealAnyhow(t *testing.T, d federation.Dialect, venue string, fields func(id string) map[string]string) taggedStep {
	t.Helper()
	id := ulid.MustNew(ulid.Timestamp(time.Now()), ulid.DefaultEntropy()).String()
	return p.resign(t, d, taggedStep{id: id, venue: venue, fields: fields(id), from: string(p.did)})
}

// resign signs the fields and the id of a step as they stand.
func (p party) resign(t *testing.T, d federation.Dialect, s taggedStep) taggedStep {
	t.Helper()
	s.from = string(p.did)
	document, err := signing.Canonical(s.fields, p.did, s.venue, s.id)
	if err != nil {
		t.Fatal(err)
	}
	return s.write(d, p, p.sign([]byte(document)))
}

// documentOf returns the text that the signature of a step covers.
func documentOf(t *testing.T, s taggedStep, p party) string {
	t.Helper()
	document, err := signing.Canonical(s.fields, p.did, s.venue, s.id)
	if err != nil {
		t.Fatal(err)
	}
	return document
}

func keyDIDOf(public ed25519.PublicKey) federation.DID { return identity.KeyDID(public) }

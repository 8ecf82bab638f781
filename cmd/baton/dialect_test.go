//go:build interop

package main_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// dialect is a set of tags in which steps are signed. Like signer_test.go, this
// file uses only the published rules and shares no code with the gateway.
type dialect string

const (
	rfcTags dialect = "handoff"
	actTags dialect = "act"
)

func dialects() []dialect { return []dialect{rfcTags, actTags} }

// other returns the dialect that this one is not.
func (d dialect) other() dialect {
	if d == rfcTags {
		return actTags
	}
	return rfcTags
}

// tag returns the full name of a tag by its name after the prefix.
func (d dialect) tag(name string) string { return vendor + string(d) + "-" + name }

// signed is a step as its signer writes it.
type signed struct {
	tags     map[string]string
	handoff  string
	event    string
	document string
}

// extras are the tags of a step beside its signer, by their names after the prefix of
// the dialect. A title is "title" in both, and a kind is "kind".
type extras map[string]string

// due returns a deadline as a tag has it.
func due(deadline time.Time) string { return strconv.FormatInt(deadline.Unix(), 10) }

// past returns the deadline of an offer that expires after a while: it is taken, and
// counts for two minutes more.
func past(left time.Duration) time.Time { return time.Now().Add(left - 2*time.Minute) }

func (d dialect) offer(p person, venue string, more extras) signed {
	return d.at(time.Now(), p, venue, "offer", "", more)
}

// step returns a signed step after the offer.
func (d dialect) step(p person, venue, verb, handoff string, more extras) signed {
	return d.at(time.Now(), p, venue, verb, handoff, more)
}

// at returns a step whose event id is of a certain time.
func (d dialect) at(when time.Time, p person, venue, verb, handoff string, more extras) signed {
	event := ulid.MustNew(ulid.Timestamp(when), ulid.DefaultEntropy()).String()
	if handoff == "" {
		handoff = event
	}
	return d.seal(p, venue, event, handoff, d.fields(p, verb, handoff, more))
}

// fields returns the signed fields of a step, by the names of tags without
// vendor.
func (d dialect) fields(p person, verb, handoff string, more extras) map[string]string {
	fields := map[string]string{}
	for name, value := range more {
		if name == "title" && d == rfcTags {
			name = "task"
		}
		fields[string(d)+"-"+name] = value
	}
	if d == rfcTags {
		fields["handoff"], fields["handoff-id"], fields["handoff-from"] = verb, handoff, p.did
		return fields
	}
	fields["act"], fields["act-verb"] = "handoff", verb
	if kind, other := more["kind"]; other {
		fields["act"] = kind
		delete(fields, "act-kind")
	}
	if verb != "offer" {
		fields["act-id"] = handoff
	}
	return fields
}

func (d dialect) seal(p person, venue, event, handoff string, fields map[string]string) signed {
	document := canonical(fields, p.did, venue, event)
	tags := map[string]string{
		vendor + "eventid": event,
		vendor + "sig":     "ed25519:" + keyID(p.public()) + ":" + base64.RawURLEncoding.EncodeToString(ed25519.Sign(p.key, []byte(document))),
	}
	if d == actTags {
		tags[vendor+"from"] = p.did
	}
	for name, value := range fields {
		tags[vendor+name] = value
	}
	return signed{tags: tags, handoff: handoff, event: event, document: document}
}

func (p person) public() ed25519.PublicKey { return ed25519.PublicKey(p.key[ed25519.SeedSize:]) }

// proof returns a step as an agent that signs it itself sends it.
func (s signed) proof(d dialect, p person) map[string]any {
	return map[string]any{
		"scheme": string(d), "document": s.document, "signature": s.tags[vendor+"sig"],
		"publicKey": base64.RawURLEncoding.EncodeToString(p.public()),
	}
}

func (d dialect) from(tags map[string]string) string {
	if d == actTags {
		return tags[vendor+"from"]
	}
	return tags[vendor+"handoff-from"]
}

// verify returns why the tags of a step are not signed by a key for a venue.
func (d dialect) verify(tags map[string]string, venue string, public ed25519.PublicKey) error {
	fields := map[string]string{}
	for full, value := range tags {
		name, ours := strings.CutPrefix(full, vendor)
		if ours && (name == string(d) || strings.HasPrefix(name, string(d)+"-")) {
			fields[name] = value
		}
	}
	text, ours := strings.CutPrefix(tags[vendor+"sig"], "ed25519:"+keyID(public)+":")
	signature, err := base64.RawURLEncoding.DecodeString(text)
	if !ours || err != nil {
		return fmt.Errorf("sig is %q, not of key %s", tags[vendor+"sig"], keyID(public))
	}
	document := canonical(fields, d.from(tags), venue, tags[vendor+"eventid"])
	if !ed25519.Verify(public, []byte(document), signature) {
		return fmt.Errorf("the signature does not match %s", document)
	}
	return nil
}

// names matches a TAGMSG with a step of a handoff.
func (d dialect) names(verb, handoff string) func(bridgetest.IRCMessage) bool {
	return func(m bridgetest.IRCMessage) bool {
		if m.Command != "TAGMSG" {
			return false
		}
		if d == rfcTags {
			return m.Tags[vendor+"handoff"] == verb && m.Tags[vendor+"handoff-id"] == handoff
		}
		id := m.Tags[vendor+"act-id"]
		if verb == "offer" {
			id = m.Tags[vendor+"eventid"]
		}
		return m.Tags[vendor+"act-verb"] == verb && id == handoff
	}
}

// await waits for a step of a handoff.
func (d dialect) await(t *testing.T, client *bridgetest.IRCClient, verb, handoff string) bridgetest.IRCMessage {
	t.Helper()
	return next(t, client, string(d)+" "+verb+" of "+handoff, d.names(verb, handoff))
}

// ownTags returns the tags of a message that its signer wrote.
func ownTags(m bridgetest.IRCMessage) map[string]string {
	tags := maps.Clone(m.Tags)
	maps.DeleteFunc(tags, func(name, _ string) bool { return !strings.HasPrefix(name, vendor) })
	return tags
}

// privately returns the venue of an exchange of two.
func privately(a, b string) string { return "dm:" + min(a, b) + "," + max(a, b) }

// homeKey returns the key of the gateway itself, as everybody can read it.
func (h *house) homeKey(t *testing.T) ed25519.PublicKey {
	t.Helper()
	status, text := get(t, h.url()+"/.well-known/did.json")
	var document struct {
		ID                 string
		VerificationMethod []struct{ PublicKeyMultibase string }
		AssertionMethod    []string
	}
	if err := json.Unmarshal([]byte(text), &document); err != nil || status != http.StatusOK {
		t.Fatalf("did.json: %d %s: %v", status, text, err)
	}
	if document.ID != homeDID || len(document.VerificationMethod) != 1 || !slices.ContainsFunc(document.AssertionMethod, func(id string) bool { return strings.HasPrefix(id, homeDID+"#") }) {
		t.Fatalf("did.json: %s", text)
	}
	public, err := publicKey("did:key:" + document.VerificationMethod[0].PublicKeyMultibase)
	if err != nil {
		t.Fatal(err)
	}
	return public
}

// homeDID is the DID of the gateway of a house.
const homeDID = "did:web:gw.test"

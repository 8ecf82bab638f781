package identity

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"baton/federation"
)

// maxKeys bounds the keys of one DID. No person and no server needs more.
const maxKeys = 16

// ParseDocument reads a DID document and returns the Ed25519 keys that sign for the DID: the keys that
// the document lists for assertion or authentication, or all keys if it lists none. It ignores keys of
// other kinds. The document must be that of the DID, and JSON without repeated names.
//
// spec: did-core §5.2, §5.3
func ParseDocument(did federation.DID, body []byte) ([]ed25519.PublicKey, error) {
	document, err := parseDocument(did, body)
	return document.Keys, err
}

// parseDocument is [ParseDocument] with the keys of other kinds.
func parseDocument(did federation.DID, body []byte) (federation.Document, error) {
	var members map[string]json.RawMessage
	if err := federation.DecodeJSON(body, &members); err != nil {
		return federation.Document{}, fmt.Errorf("parse document of %s: %w", did, err)
	}
	if id := text(members["id"]); id != string(did) {
		return federation.Document{}, fmt.Errorf("parse document of %s: it is that of %q", did, id)
	}
	methods, err := parseMethods(did, members)
	if err != nil {
		return federation.Document{}, fmt.Errorf("parse document of %s: %w", did, err)
	}
	document := federation.Document{DID: did, Mailbox: mailboxOf(members["service"])}
	for _, m := range methods {
		if err := addKey(&document, m.key); err != nil {
			return federation.Document{}, fmt.Errorf("parse document of %s: %w", did, err)
		}
	}
	return document, nil
}

// addKey adds a key once, to the keys of its kind.
func addKey(document *federation.Document, key federation.PublicKey) error {
	switch {
	case len(document.Keys)+len(document.Others) >= maxKeys:
		return fmt.Errorf("more than %d keys", maxKeys)
	case key.Kind == federation.Ed25519:
		if !slices.ContainsFunc(document.Keys, func(k ed25519.PublicKey) bool { return k.Equal(ed25519.PublicKey(key.Bytes)) }) {
			document.Keys = append(document.Keys, key.Bytes)
		}
	case !slices.ContainsFunc(document.Others, func(k federation.PublicKey) bool { return bytes.Equal(k.Bytes, key.Bytes) }):
		document.Others = append(document.Others, key)
	}
	return nil
}

// method is one verification method with its key.
type method struct {
	id  string
	key federation.PublicKey
}

// parseMethods returns the methods that sign for the DID.
func parseMethods(did federation.DID, document map[string]json.RawMessage) ([]method, error) {
	all, _, err := parseList(did, document["verificationMethod"])
	if err != nil {
		return nil, fmt.Errorf("verificationMethod: %w", err)
	}
	if document["assertionMethod"] == nil && document["authentication"] == nil {
		return all, nil
	}
	var chosen []method
	for _, purpose := range []string{"assertionMethod", "authentication"} {
		embedded, references, err := parseList(did, document[purpose])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", purpose, err)
		}
		chosen = append(chosen, embedded...)
		for _, m := range all {
			if slices.Contains(references, m.id) {
				chosen = append(chosen, m)
			}
		}
	}
	return chosen, nil
}

// parseList reads a list of methods, each embedded or referred to by its id.
func parseList(did federation.DID, list json.RawMessage) (methods []method, references []string, err error) {
	if list == nil {
		return nil, nil, nil
	}
	var items []json.RawMessage
	if err := federation.DecodeJSON(list, &items); err != nil {
		return nil, nil, err
	}
	for _, item := range items {
		if reference := text(item); reference != "" {
			references = append(references, absolute(did, reference))
			continue
		}
		var fields map[string]json.RawMessage
		if err := federation.DecodeJSON(item, &fields); err != nil {
			return nil, nil, err
		}
		key, err := parseMethodKey(fields)
		if errors.Is(err, errOtherKind) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if controller := text(fields["controller"]); controller == "" || controller == string(did) {
			methods = append(methods, method{id: absolute(did, text(fields["id"])), key: key})
		}
	}
	return methods, references, nil
}

// absolute returns the full form of a reference such as "#key-1".
func absolute(did federation.DID, reference string) string {
	if len(reference) > 0 && reference[0] == '#' {
		return string(did) + reference
	}
	return reference
}

// parseMethodKey returns the key of one method, or [errOtherKind].
func parseMethodKey(fields map[string]json.RawMessage) (federation.PublicKey, error) {
	switch text(fields["type"]) {
	case "Multikey", "Ed25519VerificationKey2020":
		return parseMultibase(text(fields["publicKeyMultibase"]))
	case "JsonWebKey2020", "JsonWebKey":
		return parseJWK(fields["publicKeyJwk"])
	}
	return federation.PublicKey{}, errOtherKind
}

// parseJWK reads the public members of an octet key pair.
//
// spec: RFC 8037 §2
func parseJWK(jwk json.RawMessage) (federation.PublicKey, error) {
	var fields map[string]json.RawMessage
	if err := federation.DecodeJSON(jwk, &fields); err != nil {
		return federation.PublicKey{}, fmt.Errorf("read publicKeyJwk: %w", err)
	}
	if text(fields["kty"]) != "OKP" || text(fields["crv"]) != "Ed25519" {
		return federation.PublicKey{}, errOtherKind
	}
	key, err := base64.RawURLEncoding.Strict().DecodeString(text(fields["x"]))
	if err != nil {
		return federation.PublicKey{}, fmt.Errorf("read publicKeyJwk: %w", err)
	}
	if _, err := federation.ParsePublicKey(key); err != nil {
		return federation.PublicKey{}, fmt.Errorf("read publicKeyJwk: %w", err)
	}
	return federation.PublicKey{Kind: federation.Ed25519, Bytes: key}, nil
}

// text returns the string that a JSON value is, or "" for any other value.
func text(value json.RawMessage) string {
	var s string
	if federation.DecodeJSON(value, &s) != nil {
		return ""
	}
	return s
}

package identity

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mr-tron/base58"

	"github.com/baton-gateway/baton/federation"
)

// Excess keys are skipped.
const maxKeys = 64

// The ID and the reason of a skipped key are stored, logged and returned.
const maxReasonBytes = 128

// Some editors write a byte order mark at the start of a UTF-8 text.
const byteOrderMark = "\xef\xbb\xbf"

// ParseDocument returns the Ed25519 keys in a DID document that sign for the DID: the keys for
// assertion or authentication, or all keys if there is neither list. Unreadable keys are skipped. The
// document must belong to the DID and must not contain repeated names.
//
// spec: did-core §5.2, §5.3
func ParseDocument(did federation.DID, body []byte) ([]ed25519.PublicKey, error) {
	document, err := parseDocument(did, body)
	return document.Keys, err
}

// The result includes skipped keys and keys of other kinds.
func parseDocument(did federation.DID, body []byte) (federation.Document, error) {
	var members map[string]json.RawMessage
	if err := federation.DecodeJSON(bytes.TrimPrefix(body, []byte(byteOrderMark)), &members); err != nil {
		return federation.Document{}, fmt.Errorf("parse document of %s: %w", did, err)
	}
	if id := text(members["id"]); id != string(did) {
		return federation.Document{}, fmt.Errorf("parse document of %s: it belongs to %q", did, cut(id))
	}
	document := federation.Document{DID: did, Mailbox: mailboxOf(members["service"])}
	methods, err := parseMethods(did, members)
	if err != nil {
		return federation.Document{}, fmt.Errorf("parse document of %s: %w", did, err)
	}
	for _, m := range methods {
		addKey(&document, m)
	}
	return document, nil
}

func addKey(document *federation.Document, m method) {
	if m.err == nil && len(document.Keys)+len(document.Others) >= maxKeys {
		m.err = fmt.Errorf("more than %d keys", maxKeys)
	}
	switch key := m.key; {
	case m.err != nil:
		skipped := federation.SkippedKey{ID: cut(m.id), Reason: cut(m.err.Error())}
		if len(document.Skipped) < maxKeys && !slices.Contains(document.Skipped, skipped) {
			document.Skipped = append(document.Skipped, skipped)
		}
	case key.Kind == federation.Ed25519:
		if !slices.ContainsFunc(document.Keys, func(k ed25519.PublicKey) bool { return k.Equal(ed25519.PublicKey(key.Bytes)) }) {
			document.Keys = append(document.Keys, key.Bytes)
		}
	case !slices.ContainsFunc(document.Others, func(k federation.PublicKey) bool { return bytes.Equal(k.Bytes, key.Bytes) }):
		document.Others = append(document.Others, key)
	}
}

// cut also removes control characters.
func cut(text string) string {
	if len(text) > maxReasonBytes {
		text = strings.ToValidUTF8(text[:maxReasonBytes], "") + "…"
	}
	return federation.PlainText(text)
}

type method struct {
	id  string
	key federation.PublicKey
	err error
}

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

// Methods are embedded or referenced by ID. Some documents have a single method instead of a list.
func parseList(did federation.DID, list json.RawMessage) (methods []method, references []string, err error) {
	if list == nil {
		return nil, nil, nil
	}
	var items []json.RawMessage
	if err := federation.DecodeJSON(list, &items); err != nil {
		if list[0] == '[' {
			return nil, nil, err
		}
		items = []json.RawMessage{list}
	}
	for _, item := range items {
		if reference := text(item); reference != "" {
			references = append(references, absolute(did, reference))
			continue
		}
		methods = append(methods, parseMethod(did, item))
	}
	return methods, references, nil
}

func parseMethod(did federation.DID, item json.RawMessage) method {
	var fields map[string]json.RawMessage
	if err := federation.DecodeJSON(item, &fields); err != nil {
		return method{err: errors.New("want an object or an id")}
	}
	m := method{id: absolute(did, text(fields["id"]))}
	if controller := text(fields["controller"]); controller != "" && controller != string(did) {
		m.err = errors.New("another DID controls it")
		return m
	}
	m.key, m.err = parseMethodKey(fields)
	return m
}

// References may be relative, such as "#key-1".
func absolute(did federation.DID, reference string) string {
	if len(reference) > 0 && reference[0] == '#' {
		return string(did) + reference
	}
	return reference
}

func parseMethodKey(fields map[string]json.RawMessage) (federation.PublicKey, error) {
	switch kind := text(fields["type"]); kind {
	case "Multikey", "Ed25519VerificationKey2020", "EcdsaSecp256r1VerificationKey2019", "EcdsaSecp256k1VerificationKey2019":
		if fields["publicKeyMultibase"] == nil && fields["publicKeyJwk"] != nil {
			return ParseJWK(fields["publicKeyJwk"])
		}
		return parseMultibase(text(fields["publicKeyMultibase"]))
	case "JsonWebKey2020", "JsonWebKey":
		return ParseJWK(fields["publicKeyJwk"])
	case "Ed25519VerificationKey2018":
		if fields["publicKeyBase58"] == nil && fields["publicKeyMultibase"] != nil {
			return parseMultibase(text(fields["publicKeyMultibase"]))
		}
		return parseBase58(text(fields["publicKeyBase58"]))
	default:
		return federation.PublicKey{}, fmt.Errorf("%w: type %q", errOtherKind, cut(kind))
	}
}

func parseBase58(text string) (federation.PublicKey, error) {
	if len(text) > maxMultibaseBytes {
		return federation.PublicKey{}, errors.New("publicKeyBase58: too long")
	}
	raw, err := base58.Decode(text)
	if err == nil {
		_, err = federation.ParsePublicKey(raw)
	}
	if err != nil {
		return federation.PublicKey{}, fmt.Errorf("publicKeyBase58: %w", err)
	}
	return federation.PublicKey{Kind: federation.Ed25519, Bytes: raw}, nil
}

// ParseJWK parses a public octet key pair, or a point on P-256 or secp256k1.
//
// spec: RFC 8037 §2, RFC 7518 §6.2.1, RFC 8812 §3.1
func ParseJWK(jwk json.RawMessage) (federation.PublicKey, error) {
	var fields map[string]json.RawMessage
	if err := federation.DecodeJSON(jwk, &fields); err != nil {
		return federation.PublicKey{}, fmt.Errorf("publicKeyJwk: %w", err)
	}
	key := federation.PublicKey{Kind: federation.Ed25519}
	x, err := base64.RawURLEncoding.Strict().DecodeString(text(fields["x"]))
	switch kind := text(fields["kty"]) + " " + text(fields["crv"]); kind {
	case "OKP Ed25519":
		key.Bytes = x
	case "EC P-256", "EC secp256k1":
		if key.Kind = federation.P256; kind == "EC secp256k1" {
			key.Kind = federation.Secp256k1
		}
		y, wrong := base64.RawURLEncoding.Strict().DecodeString(text(fields["y"]))
		if err = cmp.Or(err, wrong); err == nil && (len(x) != pointBytes-1 || len(y) != pointBytes-1) {
			err = fmt.Errorf("want %d bytes in x and y", pointBytes-1)
		}
		if err == nil {
			key.Bytes = append([]byte{2 | y[len(y)-1]&1}, x...)
			err = checkCoordinate(key, y)
		}
	default:
		return federation.PublicKey{}, fmt.Errorf("%w: publicKeyJwk %q", errOtherKind, cut(kind))
	}
	if err == nil {
		err = checkPoint(key)
	}
	if err != nil {
		return federation.PublicKey{}, fmt.Errorf("publicKeyJwk: %w", err)
	}
	return key, nil
}

// The result is "" for any other type.
func text(value json.RawMessage) string {
	var s string
	if federation.DecodeJSON(value, &s) != nil {
		return ""
	}
	return s
}

// mailboxService is the type of the service entry that names a DID's mailbox home by its public
// address:
//
//	"service": [{"id": DID#baton, "type": "BatonHome", "serviceEndpoint": "https://b.example"}]
//
// A did:plc has it among its services, as {"type": "BatonHome", "endpoint": URL}.
//
// spec: did-core §5.4
const mailboxService = "BatonHome"

type service struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Endpoint string `json:"serviceEndpoint"`
}

// The first entry of a home counts. Unreadable entries are ignored.
func mailboxOf(list json.RawMessage) string {
	var items []json.RawMessage
	if federation.DecodeJSON(list, &items) != nil {
		return ""
	}
	for _, item := range items {
		var fields map[string]json.RawMessage
		if federation.DecodeJSON(item, &fields) != nil {
			continue
		}
		var types []string
		if federation.DecodeJSON(fields["type"], &types) != nil {
			types = []string{text(fields["type"])}
		}
		if slices.Contains(types, mailboxService) {
			return text(fields["serviceEndpoint"])
		}
	}
	return ""
}

// The result is "" for more than one home.
func plcMailbox(services map[string]any) string {
	var found []string
	for _, value := range services {
		fields, _ := value.(map[string]any)
		if kind, _ := fields["type"].(string); kind == mailboxService {
			endpoint, _ := fields["endpoint"].(string)
			found = append(found, endpoint)
		}
	}
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// Package signing writes the canonical documents that signatures cover, and verifies signatures.
// Its functions are pure, except that some read keys from a [federation.KeySource].
//
// A [Scheme] describes how one format signs. Steps in the tags of IRC are most of the traffic, so
// they have separate functions: [Document], [Verify], [Seal].
//
// Every scheme is Ed25519 over RFC 8785 JSON, except for a few old ones. A text that two JSON
// parsers could read as different values has no canonical form, except for numbers beyond ±2^53,
// which RFC 8785 rounds.
//
// Guarantees:
//
//   - All verification follows the rule of the standard library, so that homes never disagree: the
//     equation without the cofactor, S below the group order, and R compared as bytes.
//   - No signature is valid under a key that [federation.ParsePublicKey] refuses.
//   - A missing key makes a signature unverifiable, never invalid.
//
// spec: handofftag "Canonical document"; airc-v0.1.1 §6
package signing

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/baton-gateway/baton/federation"
)

// Document returns the canonical document of a step: its signed fields, the DID of the signer, the
// venue, and the event ID if the signature covers it.
func Document(ev federation.Event) (string, error) {
	if ev.From == "" || ev.Venue == "" || ev.Handoff.IsZero() || ev.Dialect == federation.ActTags && !ev.Stamped {
		return "", errors.New("canonical document: signer, venue and ids are needed")
	}
	var id string
	if ev.Stamped {
		id = ev.ID.String()
	}
	return Canonical(ev.Fields, ev.From, ev.Venue, id)
}

// Canonical returns the document that a signature covers: a JSON object of the fields, with the
// signer as "from", the venue as "target" and the ID, if any.
//
// spec: handofftag "Canonical document"; freeq-act "Canonical document"
func Canonical(fields map[string]string, from federation.DID, target, id string) (string, error) {
	members := make(map[string]string, len(fields)+3)
	for name, value := range fields {
		if !utf8.ValidString(value) || !utf8.ValidString(name) {
			return "", fmt.Errorf("canonical document: field %q is not UTF-8", name)
		}
		members[name] = value
	}
	members["from"], members["target"] = string(from), target
	if id != "" {
		members["id"] = id
	}
	canonical, err := canonicalObject(members)
	if err != nil {
		return "", fmt.Errorf("canonical document: %w", err)
	}
	return string(canonical), nil
}

// Seal signs a step, including its ID, with a key that the gateway keeps.
func Seal(ctx context.Context, key federation.SigningKey, ev federation.Event) (federation.Event, error) {
	ev.Stamped = true
	document, err := Document(ev)
	if err != nil {
		return ev, err
	}
	sig, err := key.Sign(ctx, []byte(document))
	if err != nil {
		return ev, fmt.Errorf("sign step %s: %w", ev.ID, err)
	}
	kid := federation.KeyID(key.Public)
	ev.Signature = federation.Signature{
		KeyID: kid, Bytes: sig, Document: document, Key: key.Public,
		Text: inTag().Write(kid, sig),
	}
	return ev, nil
}

// Envelope returns the bytes covered by the signature of an AIRC message: its canonical JSON
// without the members signature and seq. The error is that of [federation.ExactJSON].
//
// spec: airc-v0.1.1 §6.2
func Envelope(envelope []byte) ([]byte, error) {
	canonical, err := without(envelope, "signature", "seq")
	if err != nil {
		return nil, fmt.Errorf("canonical envelope: %w", err)
	}
	return canonical, nil
}

// Message is the scheme of an AIRC agent's message.
//
// spec: airc-v0.1.1 §6.2
func Message() Scheme {
	return Scheme{Name: "airc", Document: Envelope, Encoding: inEnvelope(), KeyID: AgentKeyID}
}

// SignEnvelope returns an AIRC envelope as canonical JSON with its signature. The envelope must
// marshal to a JSON object.
func SignEnvelope(ctx context.Context, key federation.SigningKey, envelope any) ([]byte, error) {
	text, err := json.Marshal(envelope)
	if err != nil {
		return nil, fmt.Errorf("sign envelope: %w", err)
	}
	signature, document, err := Message().Sign(ctx, key, text)
	if err != nil {
		return nil, fmt.Errorf("sign envelope: %w", err)
	}
	var members map[string]json.RawMessage
	if err := federation.DecodeJSON(document, &members); err != nil {
		return nil, fmt.Errorf("sign envelope: %w", err)
	}
	members["signature"] = json.RawMessage(`"` + signature + `"`)
	signed, err := canonicalObject(members)
	if err != nil {
		return nil, fmt.Errorf("sign envelope: %w", err)
	}
	return signed, nil
}

const algorithm = "ed25519:"

// Encoding is the form of a signature: base64 after an optional prefix and an optional key ID with
// a colon.
type Encoding struct {
	prefix string
	named  bool // the key ID precedes the signature
	base64 *base64.Encoding
	lax    bool // accepts either alphabet, with or without padding and prefix
}

// The tag is "ed25519:<kid>:<base64url>".
func inTag() Encoding { return Encoding{prefix: algorithm, named: true, base64: base64.RawURLEncoding} }

func inEnvelope() Encoding { return Encoding{base64: base64.RawURLEncoding} }

func withAlgorithm() Encoding { return Encoding{prefix: algorithm, base64: base64.StdEncoding} }

// Writes padded standard base64, and accepts all forms that clients send.
func asFound() Encoding { return Encoding{prefix: algorithm, base64: base64.StdEncoding, lax: true} }

// Write returns a signature in its wire form. The key ID is ignored by encodings that name no key.
func (e Encoding) Write(kid string, sig []byte) string {
	prefix := e.prefix
	if e.lax {
		prefix = ""
	}
	if e.named {
		prefix += kid + ":"
	}
	return prefix + e.base64.EncodeToString(sig)
}

// Read is the reverse of Write. It returns false for a signature of another algorithm. Except in a
// lax encoding, each value has one spelling.
func (e Encoding) Read(text string) (kid string, sig []byte, ours bool) {
	rest, found := strings.CutPrefix(text, e.prefix)
	if !found && !e.lax {
		return "", nil, false
	}
	if e.named {
		if kid, rest, found = strings.Cut(rest, ":"); !found || kid == "" {
			return "", nil, false
		}
	}
	if e.lax {
		return "", decodeAnyBase64(rest), true
	}
	sig, _ = decodeStrict(e.base64, rest) // nil never verifies
	return kid, sig, true
}

func decodeAnyBase64(s string) []byte {
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(s), "="))
	if err != nil {
		return nil
	}
	return raw
}

// DecodeBase64URL decodes base64url without padding. Unused bits must be zero, so that each value
// has one spelling.
func DecodeBase64URL(s string) ([]byte, error) { return decodeStrict(base64.RawURLEncoding, s) }

func decodeStrict(encoding *base64.Encoding, s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") { // the decoder would skip them
		return nil, errors.New("decode base64: line break")
	}
	raw, err := encoding.Strict().DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("decode base64: %w", err)
	}
	return raw, nil
}

// A signature is "ed25519:<kid>:<base64url>", or "ed25519:<base64>" as in the RFC. The last result
// is false for another algorithm.
func parse(text string) (kid string, sig []byte, ours bool) {
	if kid, sig, ours = inTag().Read(text); ours {
		return kid, sig, true
	}
	if !strings.HasPrefix(text, algorithm) {
		return "", nil, false
	}
	return asFound().Read(text)
}

// Scheme describes how one format signs: the signed bytes, the encoding, and the name of the key.
type Scheme struct {
	Name string // in passports
	// Document returns the bytes covered by the signature of a message, or an error if there are
	// none. The message is JSON with or without its signature, unless the scheme defines otherwise.
	Document func(message []byte) ([]byte, error)
	Encoding Encoding
	// KeyID returns the name of a key in messages of the scheme. It is nil if they name only the
	// owner.
	KeyID func(ed25519.PublicKey) string
}

// Sign returns the signature of a message in the scheme's encoding, and the bytes that it covers.
func (s Scheme) Sign(ctx context.Context, key federation.SigningKey, message []byte) (signature string, document []byte, err error) {
	if document, err = s.Document(message); err != nil {
		return "", nil, err
	}
	sig, err := key.Sign(ctx, document)
	if err != nil {
		return "", nil, fmt.Errorf("sign %s: %w", s.Name, err)
	}
	var kid string
	if s.Encoding.named {
		kid = s.KeyID(key.Public)
	}
	return s.Encoding.Write(kid, sig), document, nil
}

// Verify verifies the signature of a message under one key. The verdict is
// [federation.Unverifiable] for another algorithm or another named key. It is also Unverifiable,
// with an error, for a message without a canonical form.
func (s Scheme) Verify(message []byte, signature string, key ed25519.PublicKey) (federation.Verdict, error) {
	document, err := s.Document(message)
	if err != nil {
		return federation.Unverifiable, err
	}
	return s.verify(document, signature, key), nil
}

func (s Scheme) verify(document []byte, signature string, key ed25519.PublicKey) federation.Verdict {
	kid, sig, ours := s.Encoding.Read(signature)
	switch {
	case !ours, kid != "" && s.KeyID != nil && kid != s.KeyID(key):
		return federation.Unverifiable
	case !verified(key, document, sig):
		return federation.Invalid
	}
	return federation.Valid
}

// Match verifies the signature of a message that does not name its scheme. It returns the first
// scheme under which the signature is valid, or the zero Scheme. The verdict is then [federation.Invalid]
// if any scheme could judge the signature.
func Match(message []byte, signature string, key ed25519.PublicKey, schemes ...Scheme) (Scheme, federation.Verdict) {
	verdict := federation.Unverifiable
	for _, s := range schemes {
		judged, _ := s.Verify(message, signature, key) // without a canonical form, a message proves nothing
		switch judged {
		case federation.Valid:
			return s, federation.Valid
		case federation.Invalid:
			verdict = federation.Invalid
		case federation.Unverifiable:
		}
	}
	return Scheme{}, verdict
}

// AgentKeyID names the key of an AIRC agent: "k_" and the first 16 hexadecimal digits of its SHA-256.
//
// spec: airc-shapes "Rules for all"
func AgentKeyID(public ed25519.PublicKey) string { return "k_" + shortHash(public) }

// RegistryKeyID names the key of an AIRC registry, like [AgentKeyID] with "reg_".
//
// spec: airc-shapes "Rules for all"
func RegistryKeyID(public ed25519.PublicKey) string { return "reg_" + shortHash(public) }

func shortHash(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:8])
}

// HandoffStep is the scheme of a step in the tags of the handoff RFC. Its message is the result of
// [Document], in any order and spacing.
//
// spec: handofftag "Canonical document"
func HandoffStep() Scheme {
	return Scheme{Name: string(federation.HandoffTags), Document: handoffDocument, Encoding: inTag(), KeyID: federation.KeyID}
}

// ActStep is the scheme of a step in the act tags of freeq servers.
//
// spec: freeq-act "Canonical document"
func ActStep() Scheme {
	return Scheme{Name: string(federation.ActTags), Document: actDocument, Encoding: inTag(), KeyID: federation.KeyID}
}

// Receipt is the scheme of a home's receipt for a step, in either dialect.
//
// spec: handofftag "Confirm"; freeq-act "Receipts"
func Receipt() Scheme {
	return Scheme{Name: "receipt", Document: receiptDocument, Encoding: inTag(), KeyID: federation.KeyID}
}

// Passport is the scheme of a passport, which its home signs as a whole.
func Passport() Scheme {
	return Scheme{Name: "passport", Document: canonicalWithout("signature"), Encoding: inTag(), KeyID: federation.KeyID}
}

func handoffDocument(message []byte) ([]byte, error) {
	return stepDocument(message, federation.HandoffTags, nil)
}

func actDocument(message []byte) ([]byte, error) {
	return stepDocument(message, federation.ActTags, nil)
}

func receiptDocument(message []byte) ([]byte, error) {
	document, err := stepDocument(message, federation.HandoffTags, checkReceipt)
	if errors.Is(err, errOtherDialect) {
		return stepDocument(message, federation.ActTags, checkReceipt)
	}
	return document, err
}

var errOtherDialect = errors.New("it is not a step of this dialect")

// Members other than signed tags are refused, because no link could have read them.
func stepDocument(message []byte, dialect federation.Dialect, check func(map[string]string) error) ([]byte, error) {
	canonical, members, err := canonicalStrings(message)
	if err == nil {
		err = checkStep(members, dialect)
	}
	if err == nil && check != nil {
		err = check(members)
	}
	if err != nil {
		return nil, fmt.Errorf("canonical step: %w", err)
	}
	return canonical, nil
}

func checkStep(members map[string]string, dialect federation.Dialect) error {
	if members[string(dialect)] == "" {
		return errOtherDialect
	}
	for name := range members {
		switch {
		case name == "from", name == "target", name == "id":
		case name == string(dialect), strings.HasPrefix(name, string(dialect)+"-"):
		default:
			return fmt.Errorf("%q is no signed tag of this dialect", name)
		}
	}
	required := []string{"from", "target", "id"}
	if dialect == federation.HandoffTags {
		required = []string{"from", "target", "handoff-id"}
	}
	for _, name := range required {
		if members[name] == "" {
			return fmt.Errorf("no %s", name)
		}
	}
	return nil
}

func checkReceipt(members map[string]string) error {
	verb, subject := members["handoff"], members["handoff-subject"]
	if members["act"] != "" {
		verb, subject = members["act-verb"], members["act-subject"]
	}
	switch {
	case verb != string(federation.Confirm):
		return fmt.Errorf("the verb is %q", verb)
	case subject == "":
		return errors.New("no subject")
	case members["id"] == "":
		return errors.New("no id")
	}
	return nil
}

// The prefix makes the signature invalid for any other purpose.
const homePrefix = "baton-home/1\n"

// SignHome signs a message from one home to another. The signature covers the bytes as sent.
func SignHome(ctx context.Context, key federation.SigningKey, message []byte) (string, error) {
	sig, err := key.Sign(ctx, homeDocument(message))
	if err != nil {
		return "", fmt.Errorf("sign for another home: %w", err)
	}
	return inTag().Write(federation.KeyID(key.Public), sig), nil
}

func homeDocument(message []byte) []byte { return append([]byte(homePrefix), message...) }

// VerifyHome verifies a home's signature with the keys of its DID at the given time. The error is
// nil only for [federation.Valid], and wraps [*federation.UnavailableError] if a retry may help.
func VerifyHome(ctx context.Context, keys federation.KeySource, home federation.HomeID, message []byte, signature string, at time.Time) (federation.Verdict, error) {
	kid, sig, ours := inTag().Read(signature)
	if !ours {
		return federation.Unverifiable, errors.New("signature of a home: want ed25519 with the id of a key")
	}
	known, err := keys.Keys(ctx, federation.KeyQuery{DID: home.DID(), KeyID: kid, Received: at})
	if errors.Is(err, federation.ErrKeyEnded) {
		return federation.Invalid, fmt.Errorf("signature of home %s: %w", home, err)
	}
	if err != nil {
		return federation.Unverifiable, fmt.Errorf("keys of home %s: %w", home, err)
	}
	document := homeDocument(message)
	for _, key := range known {
		if federation.KeyID(key) == kid && verified(key, document, sig) {
			return federation.Valid, nil
		}
	}
	return federation.Invalid, fmt.Errorf("signature of home %s: it is not by a key of the home", home)
}

// HomeSigner signs for a home, and verifies the signatures of other homes.
type HomeSigner struct {
	Key  func() federation.SigningKey
	Keys func() federation.KeySource // may block on the hosts of the other homes
}

// Sign returns [SignHome] with the current key.
func (s HomeSigner) Sign(ctx context.Context, message []byte) (string, error) {
	return SignHome(ctx, s.Key(), message)
}

// Verify returns [VerifyHome] with the current key source.
func (s HomeSigner) Verify(ctx context.Context, home federation.HomeID, at time.Time, message []byte, signature string) (federation.Verdict, error) {
	return VerifyHome(ctx, s.Keys(), home, message, signature, at)
}

package signing

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// Writer returns the members of a step as the fields of its dialect, and the members that do not
// fit.
type Writer func(ev federation.Event) (fields map[string]string, losses []federation.Loss)

// Referrer stores the inline context of a step and returns the step with a reference to it. It
// returns any other step unchanged. It may block.
type Referrer func(ctx context.Context, ev federation.Event) (federation.Event, error)

// Vouch returns a step signed by a gateway with the key kept for its author. The draft needs an
// ID, the members, the dialect, the venue and the arrival. It also needs For if the key does not
// name the author, and evidence if the author wrote an original. A context that does not fit is
// stored first. The losses are the members missing in the signed document.
func Vouch(ctx context.Context, key federation.SigningKey, draft federation.Event, write Writer, refer Referrer) (federation.Event, []federation.Loss, error) {
	draft.From, draft.Provenance = key.DID, federation.Vouched
	return SealFitted(ctx, key, draft, write, refer)
}

// SealFitted writes and seals a step. Like [Vouch], it stores a context that does not fit, and
// returns the losses.
func SealFitted(ctx context.Context, key federation.SigningKey, ev federation.Event, write Writer, refer Referrer) (federation.Event, []federation.Loss, error) {
	fields, losses := write(ev)
	unhashed := ev.ContextHash == "" && federation.CapabilityIn(ev.Context) != "" // of a context that may be stored here
	if federation.Loses(losses, "context") || unhashed {
		var err error
		if ev, err = refer(ctx, ev); err != nil {
			return ev, nil, fmt.Errorf("store context of %s: %w", ev.ID, err)
		}
		fields, losses = write(ev)
	}
	ev.Fields = fields
	ev, err := Seal(ctx, key, ev)
	return ev, losses, err
}

// Original is the foreign message of a vouched step.
type Original struct {
	Network   string // as in [federation.Arrival]
	Received  time.Time
	Document  string // the message exactly as received, or the signed document
	Signature string // of a signed document; empty if Document contains it
	KeyID     string
	Key       ed25519.PublicKey
}

// EvidencePath is the path below which a gateway serves originals, by SHA-256 in hexadecimal.
const EvidencePath federation.URLPath = "/evidence"

// OriginalOf returns a signed step, or text, as the original of a rendition.
func OriginalOf(signed federation.Signature, at federation.Arrival) Original {
	return Original{
		Network: at.Network, Received: at.Received, Document: signed.Document, Signature: signed.Text, KeyID: signed.KeyID, Key: signed.Key,
	}
}

// Evidence returns the evidence of an original for a step at a venue: canonical JSON, and its
// address at the gateway. It is deterministic. The address of private evidence has a capability,
// because other readers may see the digest.
//
// spec: airc-shapes "A step as payload"
func (o Original) Evidence(ctx context.Context, publicURL, venue string, secret federation.SigningKey) (federation.Evidence, error) {
	members := map[string]any{
		"v": 1, "network": o.Network, "received": o.Received.UTC().Format("2006-01-02T15:04:05.000Z07:00"), "document": o.Document,
		"key": map[string]string{"kid": o.KeyID, "publicKey": base64.RawURLEncoding.EncodeToString(o.Key)},
	}
	if o.Signature != "" {
		members["signature"] = o.Signature
	}
	served, err := canonicalObject(members)
	if err != nil {
		return federation.Evidence{}, fmt.Errorf("write evidence: %w", err)
	}
	digest := sha256.Sum256(served)
	var query url.Values
	if federation.Private(venue) {
		capability, err := evidenceCapability(ctx, digest, secret)
		if err != nil {
			return federation.Evidence{}, err
		}
		query = url.Values{capabilityQuery: {capability}}
	}
	address, err := federation.JoinURL(publicURL, EvidencePath.Join(hex.EncodeToString(digest[:])), query)
	if err != nil {
		return federation.Evidence{}, fmt.Errorf("name evidence: %w", err)
	}
	return federation.Evidence{
		URL: address, Digest: digest, Bytes: served, Source: sha256.Sum256([]byte(o.Document)),
	}, nil
}

const capabilityQuery = "k"

const capabilityBytes = 16

// EvidenceSecret is the name of the kept key that makes capabilities. It signs nothing else.
const EvidenceSecret = "evidence"

// OpensEvidence reports whether a query has the capability of evidence.
func OpensEvidence(ctx context.Context, digest [sha256.Size]byte, query url.Values, key federation.SigningKey) (bool, error) {
	capability, err := evidenceCapability(ctx, digest, key)
	return err == nil && hmac.Equal([]byte(capability), []byte(query.Get(capabilityQuery))), err
}

// An Ed25519 signature is deterministic, and unknown without the key.
func evidenceCapability(ctx context.Context, digest [sha256.Size]byte, key federation.SigningKey) (string, error) {
	signature, err := key.Sign(ctx, append([]byte("baton evidence capability v1\x00"), digest[:]...))
	if err != nil {
		return "", fmt.Errorf("make capability of evidence: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(signature[:capabilityBytes]), nil
}

// SealText returns a text signed with the key kept for the author. The evidence is valid only for
// this text, because an author may write the same line twice.
func SealText(ctx context.Context, key federation.SigningKey, t federation.Text) (federation.Text, error) {
	document, err := textDocument(t)
	if err != nil {
		return t, fmt.Errorf("write text %s: %w", t.ID, err)
	}
	sig, err := key.Sign(ctx, []byte(document))
	if err != nil {
		return t, fmt.Errorf("sign text %s: %w", t.ID, err)
	}
	kid := federation.KeyID(key.Public)
	t.Signature = federation.Signature{KeyID: kid, Bytes: sig, Document: document, Key: key.Public, Text: inTag().Write(kid, sig)}
	if t.Evidence != nil {
		evidence := *t.Evidence
		evidence.Source = sha256.Sum256(slices.Concat(evidence.Source[:], t.ID[:]))
		t.Evidence = &evidence
	}
	return t, nil
}

func textDocument(t federation.Text) (string, error) {
	members := maps.Clone(t.Fields)
	if members == nil {
		members = map[string]string{}
	}
	members["message"], members["from"], members["for"], members["to"] = t.ID.String(), string(t.From), string(t.Author), string(t.To)
	members["text"], members["about"] = t.Body, t.About.String()
	text, err := json.Marshal(members)
	if err != nil {
		return "", err
	}
	canonical, err := JCS(text)
	return string(canonical), err
}

// ReadText returns the private text in a document made by [SealText]. The function didKey returns
// the key of a did:key. The error is a [*federation.RefusalError].
func ReadText(document, signature string, didKey func(federation.DID) (ed25519.PublicKey, error)) (federation.Text, error) {
	var members map[string]string
	err := federation.ExactJSON([]byte(document))
	if err == nil {
		err = federation.DecodeJSON([]byte(document), &members)
	}
	if err != nil {
		return federation.Text{}, &federation.RefusalError{Code: federation.InvalidTag, Detail: "the message cannot be read"}
	}
	t := federation.Text{
		From: federation.DID(members["from"]), Author: federation.DID(members["for"]), To: federation.DID(members["to"]), Body: members["text"],
	}
	if t.ID, err = federation.ParseEventID(members["message"]); err != nil {
		return t, t.Refuse(federation.InvalidEventID, "want a ULID in upper case")
	}
	for _, did := range []federation.DID{t.From, t.Author, t.To} {
		if _, err := federation.ParseDID(string(did)); err != nil {
			return t, t.Refuse(federation.InvalidTarget, err.Error())
		}
	}
	t.About, _ = federation.ParseEventID(members["about"])
	t.Order, t.Venue = federation.Conversation(t.Author, t.To), federation.PrivateVenue(t.Author, t.To)
	for _, name := range []string{"message", "from", "for", "to", "text", "about"} {
		delete(members, name)
	}
	t.Fields = members
	kid, sig, ours := parse(signature)
	key, err := didKey(t.From)
	t.Signature = federation.Signature{KeyID: kid, Bytes: sig, Document: document, Key: key, Text: signature}
	if err != nil || !ours || verifyText(t, key) != nil {
		return t, t.Refuse(federation.SignatureInvalid, "")
	}
	return t, nil
}

var errText = errors.New("signing: the text differs from the signed text")

// VerifyText returns nil for a filed text unchanged since [SealText] signed it, with a key as in
// [VerifyAgain].
func VerifyText(t federation.Text, didKey func(federation.DID) (ed25519.PublicKey, error)) error {
	key, err := didKey(t.From)
	if err != nil {
		key = t.Signature.Key
	}
	return verifyText(t, key)
}

func verifyText(t federation.Text, key ed25519.PublicKey) error {
	document, err := textDocument(t)
	if err != nil {
		return err
	}
	if document != t.Signature.Document || !verified(key, []byte(document), t.Signature.Bytes) {
		return errText
	}
	return nil
}

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

	"github.com/gowebpki/jcs"

	"baton/federation"
)

// Writer returns the members of a step as the fields of its dialect, and the members that do not fit.
type Writer func(ev federation.Event) (fields map[string]string, losses []federation.Loss)

// Referrer stores the inline context of a step and returns the step with a reference to it. It may
// block, and returns any other step unchanged.
type Referrer func(ctx context.Context, ev federation.Event) (federation.Event, error)

// Vouch returns a step that a gateway signs for its author, with a key that the gateway keeps for the
// author. The draft has an ID, the members, the dialect, the venue and the arrival, For if the key does
// not name the author, and evidence if the author wrote an original. A context that does not fit is stored first.
// The losses are the members that the signed document does not carry.
func Vouch(ctx context.Context, key federation.SigningKey, draft federation.Event, write Writer, refer Referrer) (federation.Event, []federation.Loss, error) {
	draft.From, draft.Provenance = key.DID, federation.Vouched
	return SealFitted(ctx, key, draft, write, refer)
}

// SealFitted writes the members of a step, and seals the step. It stores a context that does not fit,
// and returns the losses, as [Vouch] does.
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

// Original is the foreign message that a vouched step was read from.
type Original struct {
	Network   string    // as in [federation.Arrival]
	Received  time.Time // when it first arrived
	Document  string    // the message exactly as received, or the signed document
	Signature string    // of a signed document; empty where Document contains it
	KeyID     string
	Key       ed25519.PublicKey
}

// EvidencePath is the path below which a gateway serves originals, each by the hexadecimal digits of its
// SHA-256.
const EvidencePath federation.URLPath = "/evidence"

// OriginalOf returns a signed step as the original of a rendition.
func OriginalOf(ev federation.Event) Original {
	return Original{
		Network: ev.Arrival.Network, Received: ev.Arrival.Received, Document: ev.Signature.Document,
		Signature: ev.Signature.Text, KeyID: ev.Signature.KeyID, Key: ev.Signature.Key,
	}
}

// Evidence returns the evidence of an original for a step at a venue: canonical JSON, and its address at the
// gateway, by the SHA-256. The same original gives the same bytes. Readers other than the parties may see the
// digest, so the address of private evidence has a capability, made with the key named [EvidenceSecret].
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
	text, err := json.Marshal(members)
	if err != nil {
		return federation.Evidence{}, fmt.Errorf("write evidence: %w", err)
	}
	served, err := jcs.Transform(text)
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

// capabilityQuery is the member of the query that has the capability of evidence.
const capabilityQuery = "k"

// capabilityBytes is how much of the signature over a digest is in a capability.
const capabilityBytes = 16

// EvidenceSecret is the name of the kept key that makes capabilities. It signs nothing else.
const EvidenceSecret = "evidence"

// OpensEvidence reports whether a query has the capability of evidence.
func OpensEvidence(ctx context.Context, digest [sha256.Size]byte, query url.Values, key federation.SigningKey) (bool, error) {
	capability, err := evidenceCapability(ctx, digest, key)
	return err == nil && hmac.Equal([]byte(capability), []byte(query.Get(capabilityQuery))), err
}

// evidenceCapability returns a part of an Ed25519 signature, which is deterministic, and unknown without the
// key.
func evidenceCapability(ctx context.Context, digest [sha256.Size]byte, key federation.SigningKey) (string, error) {
	signature, err := key.Sign(ctx, append([]byte("baton evidence capability v1\x00"), digest[:]...))
	if err != nil {
		return "", fmt.Errorf("make capability of evidence: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(signature[:capabilityBytes]), nil
}

// SealMessage returns a message that the gateway signs with the key that it keeps for its
// sender. The document has the message's fields and its ID. The evidence counts for this
// message alone: a sender may write the same line twice.
func SealMessage(ctx context.Context, key federation.SigningKey, ev federation.Event) (federation.Event, error) {
	document, err := messageDocument(ev)
	if err != nil {
		return ev, fmt.Errorf("write message %s: %w", ev.ID, err)
	}
	sig, err := key.Sign(ctx, []byte(document))
	if err != nil {
		return ev, fmt.Errorf("sign message %s: %w", ev.ID, err)
	}
	kid := federation.KeyID(key.Public)
	ev.Signature = federation.Signature{KeyID: kid, Bytes: sig, Document: document, Key: key.Public, Text: inTag().Write(kid, sig)}
	if ev.Evidence != nil {
		evidence := *ev.Evidence
		evidence.Source = sha256.Sum256(slices.Concat(evidence.Source[:], ev.ID[:]))
		ev.Evidence = &evidence
	}
	return ev, nil
}

// messageDocument returns the canonical JSON of what a message says.
func messageDocument(ev federation.Event) (string, error) {
	members := maps.Clone(ev.Fields)
	if members == nil {
		members = map[string]string{}
	}
	members["message"], members["from"], members["for"], members["to"] = ev.ID.String(), string(ev.From), string(ev.For), string(ev.To)
	members["text"], members["about"] = ev.Note, ev.ReplyTo
	text, err := json.Marshal(members)
	if err != nil {
		return "", err
	}
	canonical, err := JCS(text)
	return string(canonical), err
}

// ReadMessage returns the message of a document that [SealMessage] made, with the signature as
// [federation.Signature] has its text. The function didKey returns the key of a did:key. The error is
// a [*federation.RefusalError], also for a signature that the key of From did not make.
func ReadMessage(document, signature string, didKey func(federation.DID) (ed25519.PublicKey, error)) (federation.Event, error) {
	var members map[string]string
	err := federation.ExactJSON([]byte(document))
	if err == nil {
		err = federation.DecodeJSON([]byte(document), &members)
	}
	if err != nil {
		return federation.Event{}, &federation.RefusalError{Code: federation.InvalidTag, Detail: "the message cannot be read"}
	}
	ev := federation.Event{
		Verb: federation.Message, Kind: federation.Kind(federation.Message), From: federation.DID(members["from"]), For: federation.DID(members["for"]),
		To: federation.DID(members["to"]), Note: members["text"], ReplyTo: members["about"], Provenance: federation.Vouched,
	}
	if ev.ID, err = federation.ParseEventID(members["message"]); err != nil {
		return ev, federation.Refuse(ev, federation.InvalidEventID, "want a ULID in upper case")
	}
	for _, did := range []federation.DID{ev.From, ev.For, ev.To} {
		if _, err := federation.ParseDID(string(did)); err != nil {
			return ev, federation.Refuse(ev, federation.InvalidTarget, err.Error())
		}
	}
	ev.Handoff, ev.Venue = federation.Conversation(ev.For, ev.To), federation.PrivateVenue(ev.For, ev.To)
	for _, name := range []string{"message", "from", "for", "to", "text", "about"} {
		delete(members, name)
	}
	ev.Fields = members
	kid, sig, ours := parse(signature)
	key, err := didKey(ev.From)
	ev.Signature = federation.Signature{KeyID: kid, Bytes: sig, Document: document, Key: key, Text: signature}
	if err != nil || !ours || verifyMessage(ev, key) != nil {
		return ev, federation.Refuse(ev, federation.SignatureInvalid, "")
	}
	return ev, nil
}

// errMessage says that a message is not as it was signed.
var errMessage = errors.New("signing: the message is not what was signed")

// verifyMessage returns nil for a message that is as [SealMessage] signed it with a key.
func verifyMessage(ev federation.Event, key ed25519.PublicKey) error {
	document, err := messageDocument(ev)
	if err != nil {
		return err
	}
	if document != ev.Signature.Document || !verified(key, []byte(document), ev.Signature.Bytes) {
		return errMessage
	}
	return nil
}

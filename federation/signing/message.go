package signing

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"baton/federation"
)

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

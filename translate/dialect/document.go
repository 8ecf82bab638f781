package dialect

import (
	"errors"

	"baton/federation"
	"baton/translate"
	"baton/translate/acttag"
	"baton/translate/handofftag"
)

// someNick stands for the user of a private exchange: which one it is, the venue says.
const someNick = "anyone"

// FromDocument returns the step that a canonical document says, in the dialect of its
// members. Its signature is for the caller to add. The error is
// [translate.ErrNotHandoff] for a document without the tags of a step, a
// [*federation.RefusalError] for a step that cannot be read, and any other for what is
// no canonical document.
func FromDocument(document string) (federation.Event, error) {
	return fromDocument(document, Decode)
}

// Read is [FromDocument], and also reads the receipts of homes.
func Read(document string) (federation.Event, error) {
	return fromDocument(document, decodeFromHome)
}

// decodeFromHome is [Decode], and also reads receipts.
func decodeFromHome(m translate.Tagged) (federation.Event, error) {
	ev, err := handofftag.Codec{}.DecodeFromHome(m)
	if errors.Is(err, translate.ErrNotHandoff) {
		return acttag.Codec{}.DecodeFromHome(m)
	}
	return ev, err
}

func fromDocument(document string, decode func(translate.Tagged) (federation.Event, error)) (federation.Event, error) {
	signed, err := translate.FromDocument(document)
	if err != nil {
		return federation.Event{}, err
	}
	m := translate.Tagged{Command: "TAGMSG", Target: signed.Venue, Tags: translate.Wire(signed, map[string]string{"from": string(signed.From)})}
	if federation.Private(signed.Venue) {
		m.Target = someNick
	}
	ev, err := decode(m)
	if err != nil {
		return federation.Event{}, err
	}
	if ev.From != "" && ev.From != signed.From {
		return federation.Event{}, federation.Refuse(ev, federation.SignatureInvalid, "it is in the name of another DID")
	}
	ev.From, ev.Venue = signed.From, signed.Venue
	return ev, nil
}

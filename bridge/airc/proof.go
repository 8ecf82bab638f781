package airc

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/signing"
	"baton/translate/aircmsg"
	"baton/translate/dialect"
)

// attest returns the step that an agent signed itself, as it was signed. The
// payload around it must say the same.
//
// spec: airc-shapes "A step as payload"
func (l *Link) attest(ctx context.Context, d *delivery, s step) (federation.Event, error) {
	ev, err := readProof(*s.Proof)
	if err != nil {
		return federation.Event{}, err
	}
	ev.Arrival = d.arrival()
	if err := d.verify(ctx, ev, *s.Proof); err != nil {
		return federation.Event{}, err
	}
	if s.Verb == federation.Offer {
		return l.checkOffer(ctx, d, s, ev)
	}
	if ev.Verb != s.Verb || ev.Handoff != s.view.ID {
		return federation.Event{}, errOtherStep()
	}
	return ev, nil
}

func errOtherStep() error {
	return refuse(codeBadRequest, "the document in proof is another step than the payload")
}

// readProof reads the document of a proof as the tags that it was signed as.
func readProof(p aircmsg.Proof) (federation.Event, error) {
	ev, err := dialect.FromDocument(p.Document)
	if _, refused := errors.AsType[*federation.RefusalError](err); refused {
		return federation.Event{}, err
	}
	if err != nil {
		return federation.Event{}, refuse(codeBadRequest, "the document in proof is none of a step")
	}
	if ev.Dialect != p.Scheme {
		return federation.Event{}, refuse(codeBadRequest, "the document in proof is not in the tags of its scheme")
	}
	ev.Signature.Text = p.Signature
	return ev, nil
}

// verify refuses a step that its sender did not sign with its own key, or that is
// signed for other bytes than the document.
func (d *delivery) verify(ctx context.Context, ev federation.Event, p aircmsg.Proof) error {
	invalid := func(detail string) error { return federation.Refuse(ev, federation.SignatureInvalid, detail) }
	var key agents.Key
	for _, own := range d.sender.Keys {
		if own.Signs(d.received) && own.DID == ev.From {
			key = own
		}
	}
	switch {
	case key.ID == "":
		return invalid("the proof is not of the did:key of its sender")
	case p.PublicKey != base64.RawURLEncoding.EncodeToString(key.Public):
		return invalid("publicKey is not that of the sender")
	}
	judged, verdict, _ := signing.Verify(ctx, ownKey(key.Public), ev) // one known key: the verdict says it all
	if verdict != federation.Valid || judged.Signature.Document != p.Document {
		return invalid("")
	}
	return nil
}

// checkOffer holds an offer that its sender signed to the payload around it, and
// finds where it is written: it was signed for the exchange of two alone.
func (l *Link) checkOffer(ctx context.Context, d *delivery, s step, ev federation.Event) (federation.Event, error) {
	switch {
	case ev.Verb != federation.Offer, !s.Handoff.IsZero() && s.Handoff != ev.Handoff:
		return federation.Event{}, errOtherStep()
	case !d.recipient.is(ev.To):
		return federation.Event{}, misdirected(federation.View{}, "the document in proof is to another DID")
	case ev.Venue != l.pair(ev.From, ev.To):
		return federation.Event{}, misdirected(federation.View{}, "an offer in proof is signed for the pair of DIDs")
	}
	var err error
	ev.Arrival.Place, _, err = l.place(ctx, d, s, ev.From, ev.To)
	return ev, err
}

// ownKey implements [federation.KeySource] with the one key of a sender.
type ownKey ed25519.PublicKey

// Keys implements [federation.KeySource].
func (k ownKey) Keys(context.Context, federation.KeyQuery) ([]ed25519.PublicKey, error) {
	return []ed25519.PublicKey{ed25519.PublicKey(k)}, nil
}

// KeyOwner implements [federation.KeySource].
func (ownKey) KeyOwner(context.Context, string) (federation.DID, error) {
	return "", federation.ErrNotFound
}

package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/federation"
	"baton/federation/identity"
	"baton/federation/signing"
	"baton/translate"
	"baton/translate/dialect"
)

// signAsk returns what is asked for as a document that was signed here: the key
// never leaves this process, and what it signs is made here and not told by the
// gateway, which is asked only where the step belongs.
func signAsk(ctx context.Context, gateway *client, keyFile string, verb federation.Verb, id string, ask operatorapi.Ask, content stepContext) (operatorapi.Ask, error) {
	key, err := readSigningKey(keyFile)
	if err != nil {
		return ask, err
	}
	if ask.From != "" && ask.From != string(key.DID) {
		return ask, &usageError{fmt.Errorf("--from is %s, and the key is of %s", ask.From, key.DID)}
	}
	now := time.Now()
	eventID, err := federation.NewEventID(now, rand.Reader)
	if err != nil {
		return ask, err
	}
	ev := federation.Event{ID: eventID, Verb: verb, From: key.DID, Note: ask.Note, Context: content.text, Provenance: federation.Signed}
	if verb == federation.Offer {
		ev, err = offerTo(ctx, gateway, ev, ask)
	} else {
		ev, err = answerTo(ctx, gateway, ev, id)
	}
	if err != nil {
		return ask, err
	}
	fields, losses := dialect.Write(ev)
	if translate.Loses(losses, "context") || content.file != nil {
		if ev.Context, ev.ContextHash, err = content.stored(ctx, gateway, string(ev.From)); err != nil {
			return ask, err
		}
		fields, losses = dialect.Write(ev)
	}
	for _, loss := range losses {
		return ask, fmt.Errorf("sign: the %s does not fit: %s", loss.Field, loss.Why)
	}
	ev.Fields = fields
	if ev, err = signing.Seal(ctx, key, ev); err != nil {
		return ask, err
	}
	proof := operatorapi.Proof{Document: ev.Signature.Document, Signature: ev.Signature.Text}
	return operatorapi.Ask{Channel: ask.Channel, Proof: &proof, Reason: ask.Reason, Wait: ask.Wait}, nil
}

// offerTo completes an offer with where the gateway will write it.
func offerTo(ctx context.Context, gateway *client, ev federation.Event, ask operatorapi.Ask) (federation.Event, error) {
	params := contract.GetPlaceParams{From: string(ev.From), To: ask.To, Channel: ask.Channel}
	place, err := answered[operatorapi.Place](gateway.GetPlace(ctx, &params))
	if err != nil {
		return ev, err
	}
	ev.Handoff, ev.Kind, ev.To = ev.ID, federation.Handoff, federation.DID(ask.To)
	ev.Title, ev.Caps, ev.Deadline = ask.Title, ask.Caps, time.Time(ask.Deadline)
	ev.Venue, ev.Dialect = place.Venue, place.Dialect
	return ev, nil
}

// answerTo completes a step with the handoff that it is about.
func answerTo(ctx context.Context, gateway *client, ev federation.Event, id string) (federation.Event, error) {
	h, err := answered[operatorapi.Handoff](gateway.GetHandoff(ctx, id, &contract.GetHandoffParams{Limit: new(1)}))
	if err != nil {
		return ev, err
	}
	ev.Handoff, ev.Kind, ev.Venue, ev.Dialect, ev.ReplyTo = h.ID, h.Kind, h.Venue, h.Dialect, h.ID.String()
	return ev, nil
}

// readSigningKey reads a seed in hexadecimal, from a file that nobody else may read.
func readSigningKey(path string) (federation.SigningKey, error) {
	fail := func(err error) (federation.SigningKey, error) {
		return federation.SigningKey{}, fmt.Errorf("read key %s: %w", path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fail(err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fail(fmt.Errorf("others have access (mode %04o): chmod 600 it", mode))
	}
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return fail(err)
	}
	seed, err := hex.DecodeString(string(bytes.TrimSuffix(text, []byte("\n"))))
	if err != nil || len(seed) != ed25519.SeedSize {
		return fail(errors.New("want 64 hexadecimal characters and nothing else"))
	}
	private := ed25519.NewKeyFromSeed(seed)
	public, _ := private.Public().(ed25519.PublicKey) // always is one
	return federation.SigningKey{
		Public: public, DID: identity.KeyDID(public),
		Sign: func(_ context.Context, message []byte) ([]byte, error) { return ed25519.Sign(private, message), nil },
	}, nil
}

package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"baton/bridge"
	"baton/bridge/admin"
	"baton/bridge/route"
	"baton/federation"
	"baton/federation/signing"
	"baton/translate"
	"baton/translate/dialect"
)

// Step is a step that an operator takes.
type Step struct {
	Verb    federation.Verb
	Handoff string    // its ID, or the end of that; "" for an offer
	Ask     admin.Ask // without context and proof
	Context string    // a file, or an https or at address; "" for none
	// Content is a context that is JSON already; nil for none, and where there is a Context.
	Content  []byte
	Replaces federation.HandoffID // of an offer that is signed here
	ID       federation.EventID   // of a step that is signed here; zero for a new one
	// Key signs the step in this process. Where it is nil, the gateway vouches for Ask.From.
	Key *federation.SigningKey
}

// Take submits a step, signed where there is a key for it. A step that waits for a key or
// for the ruling of another home is a [*bridge.ProblemError].
func (c *Client) Take(ctx context.Context, s Step) (admin.Filed, error) {
	content, err := contextOf(&s)
	if err != nil {
		return admin.Filed{}, err
	}
	ask := s.Ask
	if s.Key != nil {
		ask, err = c.sign(ctx, s, content)
	} else {
		ask.Context, ask.ContextHash, err = c.place(ctx, content, ask.From)
	}
	if err != nil {
		return admin.Filed{}, err
	}
	var filed admin.Filed
	if s.Verb == federation.Offer {
		filed, err = Call(ctx, c, admin.OfferHandoff, route.JSON(ask))
	} else {
		filed, err = Call(ctx, c, admin.TakeStep, admin.StepOf{ID: s.Handoff, Verb: string(s.Verb), Body: route.JSON(ask)})
	}
	if err == nil && filed.Home != "" {
		return filed, &bridge.ProblemError{Code: bridge.CodeUnavailable, Detail: filed.EventID.String() + ": " + filed.Waits}
	}
	if err == nil && filed.Waits != "" {
		err = &bridge.ProblemError{Code: string(federation.SignatureUnverifiable), Detail: filed.EventID.String() + ": " + filed.Waits}
	}
	return filed, err
}

// Sign returns a step that was signed here with the key of the step, as [Client.Take] submits it.
// The gateway is asked for the place of the step, and keeps a context that the step cannot hold.
func (c *Client) Sign(ctx context.Context, s Step) (admin.Proof, error) {
	content, err := contextOf(&s)
	if err != nil {
		return admin.Proof{}, err
	}
	ask, err := c.sign(ctx, s, content)
	if err != nil {
		return admin.Proof{}, err
	}
	return *ask.Proof, nil
}

// sign returns the request for a step as a document that was signed here. The key stays in this
// process. The document is made here too: the gateway is only asked for the place of the step.
func (c *Client) sign(ctx context.Context, s Step, content stepContext) (admin.Ask, error) {
	var none admin.Ask
	var err error
	if s.ID.IsZero() {
		if s.ID, err = federation.NewEventID(time.Now(), rand.Reader); err != nil {
			return none, err
		}
	}
	ev := federation.Event{ID: s.ID, Verb: s.Verb, From: s.Key.DID, Note: s.Ask.Note, Context: content.text, Provenance: federation.Signed}
	if s.Verb == federation.Offer {
		ev.Replaces = s.Replaces
		ev, err = c.offer(ctx, ev, s.Ask)
	} else {
		ev, err = c.answer(ctx, ev, s.Handoff)
	}
	if err != nil {
		return none, err
	}
	fields, losses := dialect.Write(ev)
	if federation.Loses(losses, "context") || content.file != nil {
		if ev.Context, ev.ContextHash, err = c.store(ctx, content, string(ev.From)); err != nil {
			return none, err
		}
		fields, losses = dialect.Write(ev)
	}
	for _, loss := range losses {
		return none, fmt.Errorf("sign: the %s does not fit: %s", loss.Field, loss.Why)
	}
	ev.Fields = fields
	if ev, err = signing.Seal(ctx, *s.Key, ev); err != nil {
		return none, err
	}
	proof := admin.Proof{Document: ev.Signature.Document, Signature: ev.Signature.Text}
	return admin.Ask{Channel: s.Ask.Channel, Proof: &proof, Reason: s.Ask.Reason, Wait: s.Ask.Wait}, nil
}

// offer completes an offer with the place where the gateway will write it.
func (c *Client) offer(ctx context.Context, ev federation.Event, ask admin.Ask) (federation.Event, error) {
	place, err := Call(ctx, c, admin.GetPlace, admin.PlaceQuery{From: string(ev.From), To: ask.To, Channel: ask.Channel})
	if err != nil {
		return ev, err
	}
	ev.Handoff, ev.Kind, ev.To = ev.ID, federation.Handoff, federation.DID(ask.To)
	ev.Title, ev.Caps, ev.Deadline = ask.Title, ask.Caps, time.Time(ask.Deadline)
	ev.Venue, ev.Dialect = place.Venue, place.Dialect
	return ev, nil
}

// answer completes a step with the handoff that it belongs to.
func (c *Client) answer(ctx context.Context, ev federation.Event, id string) (federation.Event, error) {
	h, err := Call(ctx, c, admin.GetHandoff, admin.IDPage{ID: id, Paging: admin.Paging{Limit: new(1)}})
	if err != nil {
		return ev, err
	}
	ev.Handoff, ev.Kind, ev.Venue, ev.Dialect, ev.ReplyTo = h.ID, h.Kind, h.Venue, h.Dialect, h.ID.String()
	return ev, nil
}

// stepContext is the context of a step: a text that the step can hold, "" for none, or a file
// that the step has to refer to.
type stepContext struct {
	text string
	file []byte // nil for a text
}

// contextOf returns the context of a step. If the title of an offer is too long, it cuts the title
// and adds the full text to the context.
func contextOf(s *Step) (content stepContext, err error) {
	if s.Content != nil {
		content = shortest(s.Content)
	} else if content, err = readContext(s.Context); err != nil {
		return content, err
	}
	if s.Verb != federation.Offer {
		return content, nil
	}
	text := cmp.Or(content.text, string(content.file))
	title, fitted, _ := translate.FitTitle(s.Ask.Title, text)
	if s.Ask.Title = title; fitted != text {
		content = shortest([]byte(fitted))
	}
	return content, nil
}

// readContext returns an address as it is, JSON in its shortest form where a step can hold that,
// and the content of any other file.
func readContext(source string) (stepContext, error) {
	if source == "" || strings.HasPrefix(source, "https://") || strings.HasPrefix(source, "at://") {
		return stepContext{text: source}, nil
	}
	file, err := os.Open(source) //nolint:gosec // the operator names the file
	if err != nil {
		return stepContext{}, fmt.Errorf("read context: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, federation.MaxBlobBytes+1))
	if err != nil {
		return stepContext{}, fmt.Errorf("read context: %w", err)
	}
	if len(content) > federation.MaxBlobBytes {
		return stepContext{}, fmt.Errorf("read context: %s has more than %d bytes", source, federation.MaxBlobBytes)
	}
	return shortest(content), nil
}

// shortest returns JSON that a step can hold in its shortest form, and any other content as it is.
func shortest(content []byte) stepContext {
	var short bytes.Buffer
	if json.Compact(&short, content) == nil && federation.InlineContext(short.String()) && translate.ValidContext(short.String()) {
		return stepContext{text: short.String()}
	}
	return stepContext{file: content}
}

// place returns the context as a request has it. A text that does not fit its step after all is
// stored by the gateway itself.
func (c *Client) place(ctx context.Context, content stepContext, owner string) (text, hash string, err error) {
	if content.file == nil {
		return content.text, "", nil
	}
	return c.store(ctx, content, owner)
}

// store makes the gateway keep a context, and returns the reference and its hash. An address stays
// the reference that it is.
func (c *Client) store(ctx context.Context, content stepContext, owner string) (reference, hash string, err error) {
	text := content.file
	if text == nil {
		if !federation.InlineContext(content.text) {
			return content.text, "", nil
		}
		text = []byte(content.text)
	}
	kept, err := Call(ctx, c, admin.StoreBlob, admin.Blob{Owner: owner, Content: bytes.NewReader(text)})
	if err != nil {
		return "", "", fmt.Errorf("store context: %w", err)
	}
	return kept.URL, kept.SHA256, nil
}

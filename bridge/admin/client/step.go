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

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/dialect"
)

// Step is a step of an operator.
type Step struct {
	Verb    federation.Verb
	Handoff string    // ID or ID suffix; "" for an offer
	Ask     admin.Ask // without context and proof
	Context string    // a file, or an https or at address; may be ""
	// Content is a context in JSON; nil if there is none or Context is set.
	Content  []byte
	Replaces federation.HandoffID // replaced by an offer signed here
	ID       federation.EventID   // of a step signed here; zero for a new one
	// Key signs the step in this process. Without it, the gateway vouches for Ask.From.
	Key *federation.SigningKey
}

// Take submits a step, signed if there is a key. If the step waits for a key or for the ruling of
// another home, the error is a [*bridge.ProblemError].
func (c *Client) Take(ctx context.Context, s Step) (admin.Filed, error) {
	content, err := contextOf(&s)
	if err != nil {
		return admin.Filed{}, err
	}
	ask := s.Ask
	if s.Key != nil {
		ask, err = sign(ctx, c, s, content)
	} else {
		ask.Context, ask.ContextHash, err = c.refer(ctx, content, ask.From)
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

// gateway is the part of a gateway required to sign a step: the operator API or the calls of a
// participant. Its methods block on the gateway.
type gateway interface {
	// place returns the venue of an offer, and its dialect.
	place(ctx context.Context, from, to, channel string) (venue string, tags federation.Dialect, err error)
	handoff(ctx context.Context, id string, verb federation.Verb) (federation.View, error)
	// store stores a context that is too large for the step, and returns its address and hash.
	store(ctx context.Context, owner string, content []byte) (address, hash string, err error)
}

// The gateway chooses only the place of the step.
func sign(ctx context.Context, g gateway, s Step, content stepContext) (admin.Ask, error) {
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
		ev.Handoff, ev.Kind, ev.To = ev.ID, federation.Handoff, federation.DID(s.Ask.To)
		ev.Title, ev.Caps, ev.Deadline = s.Ask.Title, s.Ask.Caps, time.Time(s.Ask.Deadline)
		ev.Venue, ev.Dialect, err = g.place(ctx, string(ev.From), s.Ask.To, s.Ask.Channel)
	} else {
		var h federation.View
		h, err = g.handoff(ctx, s.Handoff, s.Verb)
		ev.Handoff, ev.Kind, ev.Venue, ev.Dialect, ev.ReplyTo = h.ID, h.Kind, h.Venue, h.Dialect, h.ID.String()
	}
	if err != nil {
		return none, err
	}
	fields, losses := dialect.Write(ev)
	if federation.Loses(losses, "context") || content.file != nil {
		if ev.Context, ev.ContextHash, err = storeContext(ctx, g, content, string(ev.From)); err != nil {
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

// stepContext is the context of a step: text within the step, or "" for none, or a file referenced
// by the step.
type stepContext struct {
	text string
	file []byte // nil for a text
}

// If the title of an offer is too long, contextOf truncates it and adds the full text to the
// context.
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

// readContext returns an address unchanged, JSON in its shortest form if it fits into a step, and
// the content of any other file.
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

// shortest compacts JSON that fits into a step, and returns any other content unchanged.
func shortest(content []byte) stepContext {
	var short bytes.Buffer
	if json.Compact(&short, content) == nil && federation.InlineContext(short.String()) && translate.ValidContext(short.String()) {
		return stepContext{text: short.String()}
	}
	return stepContext{file: content}
}

func (c *Client) refer(ctx context.Context, content stepContext, owner string) (text, hash string, err error) {
	if content.file == nil {
		return content.text, "", nil
	}
	return storeContext(ctx, c, content, owner)
}

// An address is its own reference.
func storeContext(ctx context.Context, g gateway, content stepContext, owner string) (reference, hash string, err error) {
	text := content.file
	if text == nil {
		if !federation.InlineContext(content.text) {
			return content.text, "", nil
		}
		text = []byte(content.text)
	}
	if reference, hash, err = g.store(ctx, owner, text); err != nil {
		return "", "", fmt.Errorf("store context: %w", err)
	}
	return reference, hash, nil
}

func (c *Client) place(ctx context.Context, from, to, channel string) (string, federation.Dialect, error) {
	at, err := Call(ctx, c, admin.GetPlace, admin.PlaceQuery{From: from, To: to, Channel: channel})
	return at.Venue, at.Dialect, err
}

func (c *Client) handoff(ctx context.Context, id string, _ federation.Verb) (federation.View, error) {
	h, err := Call(ctx, c, admin.GetHandoff, admin.IDPage{ID: id, Paging: admin.Paging{Limit: new(1)}})
	return federation.View{ID: h.ID, Kind: h.Kind, Venue: h.Venue, Dialect: h.Dialect}, err
}

func (c *Client) store(ctx context.Context, owner string, content []byte) (address, hash string, err error) {
	kept, err := Call(ctx, c, admin.StoreBlob, admin.Blob{Owner: owner, Content: bytes.NewReader(content)})
	return kept.URL, kept.SHA256, err
}

package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
)

func (o *Operator) offerHandoff(ctx context.Context, body route.Body[Ask]) (Filed, error) {
	return o.submitStep(ctx, body, federation.Offer, federation.View{})
}

func (o *Operator) handleStep(ctx context.Context, in StepOf) (Filed, error) {
	verb := federation.Verb(in.Verb)
	if verb == federation.Offer || verb == federation.Expire || !federation.ValidName(string(verb)) {
		return Filed{}, &federation.RefusalError{Code: federation.UnknownVerb}
	}
	view, err := o.find(ctx, in.ID)
	if none, ok := errors.AsType[*ProblemError](err); ok && none.Code == CodeNotFound {
		return Filed{}, &federation.RefusalError{Code: federation.UnknownHandoff}
	}
	if err != nil {
		return Filed{}, err
	}
	return o.submitStep(ctx, in.Body, verb, view)
}

func (o *Operator) submitStep(ctx context.Context, body route.Body[Ask], verb federation.Verb, view federation.View) (Filed, error) {
	ask, err := body.Read()
	if err != nil {
		return Filed{}, err
	}
	wait, err := waitOf(ask.Wait)
	if err != nil {
		return Filed{}, err
	}
	ev, losses, err := o.step(ctx, ask, verb, view, time.Now())
	if err != nil {
		return Filed{}, err
	}
	warnings, err := o.builder().Warnings(ctx, ev)
	if err != nil {
		return Filed{}, err
	}
	judged, err := o.deps.Gateway.Submit(ctx, ev)
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	waits := isRefusal && refused.Waits
	if err != nil && !waits {
		return Filed{}, fmt.Errorf("submit %s: %w", verb, err)
	}
	entry := judged.Entry
	o.act(ctx, "handoff "+string(verb), entry.Event.Handoff.String()+" as "+string(entry.Event.Actor()), ask.Reason)
	f := Filed{
		ID: entry.Event.Handoff, EventID: entry.Event.ID, Verb: entry.Event.Verb, State: entry.State,
		Duplicate: judged.Duplicate, Lost: []string{},
	}
	for _, w := range warnings {
		f.Warnings = append(f.Warnings, Warning(w))
	}
	for _, loss := range losses {
		f.Lost = append(f.Lost, loss.Field)
	}
	if waits {
		f.Waits = refused.Sentence()
	}
	if !judged.Awaits {
		return f, nil
	}
	err = o.awaitRuling(ctx, &f, judged, wait)
	return f, err
}

const maxWait = time.Minute

func waitOf(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 || wait > maxWait {
		return 0, usage(fmt.Sprintf("wait: want a duration from 0s to %s, not %q", maxWait, text))
	}
	return wait, nil
}

func (o *Operator) awaitRuling(ctx context.Context, f *Filed, judged federation.Judgement, wait time.Duration) error {
	patient, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	entry, err := o.deps.Gateway.AwaitRuling(patient, judged.Entry.Event)
	if err != nil && patient.Err() != nil && ctx.Err() == nil {
		f.Home, f.Waits = judged.View.Home, "waits for its home "+string(judged.View.Home)
		return nil
	}
	if err != nil {
		return fmt.Errorf("wait for the ruling of %s: %w", judged.View.Home, err)
	}
	f.State, f.Duplicate = entry.State, false
	return nil
}

func (o *Operator) builder() stepbuilder.Builder {
	return stepbuilder.Builder{
		Network: network, ReadsInbox: true, Home: o.deps.Home, Gateway: o.deps.Gateway, Record: o.deps.Record, Signer: o.deps.Signer,
		Evidence: o.deps.Evidence, Bindings: o.deps.Names, PublicURL: o.deps.PublicURL, ChannelLinks: o.placers,
		Seen: o.deps.Gateway.Seen,
	}
}

func (o *Operator) placers() []bridge.ChannelLink {
	var placers []bridge.ChannelLink
	for _, s := range o.deps.Links.Statuses() {
		if placer, ok := s.Link.(bridge.ChannelLink); ok {
			placers = append(placers, placer)
		}
	}
	return placers
}

func (o *Operator) step(ctx context.Context, ask Ask, verb federation.Verb, view federation.View, now time.Time) (federation.Event, []federation.Loss, error) {
	if ask.Proof != nil {
		if ask.From+ask.To+ask.Title+ask.Context+ask.ContextHash+ask.Note != "" || len(ask.Caps) > 0 || !ask.Deadline.IsZero() {
			return federation.Event{}, nil, usage("the signed content is only in the document of proof")
		}
		proof := stepbuilder.Proof{Document: ask.Proof.Document, Signature: ask.Proof.Signature}
		ev, err := o.builder().Attest(ctx, proof, verb, view, ask.Channel, now)
		return ev, nil, err
	}
	from, err := parseDID("from", ask.From)
	if err != nil {
		return federation.Event{}, nil, err
	}
	draft := stepbuilder.Draft{
		From: from, Verb: verb, Channel: ask.Channel, Title: ask.Title, Context: ask.Context, ContextHash: ask.ContextHash,
		Caps: ask.Caps, Deadline: time.Time(ask.Deadline), Note: ask.Note,
	}
	if verb == federation.Offer && ask.To != "" {
		if draft.To, err = stepbuilder.Recipient(ask.To); err != nil {
			return federation.Event{}, nil, err
		}
	}
	return o.builder().Vouch(ctx, draft, view, now)
}

func (o *Operator) getPlace(ctx context.Context, in PlaceQuery) (OfferVenue, error) {
	from, err := parseDID("from", in.From)
	if err != nil {
		return OfferVenue{}, err
	}
	var to federation.DID
	if text := in.To; text != "" {
		if to, err = stepbuilder.Recipient(text); err != nil {
			return OfferVenue{}, err
		}
	}
	place, tags, err := o.builder().Place(ctx, from, to, in.Channel)
	if err != nil {
		return OfferVenue{}, err
	}
	if place.Venue == "" {
		place.Venue = o.builder().Pair(from, to)
	}
	return OfferVenue{Venue: place.Venue, Dialect: tags}, nil
}

func (o *Operator) storeBlob(ctx context.Context, in Blob) (Stored, error) {
	owner, err := parseDID("owner", in.Owner)
	if err != nil {
		return Stored{}, err
	}
	limit := o.deps.Limits.Current().ContextBytes
	content, err := io.ReadAll(io.LimitReader(in.Content, limit+1))
	if err != nil {
		return Stored{}, usage("the body ended too early")
	}
	blob, err := o.deps.Evidence.Store(ctx, owner, content)
	switch {
	case errors.Is(err, federation.ErrBlobTooLarge):
		return Stored{}, &ProblemError{Status: http.StatusRequestEntityTooLarge, Code: CodeUsage, Detail: fmt.Sprintf("a context is at most %d bytes", limit)}
	case errors.Is(err, federation.ErrBlobQuota):
		return Stored{}, &federation.RefusalError{Code: federation.QuotaExceeded, Detail: "too much is stored for " + string(owner)}
	case err != nil:
		return Stored{}, err
	}
	return Stored{
		URL: blob.URL(o.deps.PublicURL), SHA256: blob.Hash(), ExpiresAt: Moment(blob.Expires),
	}, nil
}

package peering

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

const canaryTitle = "canary"

const completed = federation.State("completed")

const (
	canaryLife = 15 * time.Second       // for the other home to complete it
	canaryPoll = 250 * time.Millisecond // polling, because the end of a link causes no wake-up
)

// Steps submits and reads the steps of this home.
type Steps interface {
	// Submit judges and files a step, with the errors of the home.
	Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error)
	// View returns the view of a handoff.
	View(ctx context.Context, id federation.HandoffID) (federation.View, error)
	// Log returns the steps of a handoff after a version, in order. Version 0 returns all steps.
	Log(ctx context.Context, id federation.HandoffID, after federation.Version) iter.Seq2[federation.Entry, error]
	// Read marks entries of an inbox as read. It blocks until that is on disk.
	Read(ctx context.Context, to federation.DID, ids []federation.EventID, now time.Time) error
	// Arrivals subscribes to the arrival of steps for a DID.
	Arrivals(did federation.DID) (wake <-chan struct{}, stop func())
}

// Canary is a handoff that one home offers, and another home accepts and completes automatically.
// It shows whether steps arrive in both directions.
type Canary struct {
	Home      federation.HomeID
	PublicURL string // of this home, for the operator of the other home
	Key       func() federation.SigningKey
	// Write returns the members of a step's document.
	Write func(ev federation.Event) map[string]string
	Steps Steps
	// Link returns the link to a home, and whether there is one.
	Link func(name string) (Link, bool)
}

// CanaryReport is the result of a canary.
type CanaryReport = federation.CanaryReport

// Send offers a canary to a home and waits at most fifteen seconds for its completion. Then it
// cancels the offer. The error is that of this home.
func (c *Canary) Send(ctx context.Context, to federation.HomeID) (CanaryReport, error) {
	start := time.Now()
	wake, stop := c.Steps.Arrivals(c.Home.DID())
	defer stop()
	offer, err := c.submit(ctx, federation.Event{
		Kind: federation.Handoff, Verb: federation.Offer, To: to.DID(), Title: canaryTitle,
		Venue: federation.PrivateVenue(c.Home.DID(), to.DID()), Dialect: federation.HandoffTags,
	})
	if err != nil {
		return CanaryReport{}, err
	}
	view, err := c.await(ctx, offer.Handoff, to, wake)
	if err != nil {
		return CanaryReport{}, err
	}
	report := CanaryReport{Handoff: offer.Handoff, Took: time.Since(start).Round(time.Millisecond), Green: view.State == completed}
	if !report.Green {
		report.Reason = c.reason(to, view)
	}
	return report, c.cleanUp(context.WithoutCancel(ctx), offer, view)
}

// Returns early if the other home does not know this home.
func (c *Canary) await(ctx context.Context, id federation.HandoffID, to federation.HomeID, wake <-chan struct{}) (federation.View, error) {
	ctx, cancel := context.WithTimeout(ctx, canaryLife)
	defer cancel()
	poll := time.NewTicker(canaryPoll)
	defer poll.Stop()
	view, err := c.Steps.View(ctx, id)
	for err == nil && ctx.Err() == nil && !view.Over && !c.unknownAt(to) {
		select {
		case <-wake:
		case <-poll.C:
		case <-ctx.Done():
		}
		view, err = c.Steps.View(context.WithoutCancel(ctx), id)
	}
	return view, err
}

// Answer accepts and completes a canary offer of another home, and ignores every other step. The
// error is that of this home.
func (c *Canary) Answer(ctx context.Context, offer federation.Event, from federation.HomeID) error {
	if offer.Verb != federation.Offer || offer.Title != canaryTitle || offer.From != from.DID() || offer.To != c.Home.DID() {
		return nil
	}
	// No client reads the inbox of the home itself.
	if err := c.Steps.Read(ctx, c.Home.DID(), []federation.EventID{offer.ID}, time.Now()); err != nil {
		return err
	}
	for _, verb := range []federation.Verb{federation.Accept, federation.Complete} {
		if _, err := c.submit(ctx, reply(offer, verb)); err != nil {
			return fmt.Errorf("%s canary: %w", verb, err)
		}
	}
	return nil
}

func reply(offer federation.Event, verb federation.Verb) federation.Event {
	return federation.Event{
		Handoff: offer.Handoff, Kind: offer.Kind, Verb: verb, ReplyTo: offer.ID.String(), Venue: offer.Venue, Dialect: offer.Dialect,
	}
}

func (c *Canary) submit(ctx context.Context, ev federation.Event) (federation.Event, error) {
	now := time.Now()
	id, err := federation.NewEventID(now, rand.Reader)
	if err != nil {
		return ev, err
	}
	if ev.ID = id; ev.Handoff.IsZero() {
		ev.Handoff = id
	}
	ev.From, ev.Provenance = c.Home.DID(), federation.Signed
	ev.Arrival = federation.Arrival{Network: network, Received: now}
	ev.Fields = c.Write(ev)
	if ev, err = signing.Seal(ctx, c.Key(), ev); err != nil {
		return ev, err
	}
	_, err = c.Steps.Submit(ctx, ev)
	return ev, err
}

const network = "home"

func (c *Canary) unknownAt(home federation.HomeID) bool {
	link, ok := c.Link(string(home))
	return ok && !link.Up && strings.Contains(link.LastError, "status 403")
}

func (c *Canary) reason(to federation.HomeID, view federation.View) string {
	link, ok := c.Link(string(to))
	switch {
	case view.Over:
		return "it ended " + string(view.State)
	case c.unknownAt(to):
		return string(to) + " does not know this home yet; there: baton peer add " + c.PublicURL
	case ok && !link.Up:
		return string(to) + " is not reached: " + link.LastError
	}
	return "it is " + string(view.State) + " after " + canaryLife.String() + ": " + string(to) + " did not answer it in time"
}

// No client reads the inbox of this home, so its steps are marked as read.
func (c *Canary) cleanUp(ctx context.Context, offer federation.Event, view federation.View) error {
	if !view.Over {
		if _, err := c.submit(ctx, reply(offer, federation.Cancel)); err != nil {
			return err
		}
	}
	var read []federation.EventID
	for entry, err := range c.Steps.Log(ctx, offer.Handoff, 0) {
		if err != nil {
			return err
		}
		read = append(read, entry.Event.ID)
	}
	return c.Steps.Read(ctx, c.Home.DID(), read, time.Now())
}

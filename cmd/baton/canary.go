package main

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"strings"
	"time"

	"baton/bridge"
	"baton/bridge/gateway"
	"baton/bridge/operatorapi"
	"baton/federation"
	"baton/federation/signing"
	"baton/translate/dialect"
)

// canaryTitle is the title of an offer from one home to another that shows whether
// handoffs go through: the other one accepts and completes it by itself.
const canaryTitle = "canary"

// Bounds of a canary.
const (
	canaryLife = 15 * time.Second // within which it has to be back
	canaryLook = 250 * time.Millisecond
)

// isCanary reports whether a step is the offer of a home to this one that is to show
// whether handoffs go through.
func (h *homes) isCanary(ev federation.Event, from federation.HomeID) bool {
	return ev.Verb == federation.Offer && ev.Title == canaryTitle && ev.From == from.DID() && ev.To == h.self.DID()
}

// sing accepts and completes a canary of another home. What fails shows there.
func (h *homes) sing(ctx context.Context, offer federation.Event, from federation.HomeID) {
	if !h.isCanary(offer, from) {
		return
	}
	err := h.record.Read(ctx, h.self.DID(), []federation.EventID{offer.ID}, time.Now()) // nobody else reads what the home gets
	for _, verb := range []federation.Verb{federation.Accept, federation.Complete} {
		if err == nil {
			_, err = h.say(ctx, federation.Event{
				Handoff: offer.Handoff, Kind: offer.Kind, Verb: verb, ReplyTo: offer.ID.String(), Venue: offer.Venue, Dialect: offer.Dialect,
			})
		}
	}
	if err != nil {
		h.log.LogAttrs(ctx, slog.LevelWarn, "canary not completed", slog.String("peer", string(from)), slog.Any("err", err))
	}
}

// say takes a step of the home's own, and returns it as it was signed.
func (h *homes) say(ctx context.Context, ev federation.Event) (federation.Event, error) {
	now := time.Now()
	id, err := federation.NewEventID(now, rand.Reader)
	if err != nil {
		return ev, err
	}
	if ev.ID = id; ev.Handoff.IsZero() {
		ev.Handoff = id
	}
	ev.From, ev.Provenance = h.self.DID(), federation.Signed
	ev.Arrival = federation.Arrival{Network: gateway.HomeNetwork, Received: now}
	ev.Fields, _ = dialect.Write(ev) // what the home says of itself is short
	if ev, err = signing.Seal(ctx, h.gateway.Home().Key, ev); err != nil {
		return ev, err
	}
	_, err = h.gateway.Submit(ctx, ev)
	return ev, err
}

// canary offers one to another home and waits until that has completed it, for fifteen
// seconds at most; then it is cancelled. The error is that of this home.
func (h *homes) canary(ctx context.Context, to federation.HomeID) (operatorapi.Canary, error) {
	start := time.Now()
	wake, stop := h.wakes.Subscribe(bridge.DIDTopic(h.self.DID()))
	defer stop()
	offer, err := h.say(ctx, federation.Event{
		Kind: federation.Handoff, Verb: federation.Offer, To: to.DID(), Title: canaryTitle,
		Venue: federation.PrivateVenue(h.self.DID(), to.DID()), Dialect: federation.HandoffTags,
	})
	if err != nil {
		return operatorapi.Canary{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, canaryLife)
	defer cancel()
	look := time.NewTicker(canaryLook)
	defer look.Stop()
	view, err := h.gateway.View(ctx, offer.Handoff)
	for err == nil && !view.Over && !h.turnedAway(to) {
		select {
		case <-wake:
		case <-look.C:
		case <-ctx.Done():
		}
		if view, err = h.gateway.View(context.WithoutCancel(ctx), offer.Handoff); ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return operatorapi.Canary{}, err
	}
	done := operatorapi.Canary{Handoff: offer.Handoff, Took: time.Since(start).Round(time.Millisecond).String(), Green: view.State == completedState}
	if !done.Green {
		done.Reason = h.whyNot(to, view)
	}
	return done, h.tidy(context.WithoutCancel(ctx), offer, view)
}

// completedState is how a canary ends well.
const completedState = federation.State("completed")

// turnedAway reports whether another home said that it does not know this one.
func (h *homes) turnedAway(from federation.HomeID) bool {
	return slices.ContainsFunc(h.gateway.Links().Statuses(), func(s gateway.LinkStatus) bool {
		return s.Link.Name() == string(from) && s.Status.State != bridge.LinkUp && strings.Contains(s.Status.LastError, "status 403")
	})
}

// whyNot says why a canary is not back.
func (h *homes) whyNot(to federation.HomeID, view federation.View) string {
	if view.Over {
		return "it ended " + string(view.State)
	}
	for _, s := range h.gateway.Links().Statuses() {
		switch {
		case s.Link.Name() != string(to) || s.Status.State == bridge.LinkUp:
		case h.turnedAway(to):
			return string(to) + " does not know this home yet; there: baton peer add " + h.publicURL
		default:
			return string(to) + " is not reached: " + s.Status.LastError
		}
	}
	return "it is " + string(view.State) + " after " + canaryLife.String() + ": " + string(to) + " took it and did not answer in time"
}

// tidy takes back a canary that nobody completed, and what came of it out of the inbox of
// the home, which nobody reads.
func (h *homes) tidy(ctx context.Context, offer federation.Event, view federation.View) error {
	if !view.Over {
		_, err := h.say(ctx, federation.Event{
			Handoff: offer.Handoff, Kind: offer.Kind, Verb: federation.Cancel, ReplyTo: offer.ID.String(), Venue: offer.Venue, Dialect: offer.Dialect,
		})
		if err != nil {
			return err
		}
	}
	var read []federation.EventID
	for entry, err := range h.record.Log(ctx, offer.Handoff) {
		if err != nil {
			return err
		}
		read = append(read, entry.Event.ID)
	}
	return h.record.Read(ctx, h.self.DID(), read, time.Now())
}

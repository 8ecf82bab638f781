package irc

import (
	"context"
	"errors"
	"strings"
	"time"

	"baton/bridge"
	"baton/federation"
)

// person returns the DID under which a user writes and reads messages: the one that it proved, or
// the one that the gateway keeps for its nick.
func (o ChatOps) person(c Command) (federation.DID, error) {
	switch {
	case o.Ports.Messages == nil:
		return "", userError("This gateway carries no messages.")
	case c.DID != "":
		return c.DID, nil
	}
	return o.Ports.Messages.Guest(c.Link, c.Nick), nil
}

// say writes to a participant whose nick is not on this network.
func (o ChatOps) say(ctx context.Context, c Command, args string, now time.Time) ([]string, error) {
	from, err := o.person(c)
	if err != nil {
		return nil, err
	}
	name, text, _ := strings.Cut(args, " ")
	if text = strings.TrimSpace(text); text == "" {
		return nil, userError("Say: say WHO text")
	}
	to, err := o.participant(ctx, c, name)
	if err != nil {
		return nil, err
	}
	err = Say(ctx, o.Ports, Words{
		From: from, To: to.DID, At: to.Place, Text: text, Line: c.Line,
		Arrival: federation.Arrival{Network: c.Network, Link: c.Link, Name: c.Nick, User: c.User, Received: now},
	})
	if err != nil {
		return nil, err
	}
	return []string{"Your message to " + name + " is on its way."}, nil
}

// participant returns the participant that a user names: by NICK@LINK, or as in a step.
func (o ChatOps) participant(ctx context.Context, c Command, name string) (bridge.Recipient, error) {
	if name == "" {
		return bridge.Recipient{}, userError("Say a name or a DID.")
	}
	if o.Ports.Messages != nil {
		user, err := o.Ports.Messages.Addressee(ctx, name)
		if !errors.Is(err, federation.ErrNotFound) {
			return user, err
		}
	}
	did, err := o.named(ctx, c, name)
	if err == nil && did == "" {
		err = userError("I know no user called " + name + ". A DID is always right.")
	}
	return bridge.Recipient{DID: did}, err
}

func (o ChatOps) allow(ctx context.Context, c Command, args string, _ time.Time) ([]string, error) {
	return o.decide(ctx, c, args, true)
}

func (o ChatOps) block(ctx context.Context, c Command, args string, _ time.Time) ([]string, error) {
	return o.decide(ctx, c, args, false)
}

// decide notes whether a user takes messages of a sender.
func (o ChatOps) decide(ctx context.Context, c Command, args string, allow bool) ([]string, error) {
	person, err := o.person(c)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSpace(args)
	sender, err := o.participant(ctx, c, name)
	if err != nil {
		return nil, err
	}
	if err := o.Ports.Messages.Decide(ctx, person, sender.DID, allow); err != nil {
		return nil, err
	}
	if allow {
		return []string{name + " may write to you."}, nil
	}
	return []string{name + " can no longer write to you, on any network. Say: allow " + name}, nil
}

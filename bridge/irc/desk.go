package irc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"baton/bridge"
	"baton/federation"
)

// Desk is where people take steps who have no tags: they write to the gateway itself
// what they want, and it signs for those whom its operator vouches for. Such a step is
// judged as everybody's. It may be used concurrently.
//
// spec: handofftag "Humans"
type Desk struct {
	Ports    bridge.Ports
	Handoffs federation.Handoffs
	// Agent returns the DID of an agent of the gateway's registry by its handle, or
	// [federation.ErrNotFound].
	Agent func(ctx context.Context, handle string) (federation.DID, error)
}

// Visitor is somebody who writes to a [Desk].
type Visitor struct {
	DID     federation.DID // that stands behind the account; "" for nobody
	Vouch   bool           // the gateway may sign for it
	Nick    string
	User    string // user name; "" where the network does not say
	Line    string // the message as it came, with its id: the evidence behind a step
	Network string // as in [federation.Arrival]
	Link    string
	// Who returns the DID of somebody by what people call it, "" for nobody.
	Who func(name string) federation.DID
	// Room opens a channel for a handoff, invites its parties and returns its name. Nil
	// on a network where the gateway makes no channels.
	Room func(view federation.View) (string, error)
}

// source returns where a visitor comes from.
func (v Visitor) source() federation.Source {
	s := federation.Source{Network: v.Network, Link: v.Link, Nick: v.Nick, User: v.User}
	if v.DID != "" {
		s.DIDs = []federation.DID{v.DID}
	}
	return s
}

// order is what a visitor can ask for: a step, or something to run.
type order struct {
	usage string
	step  federation.Verb // "" for one that takes none
	run   func(d Desk, ctx context.Context, v Visitor, said string, now time.Time) ([]string, error)
}

// orders returns all of them by their first words.
func orders() map[string]order {
	return map[string]order{
		"help":     {"help", "", Desk.help},
		"inbox":    {"inbox", "", Desk.inbox},
		"show":     {"show ID", "", Desk.show},
		"offer":    {"offer WHO title", "", Desk.offer},
		"accept":   {"accept ID", federation.Accept, nil},
		"claim":    {"claim ID", federation.Claim, nil},
		"decline":  {"decline ID reason", federation.Decline, nil},
		"progress": {"progress ID note", federation.Progress, nil},
		"done":     {"done ID", federation.Complete, nil},
		"fail":     {"fail ID reason", federation.Fail, nil},
		"cancel":   {"cancel ID", federation.Cancel, nil},
		"room":     {"room ID", "", Desk.room},
	}
}

// maxListed bounds what inbox lists: people read lines, and ask for the rest by id.
const maxListed = 10

// deskError is what a visitor did wrong, in words for it.
type deskError string

// Error implements error.
func (e deskError) Error() string { return string(e) }

// Answer does what a visitor wrote, and returns what it is told, in lines that fit a
// message. It blocks on the record. What it could not do it says, and the error is for
// the log: nil unless the gateway is at fault.
func (d Desk) Answer(ctx context.Context, v Visitor, text string, now time.Time) ([]string, error) {
	if strings.HasPrefix(text, "\x01") {
		return nil, nil // a program asks a program
	}
	if err := d.Ports.CheckBlocked(ctx, v.source()); err != nil {
		if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
			return []string{Text(refused.Code.Upper() + " * " + refused.Sentence())}, nil
		}
		return []string{"That could not be done now. Try again later."}, err
	}
	word, said, _ := strings.Cut(strings.TrimSpace(Plain(text)), " ")
	o, known := orders()[strings.ToLower(word)]
	if !known {
		return []string{"I do not know that. Say: help"}, nil
	}
	run := o.run
	if o.step != "" {
		run = func(d Desk, ctx context.Context, v Visitor, said string, now time.Time) ([]string, error) {
			return d.step(ctx, v, o.step, said, now)
		}
	}
	lines, err := run(d, ctx, v, strings.TrimSpace(said), now)
	wrong, isVisitors := errors.AsType[deskError](err)
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	switch {
	case isVisitors:
		return []string{string(wrong)}, nil
	case isRefusal:
		return []string{Text(refused.Code.Upper() + " " + refused.Subject() + " " + refused.Sentence())}, nil
	case err != nil:
		return []string{"That could not be done now. Try again later."}, err
	}
	for i := range lines {
		lines[i] = Text(lines[i])
	}
	return lines, nil
}

func (Desk) help(_ context.Context, v Visitor, _ string, _ time.Time) ([]string, error) {
	var usages []string
	for _, o := range orders() {
		if v.Room != nil || o.usage != "room ID" {
			usages = append(usages, o.usage)
		}
	}
	slices.Sort(usages)
	lines := []string{"I carry handoffs between networks. Say: " + strings.Join(usages, " | ")}
	switch {
	case v.DID == "":
		lines = append(lines, "Steps need an account that is bound to a DID. Ask the operator of this gateway.")
	case !v.Vouch:
		lines = append(lines, "You are "+string(v.DID)+", and sign your steps yourself: I may not sign for you.")
	default:
		lines = append(lines, "You are "+string(v.DID)+". The last six characters of an id are enough.")
	}
	return lines, nil
}

// inbox lists what is offered to the visitor or under way with it.
func (d Desk) inbox(ctx context.Context, v Visitor, _ string, _ time.Time) ([]string, error) {
	if v.DID == "" {
		return nil, deskError("You have no inbox: your account is bound to no DID.")
	}
	var lines []string
	var after federation.Cursor
	for {
		views, next, err := d.Handoffs.Handoffs(ctx, federation.Filter{DID: v.DID}, after, maxListed)
		if err != nil {
			return nil, fmt.Errorf("list handoffs of %s: %w", v.DID, err)
		}
		for _, view := range views {
			if !view.Over && len(lines) < maxListed {
				lines = append(lines, d.line(ctx, view))
			}
		}
		if after = next; after == "" || len(lines) == maxListed {
			break
		}
	}
	if len(lines) == 0 {
		lines = []string{"Nothing is waiting."}
	}
	return lines, nil
}

// line says how a handoff stands.
func (d Desk) line(ctx context.Context, view federation.View) string {
	name := func(did federation.DID) string {
		if did == "" {
			return "anyone"
		}
		return d.Ports.Gateway.Name(ctx, did)
	}
	to := view.Offeree
	if view.Assignee != "" {
		to = view.Assignee
	}
	return fmt.Sprintf("[%s …%s] %s, from %s to %s: %s", view.Kind, view.ID.Short(), view.State, name(view.Offerer), name(to), view.Title)
}

func (d Desk) show(ctx context.Context, v Visitor, said string, _ time.Time) ([]string, error) {
	view, _, err := d.find(ctx, v, said)
	if err != nil {
		return nil, err
	}
	lines := []string{d.line(ctx, view), "its id is " + view.ID.String()}
	if !view.Deadline.IsZero() {
		lines = append(lines, "due "+view.Deadline.UTC().Format("2006-01-02 15:04 MST"))
	}
	return lines, nil
}

// find returns the handoff that the first word names, and what comes after. What is
// private to others is not there.
func (d Desk) find(ctx context.Context, v Visitor, said string) (federation.View, string, error) {
	text, rest, _ := strings.Cut(said, " ")
	text = strings.ToUpper(strings.TrimLeft(text, "…."))
	if text == "" {
		return federation.View{}, "", deskError("Which one? Say its id, or the last six characters of it.")
	}
	id, err := federation.ParseEventID(text)
	if err != nil {
		ids, err := d.Handoffs.Find(ctx, text)
		if err != nil {
			return federation.View{}, "", fmt.Errorf("find handoff: %w", err)
		}
		if len(ids) != 1 {
			return federation.View{}, "", deskError(fmt.Sprintf("%d handoffs have an id that ends in %s.", len(ids), text))
		}
		id = ids[0]
	}
	view, err := d.Ports.Gateway.View(ctx, id)
	if err != nil {
		return federation.View{}, "", fmt.Errorf("read handoff %s: %w", id, err)
	}
	own := v.DID != "" && slices.Contains(view.Others(""), v.DID)
	if !view.Exists() || federation.Private(view.Venue) && !own {
		return federation.View{}, "", deskError("No such handoff is known here.")
	}
	return view, strings.TrimSpace(rest), nil
}

// may returns why a visitor takes no steps here.
func (v Visitor) may() error {
	switch {
	case v.DID == "":
		return deskError("Steps need an account that is bound to a DID.")
	case !v.Vouch:
		return &federation.RefusalError{Code: federation.NeedSignature, Detail: "this gateway does not vouch for " + string(v.DID)}
	}
	return nil
}

// step takes a step in a handoff.
func (d Desk) step(ctx context.Context, v Visitor, verb federation.Verb, said string, now time.Time) ([]string, error) {
	if err := v.may(); err != nil {
		return nil, err
	}
	view, note, err := d.find(ctx, v, said)
	if err != nil {
		return nil, err
	}
	ev := federation.Event{
		Handoff: view.ID, Kind: view.Kind, Verb: verb, Venue: view.Venue, Dialect: view.Dialect,
		ReplyTo: view.ID.String(), Note: note,
	}
	return d.submit(ctx, v, ev, now)
}

// offer opens a handoff, to somebody or, by "anyone", to whoever claims it.
func (d Desk) offer(ctx context.Context, v Visitor, said string, now time.Time) ([]string, error) {
	if err := v.may(); err != nil {
		return nil, err
	}
	who, title, _ := strings.Cut(said, " ")
	if title = strings.TrimSpace(title); title == "" {
		return nil, deskError("Say: offer WHO title")
	}
	to := federation.DID("")
	if !strings.EqualFold(who, "anyone") {
		var err error
		if to, err = d.named(ctx, v, who); err != nil {
			return nil, err
		}
		if to == "" {
			return nil, deskError("I know nobody called " + who + ". A DID is always right.")
		}
	}
	place, tags, err := d.Ports.Gateway.Place(ctx, v.DID, to, "")
	if err != nil {
		return nil, fmt.Errorf("place offer: %w", err)
	}
	ev := federation.Event{Kind: federation.Handoff, Verb: federation.Offer, To: to, Title: title, Dialect: tags, Venue: place.Venue}
	ev.Arrival.Place = place
	if ev.Venue == "" { // nowhere on IRC: it waits in an inbox
		ev.Dialect, ev.Venue = federation.HandoffTags, federation.PrivateVenue(v.DID, to)
	}
	return d.submit(ctx, v, ev, now)
}

// named returns the DID that a visitor means, "" for nobody: a DID itself, somebody on
// its network, or an agent.
func (d Desk) named(ctx context.Context, v Visitor, who string) (federation.DID, error) {
	if did, err := federation.ParseDID(who); err == nil {
		return did, nil
	}
	if did := v.Who(who); did != "" {
		return did, nil
	}
	did, err := d.Agent(ctx, who)
	if errors.Is(err, federation.ErrNotFound) {
		return "", nil
	}
	return did, err
}

// submit has the gateway sign a step for a visitor, and judge it.
func (d Desk) submit(ctx context.Context, v Visitor, ev federation.Event, now time.Time) ([]string, error) {
	ev.From = v.DID
	ev.Arrival.Network, ev.Arrival.Link, ev.Arrival.Name, ev.Arrival.Received = v.Network, v.Link, v.Nick, now
	ev.Arrival.User = v.User
	if ev.Verb == federation.Offer {
		id, err := federation.NewEventID(now, rand.Reader)
		if err != nil {
			return nil, err
		}
		ev.Handoff = id
	}
	ev, err := VouchFor(ctx, d.Ports, ev, v.Line)
	if err != nil {
		return nil, fmt.Errorf("vouch for %s: %w", v.DID, err)
	}
	judged, err := d.Ports.Gateway.Submit(ctx, ev)
	if err != nil {
		return nil, err
	}
	filed := judged.Entry.Event
	return []string{fmt.Sprintf("[%s …%s] %s: it is %s now.", filed.Kind, filed.Handoff.Short(), filed.Verb, judged.Entry.State)}, nil
}

// room opens a channel for the parties of a handoff.
func (d Desk) room(ctx context.Context, v Visitor, said string, _ time.Time) ([]string, error) {
	if v.Room == nil {
		return nil, deskError("I make no channels on this network.")
	}
	view, _, err := d.find(ctx, v, said)
	if err != nil {
		return nil, err
	}
	if v.DID == "" || !slices.Contains(view.Others(""), v.DID) {
		return nil, deskError("That is for those who take part in it.")
	}
	name, err := v.Room(view)
	if err != nil {
		return nil, err
	}
	return []string{"Both are invited to " + name + "."}, nil
}

package irc

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/translate"
)

// ChatOps runs commands sent to the gateway's own user. The gateway signs their steps if a binding
// vouches for the user. It may be used concurrently.
//
// spec: handofftag "Humans"
type ChatOps struct {
	Ports  bridge.Ports
	Log    *slog.Logger
	Record *registry.Record
	// Guesses limits wrong pairing codes for each account.
	Guesses credential.Guesses
}

// Command is one line from a user to the gateway's own user.
type Command struct {
	Text    string
	Line    string // with its ID, as evidence
	Network string // as in [federation.Arrival]
	Link    string
	Nick    string
	User    string // "" if the network does not report it
	// Account is the name that the operator binds to a DID; "" for none.
	Account string
	// DID is the authenticated DID. If it is empty, the DID bound to the account applies.
	DID federation.DID
	// Proved reports whether the user authenticated as the DID to this gateway.
	Proved bool
	// Lookup returns the DID of a user by its nick, or "".
	Lookup func(nick string) (federation.DID, error)
	// Room opens a channel for a handoff, invites its parties and returns its name. It is nil if
	// the gateway cannot create channels on the network.
	Room func(view federation.View) (string, error)

	// Secret reports whether the line arrived over TLS or from the same machine.
	Secret bool

	vouch bool
}

func (c Command) source() federation.Source {
	s := federation.Source{Network: c.Network, Link: c.Link, Name: c.Nick, User: c.User}
	if c.DID != "" {
		s.DIDs = []federation.DID{c.DID}
	}
	return s
}

type verb struct {
	usage string
	step  federation.Verb // "" for a command without a step
	run   func(o ChatOps, ctx context.Context, c Command, args string, now time.Time) ([]string, error)
}

func verbs() map[string]verb {
	return map[string]verb{
		"help":     {"help", "", ChatOps.help},
		"inbox":    {"inbox", "", ChatOps.inbox},
		"open":     {"open", "", ChatOps.open},
		"bind":     {"bind CODE", "", ChatOps.bindAccount},
		"show":     {"show ID", "", ChatOps.show},
		"offer":    {"offer WHO title", "", ChatOps.offer},
		"accept":   {"accept ID", federation.Accept, nil},
		"claim":    {"claim ID", federation.Claim, nil},
		"decline":  {"decline ID reason", federation.Decline, nil},
		"progress": {"progress ID note", federation.Progress, nil},
		"done":     {"done ID", federation.Complete, nil},
		"fail":     {"fail ID reason", federation.Fail, nil},
		"cancel":   {"cancel ID", federation.Cancel, nil},
		"room":     {"room ID", "", ChatOps.room},
		"say":      {"say WHO text", "", ChatOps.sendText},
		"allow":    {"allow WHO", "", ChatOps.allow},
		"block":    {"block WHO", "", ChatOps.block},
		"pair":     {"pair", "", ChatOps.pair},
		"password": {"password NEW", "", ChatOps.password},
	}
}

// Users request further entries by ID.
const maxListed = 10

type userError string

func (e userError) Error() string { return string(e) }

const errNotNow = userError("That could not be done now. Try again later.")

// Run runs a command and returns reply lines that fit a message. It blocks on the record. It logs
// record errors, and the reply does not describe them.
func (o ChatOps) Run(ctx context.Context, c Command, now time.Time) []string {
	if strings.HasPrefix(c.Text, "\x01") {
		return nil // CTCP
	}
	lines, err := o.run(ctx, o.bind(ctx, c), now)
	wrong, isUsers := errors.AsType[userError](err)
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	problem, isProblem := errors.AsType[*bridge.ProblemError](err)
	switch {
	case isUsers:
		return []string{string(wrong)}
	case isProblem:
		return []string{Text(problem.Code + ": " + problem.Detail)}
	case isRefusal:
		return []string{Text(refused.Code.Upper() + " " + refused.Subject() + " " + refused.Sentence())}
	case err != nil:
		o.Log.LogAttrs(ctx, slog.LevelError, "command not run", slog.Any("err", err))
		return []string{string(errNotNow)}
	}
	for i := range lines {
		lines[i] = Text(lines[i])
	}
	return lines
}

// If the record fails, the user counts as unbound.
func (o ChatOps) bind(ctx context.Context, c Command) Command {
	b, err := Bound(ctx, o.Ports, c.Link, c.Account)
	if err != nil {
		o.Log.LogAttrs(ctx, slog.LevelError, "account not looked up", slog.Any("err", err))
	}
	if c.DID == "" {
		c.DID = b.DID
	}
	c.vouch = b.Vouch && c.DID == b.DID
	return c
}

func (o ChatOps) run(ctx context.Context, c Command, now time.Time) ([]string, error) {
	if err := o.Ports.CheckBlocked(ctx, c.source()); err != nil {
		return nil, err
	}
	word, args, _ := strings.Cut(strings.TrimSpace(Plain(c.Text)), " ")
	v, known := verbs()[strings.ToLower(word)]
	args = strings.TrimSpace(args)
	switch {
	case !known:
		return nil, userError("I do not know that. Say: help")
	case v.step != "":
		return o.step(ctx, c, v.step, args, now)
	}
	return v.run(o, ctx, c, args, now)
}

func (ChatOps) help(_ context.Context, c Command, _ string, _ time.Time) ([]string, error) {
	var usages []string
	for _, v := range verbs() {
		if (c.Room != nil || v.usage != "room ID") && (c.Proved || v.usage != "password NEW") {
			usages = append(usages, v.usage)
		}
	}
	slices.Sort(usages)
	lines := []string{"I carry handoffs between networks. Say: " + strings.Join(usages, " | ")}
	switch {
	case c.DID == "":
		lines = append(lines, errNoAccount.Error())
	case !c.vouch:
		lines = append(lines, "You are "+string(c.DID)+", and sign your steps yourself: I may not sign for you.")
	default:
		lines = append(lines, "You are "+string(c.DID)+". The last six characters of an id are enough.")
	}
	return lines, nil
}

func (o ChatOps) inbox(ctx context.Context, c Command, _ string, _ time.Time) ([]string, error) {
	if c.DID == "" {
		return nil, userError("You have no inbox: your account is bound to no DID.")
	}
	dids, err := o.Ports.Gateway.DIDs(ctx, c.DID)
	if err != nil {
		return nil, err
	}
	lines, err := o.list(ctx, federation.Filter{DIDs: dids}, func(view federation.View) bool { return !view.Over })
	if err == nil && len(lines) == 0 {
		lines = []string{"Nothing is waiting."}
	}
	return lines, err
}

func (o ChatOps) open(ctx context.Context, c Command, _ string, _ time.Time) ([]string, error) {
	shown := func(view federation.View) bool {
		return view.Offeree == "" && (!federation.Private(view.Venue) || c.DID != "" && slices.Contains(view.Others(""), c.DID))
	}
	lines, err := o.list(ctx, federation.Filter{State: federation.Open}, shown)
	if err == nil && len(lines) == 0 {
		lines = []string{"No offer is open."}
	}
	return lines, err
}

func (o ChatOps) list(ctx context.Context, f federation.Filter, shown func(federation.View) bool) ([]string, error) {
	var lines []string
	var after federation.Cursor
	for {
		views, next, err := o.Record.Handoffs(ctx, f, after, maxListed)
		if err != nil {
			return nil, fmt.Errorf("list handoffs: %w", err)
		}
		for _, view := range views {
			if shown(view) && len(lines) < maxListed {
				lines = append(lines, o.line(ctx, view))
			}
		}
		if after = next; after == "" || len(lines) == maxListed {
			return lines, nil
		}
	}
}

func (o ChatOps) line(ctx context.Context, view federation.View) string {
	name := func(did federation.DID) string {
		if did == "" {
			return "anyone"
		}
		return o.Ports.Gateway.Name(ctx, did)
	}
	to := view.Offeree
	if view.Assignee != "" {
		to = view.Assignee
	}
	return fmt.Sprintf("[%s …%s] %s, from %s to %s: %s", view.Kind, view.ID.Short(), view.State, name(view.Offerer), name(to), view.Title)
}

func (o ChatOps) show(ctx context.Context, c Command, args string, _ time.Time) ([]string, error) {
	view, _, err := o.find(ctx, c, args)
	if err != nil {
		return nil, err
	}
	lines := []string{o.line(ctx, view), "its id is " + view.ID.String()}
	if !view.Deadline.IsZero() {
		lines = append(lines, "due "+view.Deadline.UTC().Format("2006-01-02 15:04 MST"))
	}
	return lines, nil
}

// find also returns the rest of the text. Only its parties can find a private handoff.
func (o ChatOps) find(ctx context.Context, c Command, args string) (federation.View, string, error) {
	text, rest, _ := strings.Cut(args, " ")
	text = strings.ToUpper(strings.TrimLeft(text, "…."))
	if text == "" {
		return federation.View{}, "", userError("Which one? Say its id, or the last six characters of it.")
	}
	id, err := federation.ParseEventID(text)
	if err != nil {
		ids, err := o.Record.Find(ctx, text)
		if err != nil {
			return federation.View{}, "", fmt.Errorf("find handoff: %w", err)
		}
		if len(ids) != 1 {
			return federation.View{}, "", userError(fmt.Sprintf("%d handoffs have an id that ends in %s.", len(ids), text))
		}
		id = ids[0]
	}
	view, err := o.Ports.Gateway.View(ctx, id)
	if err != nil {
		return federation.View{}, "", fmt.Errorf("read handoff %s: %w", id, err)
	}
	own := c.DID != "" && slices.Contains(view.Others(""), c.DID)
	if !view.Exists() || federation.Private(view.Venue) && !own {
		return federation.View{}, "", userError("No such handoff is known here.")
	}
	return view, strings.TrimSpace(rest), nil
}

func (c Command) authorized() error {
	switch {
	case c.DID == "":
		return errNoAccount
	case !c.vouch:
		return &federation.RefusalError{
			Code: federation.NeedSignature, Detail: "this gateway does not vouch for " + string(c.DID) + "; to let it sign your steps, write to it: bind CODE",
		}
	}
	return nil
}

const errNoAccount = userError("Steps need an account that is bound to a DID. To bind yours, say: bind CODE")

// The user proves the DID with a pairing code, unless it has already authenticated to the gateway.
func (o ChatOps) bindAccount(ctx context.Context, c Command, code string, now time.Time) ([]string, error) {
	if c.Account == "" {
		return nil, userError("Log in to an account first: I bind accounts, and no nicks.")
	}
	bound, err := o.Ports.Bindings.Bound(ctx, c.Link, c.Account)
	switch {
	case err == nil && bound.Vouch:
		return nil, userError("Your account is bound to " + string(bound.DID) + " already.")
	case err == nil:
		return nil, userError("The operator bound your account to " + string(bound.DID) + ", for which you sign yourself.")
	case !errors.Is(err, federation.ErrNotFound):
		return nil, fmt.Errorf("look up account: %w", err)
	case code == "" && !c.Proved:
		return nil, userError("Say: bind CODE. A pairing code of your DID is made by POST /api/v1/pairing-codes, or by the operator: baton token pair --did DID")
	}
	did := c.DID
	if code != "" {
		paired, err := o.Guesses.Redeem(ctx, o.Record.Participants, code, guessesOf(c), now)
		if errors.Is(err, credential.ErrPairing) {
			return nil, userError("That code is wrong, used or expired.")
		}
		if err != nil {
			return nil, err
		}
		did = paired.DID
	}
	if err := o.Ports.CheckBlocked(ctx, federation.Source{Network: c.Network, DIDs: []federation.DID{did}}); err != nil {
		return nil, err
	}
	if err := o.Record.BindName(ctx, federation.BoundName{Network: c.Link, Name: c.Account, DID: did, Vouch: true, Since: now}); err != nil {
		return nil, err
	}
	return []string{"Your account is bound to " + string(did) + ". I sign your steps now."}, nil
}

// guessesOf encodes an account as an address, under which wrong codes are counted.
func guessesOf(c Command) netip.Prefix {
	sum := sha256.Sum256([]byte(c.Link + " " + c.Account))
	return netip.PrefixFrom(netip.AddrFrom16([16]byte(sum[:16])), 128)
}

func (o ChatOps) step(ctx context.Context, c Command, verb federation.Verb, args string, now time.Time) ([]string, error) {
	if err := c.authorized(); err != nil {
		return nil, err
	}
	view, note, err := o.find(ctx, c, args)
	if err != nil {
		return nil, err
	}
	ev := federation.Event{
		Handoff: view.ID, Kind: view.Kind, Verb: verb, Venue: view.Venue, Dialect: view.Dialect,
		ReplyTo: view.ID.String(), Note: note,
	}
	return o.submit(ctx, c, ev, now)
}

func (o ChatOps) offer(ctx context.Context, c Command, args string, now time.Time) ([]string, error) {
	if err := c.authorized(); err != nil {
		return nil, err
	}
	name, text, _ := strings.Cut(args, " ")
	title, content, losses := translate.FitWireTitle(text, "")
	if title == "" {
		return nil, userError("Say: offer WHO title")
	}
	to := federation.DID("")
	if !strings.EqualFold(name, "anyone") {
		var err error
		if to, err = o.offeree(ctx, c, name); err != nil {
			return nil, err
		}
	}
	place, tags, err := o.Ports.Gateway.Place(ctx, c.DID, to, "")
	if err != nil {
		return nil, fmt.Errorf("place offer: %w", err)
	}
	if tags == federation.ActTags && federation.Private(place.Venue) { // these tags require the signer to be one of the pair
		place.Venue = federation.PrivateVenue(o.Ports.Signer.Kept("person:"+string(c.DID)).DID, to)
	}
	ev := federation.Event{Kind: federation.Handoff, Verb: federation.Offer, To: to, Title: title, Context: content, Dialect: tags, Venue: place.Venue}
	ev.Arrival.Place = place
	if ev.Venue == "" { // no link reaches the recipient: the offer waits in its inbox
		ev.Dialect, ev.Venue = federation.HandoffTags, federation.PrivateVenue(c.DID, to)
	}
	lines, err := o.submit(ctx, c, ev, now)
	if err == nil && len(losses) > 0 {
		lines = append(lines, fmt.Sprintf("The title is cut at %d bytes; the context has the full text.", translate.MaxTitleBytes))
	}
	return lines, err
}

// A user of another link has a DID if it is authenticated or its account is bound.
func (o ChatOps) offeree(ctx context.Context, c Command, name string) (federation.DID, error) {
	to, err := o.participant(ctx, c, name)
	if err == nil && to.Place.Link != "" && to.DID == o.Ports.Messages.Guest(to.Place.Link, to.Place.Venue) {
		err = userError(name + " has no DID, so it could not answer. Write to it: say " + name + " text")
	}
	return to.DID, err
}

// The code logs in an agent host as the user. Either the gateway may sign for the user, or the user
// has authenticated to this gateway. Authentication by another server is not enough.
func (o ChatOps) pair(ctx context.Context, c Command, _ string, now time.Time) ([]string, error) {
	switch {
	case c.DID == "":
		return nil, userError("A pairing code needs an account that is bound to a DID.")
	case !c.vouch && !c.Proved:
		return nil, &federation.RefusalError{Code: federation.NeedSignature, Detail: "this gateway does not vouch for " + string(c.DID)}
	}
	code, ends, err := credential.NewPairing(ctx, o.Record.Participants, c.DID, "", true, now)
	if err != nil {
		return nil, err
	}
	return []string{"Your pairing code is " + code + ". Type it where your agent host asks who you are; it is valid once, until " + ends.UTC().Format("15:04 MST") + "."}, nil
}

// The user must be logged in to the gateway's own server, because operators of another network can
// read its users' lines.
func (o ChatOps) password(ctx context.Context, c Command, text string, now time.Time) ([]string, error) {
	switch {
	case !c.Proved:
		return nil, userError("A password is for the gateway's own server: log in there with a key, a certificate or a token, and say: password NEW")
	case !c.Secret:
		return nil, userError("Others can read your connection. Connect with TLS, and choose another password than this one.")
	}
	kept, err := credential.NewPassword(c.DID, text, now)
	if errors.Is(err, credential.ErrPassword) {
		return nil, userError("That is no password: " + credential.ErrPassword.Error() + ".")
	}
	if err == nil {
		err = o.Record.KeepPassword(ctx, kept)
	}
	if err != nil {
		return nil, err
	}
	return []string{"Your password is set. Log in with SASL PLAIN or SCRAM-SHA-256, as " + string(c.DID) + " or as a name that is bound to it."}, nil
}

func (o ChatOps) submit(ctx context.Context, c Command, ev federation.Event, now time.Time) ([]string, error) {
	ev.From = c.DID
	ev.Arrival.Network, ev.Arrival.Link, ev.Arrival.Name, ev.Arrival.Received = c.Network, c.Link, c.Nick, now
	ev.Arrival.User, ev.Arrival.ViaCommand = c.User, true
	if ev.Verb == federation.Offer {
		id, err := federation.NewEventID(now, rand.Reader)
		if err != nil {
			return nil, err
		}
		ev.Handoff = id
	}
	ev, err := VouchFor(ctx, o.Ports, ev, c.Line)
	if err != nil {
		return nil, err
	}
	judged, err := o.Ports.Gateway.Submit(ctx, ev)
	if err != nil {
		return nil, err
	}
	filed := judged.Entry.Event
	return []string{fmt.Sprintf("[%s …%s] %s: it is %s now.", filed.Kind, filed.Handoff.Short(), filed.Verb, judged.Entry.State)}, nil
}

func (o ChatOps) room(ctx context.Context, c Command, args string, _ time.Time) ([]string, error) {
	if c.Room == nil {
		return nil, userError("I make no channels on this network.")
	}
	view, _, err := o.find(ctx, c, args)
	if err != nil {
		return nil, err
	}
	if c.DID == "" || !slices.Contains(view.Others(""), c.DID) {
		return nil, userError("That is for the parties of the handoff.")
	}
	name, err := c.Room(view)
	if err != nil {
		return nil, err
	}
	return []string{"Both are invited to " + name + "."}, nil
}

// person falls back to the gateway's DID for the user's nick.
func (o ChatOps) person(c Command) (federation.DID, error) {
	switch {
	case o.Ports.Messages == nil:
		return "", userError("This gateway carries no messages.")
	case c.DID != "":
		return c.DID, nil
	}
	return o.Ports.Messages.Guest(c.Link, c.Nick), nil
}

func (o ChatOps) sendText(ctx context.Context, c Command, args string, now time.Time) ([]string, error) {
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
	waits, err := Say(ctx, o.Ports, Words{
		From: from, To: to.DID, At: to.Place, Text: text, Line: c.Line,
		Arrival: federation.Arrival{Network: c.Network, Link: c.Link, Name: c.Nick, User: c.User, Received: now},
	}, name)
	if err != nil || waits != "" {
		return []string{waits}, err
	}
	return []string{"Your message to " + name + " is on its way."}, nil
}

// Nicks on the user's own network take precedence. NICK@LINK falls back to the next user with the
// nick.
func (o ChatOps) participant(ctx context.Context, c Command, name string) (bridge.Recipient, error) {
	if name == "" {
		return bridge.Recipient{}, userError("Say a name or a DID.")
	}
	if did, err := c.Lookup(name); did != "" || err != nil {
		return bridge.Recipient{DID: did}, err
	}
	to, err := o.Ports.Resolve(ctx, name)
	if problem, ok := errors.AsType[*bridge.ProblemError](err); ok && problem.Code == bridge.CodeUnknownName && o.Ports.Messages != nil {
		user, absent := o.Ports.Messages.Addressee(ctx, name)
		if !errors.Is(absent, federation.ErrNotFound) {
			return user, absent
		}
	}
	return to, err
}

func (o ChatOps) allow(ctx context.Context, c Command, args string, _ time.Time) ([]string, error) {
	return o.decide(ctx, c, args, true)
}

func (o ChatOps) block(ctx context.Context, c Command, args string, _ time.Time) ([]string, error) {
	return o.decide(ctx, c, args, false)
}

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

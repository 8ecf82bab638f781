package freeq

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// Admits returns a [*federation.RefusalError] for a pending step that the server would ignore.
func (l *Link) Admits(ctx context.Context, h federation.Pending) error {
	_, err := l.pending(ctx, h)
	if _, refused := errors.AsType[*federation.RefusalError](err); !refused {
		return err
	}
	held, unread := l.deps.Record.ListPending(ctx, l.Home(), maxRulings)
	switch {
	case unread != nil:
		return unread
	case slices.ContainsFunc(held, func(earlier federation.Pending) bool {
		return laneOf(earlier) == laneOf(h) && earlier.Event.ID != h.Event.ID
	}):
		return nil // the ruling on the earlier step decides, because an accept may be in flight
	}
	return err
}

// legal returns a step in a form that the server accepts, or a [*federation.RefusalError]. A server
// accepts a step only from the DID that its log names for the role. It silently drops any other
// step, but still shows it to users.
func (l *Link) legal(ctx context.Context, d federation.Delivery) (federation.Event, []federation.Loss, error) {
	written, losses, err := l.render(ctx, d)
	if err != nil {
		return written, nil, err
	}
	signers, known := l.acceptedSigners(written, d.View)
	if known && !slices.Contains(signers, written.From) {
		if err := l.refreshLog(ctx, written.ID); err != nil {
			return written, nil, err
		}
		signers, known = l.acceptedSigners(written, d.View)
	}
	if !known || slices.Contains(signers, written.From) {
		return written, losses, nil
	}
	d.Entry.Event.Arrival.ActingFor = ""
	kept := l.deps.Signer.Kept("person:" + string(d.Entry.Event.Actor())).DID
	if slices.Contains(signers, kept) {
		return irc.Vouch(ctx, l.deps.Ports, d)
	}
	if len(signers) == 0 {
		return written, losses, federation.Refuse(written, federation.IllegalStep, "the server lacks the step that assigned it")
	}
	return written, losses, federation.Refuse(written, federation.NeedSignature, "the server takes it only as signed by "+string(signers[0])+
		" itself, in act tags for "+d.View.Venue+": sign the step, or ask for an offer to "+string(kept))
}

// acceptedSigners returns false if any DID may send the step, or if the handoff is not in the log
// yet.
func (l *Link) acceptedSigners(written federation.Event, v federation.View) (from []federation.DID, known bool) {
	of, seen := l.peers.of(v.ID)
	switch l.deps.Rulings.Role(v, written.Verb) {
	case federation.Offerer:
		return []federation.DID{of.offerer}, seen
	case federation.Assignee:
		return of.workers, seen
	case federation.Offeree:
		if !seen && v.Home == l.Home() {
			return []federation.DID{v.Addressee()}, v.Offeree != ""
		}
		return []federation.DID{of.offeree}, seen && of.offeree != ""
	case federation.Anyone, federation.System:
	}
	return nil, false
}

// The error is an [*federation.UnavailableError].
func (l *Link) refreshLog(ctx context.Context, id federation.EventID) error {
	s := l.live.Load()
	if s == nil {
		return irc.Disconnected(l.cfg.Name)
	}
	_, err := l.shows(ctx, s, id)
	return err
}

// A server accepts answers only from the DID that the offer names.
func (l *Link) answersAs(ctx context.Context, ev federation.Event, v federation.View) (federation.DID, error) {
	if of, known := l.peers.of(v.ID); known {
		return of.offeree, nil // the server already has the offer
	}
	native, err := l.native(ctx, ev.To)
	if err != nil || native {
		return ev.To, err
	}
	asSigned := ev.Dialect == federation.ActTags && ev.Venue == v.Venue
	if asSigned && l.deps.Signer.Kept("airc:"+l.deps.Gateway.Name(ctx, ev.To)).DID == ev.To {
		return ev.To, nil
	}
	return l.signer(ctx, ev.To)
}

// A native is logged in here, or signed its last step on a freeq server.
func (l *Link) native(ctx context.Context, did federation.DID) (bool, error) {
	if l.Online(ctx, federation.Binding{DID: did}) {
		return true, nil
	}
	at, err := l.deps.Bindings.Seen(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return false, nil
	}
	return at.Network == network, err
}

// Users beyond the limit are reached only in channels.
const maxMembers = 1 << 16

type person struct {
	nick  string
	did   federation.DID // empty for a guest
	in    []string
	other int
	as    federation.DID
	id    string // distinguishes a guest from later users of its nick; "" until requested
	meter irc.Meter
}

type members struct {
	ours  []string
	nicks map[string]*person
	dids  map[federation.DID]*person
}

func newMembers(ours []string) *members {
	return &members{ours: ours, nicks: map[string]*person{}, dids: map[federation.DID]*person{}}
}

func fold(nick string) string { return strings.ToLower(nick) }

func (m *members) named(nick string) *person { return m.nicks[fold(nick)] }

func (m *members) join(nick, channel string, did *string) {
	venue, ok := translate.Channel(channel)
	if !ok || len(m.nicks) >= maxMembers && m.named(nick) == nil {
		return
	}
	p := m.named(nick)
	if p == nil {
		p = &person{nick: nick}
		m.nicks[fold(nick)] = p
	}
	if did != nil {
		m.identify(p, *did)
	}
	switch {
	case !slices.Contains(m.ours, venue):
		p.other++
	case !slices.Contains(p.in, venue):
		p.in = append(p.in, venue)
	}
}

func (m *members) identify(p *person, text string) {
	did, err := federation.ParseDID(text)
	if err != nil {
		return
	}
	m.unname(p)
	p.did = did
	m.dids[did] = p
}

func (m *members) unname(p *person) {
	if p.did != "" && m.dids[p.did] == p {
		delete(m.dids, p.did)
	}
}

func (m *members) part(nick, channel string) {
	p := m.named(nick)
	venue, ok := translate.Channel(channel)
	if p == nil || !ok {
		return
	}
	if slices.Contains(m.ours, venue) {
		p.in = slices.DeleteFunc(p.in, func(each string) bool { return each == venue })
	} else {
		p.other--
	}
	if len(p.in) == 0 && p.other <= 0 {
		m.quit(nick)
	}
}

func (m *members) quit(nick string) {
	if p := m.named(nick); p != nil {
		m.unname(p)
		delete(m.nicks, fold(nick))
	}
}

func (m *members) rename(old, nick string) {
	p := m.named(old)
	if p == nil || m.named(nick) != nil {
		return
	}
	delete(m.nicks, fold(old))
	p.nick = nick
	m.nicks[fold(nick)] = p
}

func (p *person) holder() string {
	if p.id == "" {
		p.id = rand.Text()
	}
	return p.id
}

func (m *members) held(holder string) *person {
	for _, p := range m.nicks {
		if p.id == holder {
			return p
		}
	}
	return nil
}

func (m *members) online(did federation.DID) bool { return m.dids[did] != nil }

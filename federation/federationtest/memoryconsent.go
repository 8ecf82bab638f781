package federationtest

import (
	"context"
	"slices"
	"strings"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// ask reports whether a message waits for the consent to an edge, or is lost. It makes
// an edge pending about which nothing was decided.
func (m *Memory) ask(p agents.Posting, waits edge) (held, lost bool, err error) {
	state := m.consent(waits.from, waits.to).State
	if !p.Held || state == agents.ConsentAccepted {
		return false, false, nil
	}
	drop := func() {}
	if waits.from == p.Message.From {
		if drop, err = m.checkFirstContact(waits, p.Source, p.FirstContacts); err != nil {
			return false, false, err
		}
	}
	switch {
	case state == agents.ConsentPending:
		drop()
		return true, false, nil
	case state == agents.ConsentBlocked, waits.from != p.Message.From:
		return false, true, nil
	}
	now := p.Message.Received
	if p.Quiet && now.Before(m.consent(waits.from, waits.to).Barred) {
		return false, true, nil
	}
	if err := m.checkRequest(waits, now); err != nil {
		return false, false, err
	}
	drop()
	m.setConsent(waits.from, waits.to, agents.ConsentPending, now)
	c := m.consents[waits]
	c.Barred = time.Time{}
	m.consents[waits] = c
	m.asked[waits], m.sources[waits] = now, p.Source
	if p.Handshake != nil {
		m.deliver(m.insert(*p.Handshake), now)
	}
	return true, false, nil
}

// MayAsk implements [Registry].
func (m *Memory) MayAsk(ctx context.Context, from, to, source string, firstContacts federation.InboxLimits, now time.Time) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	state := m.consent(from, to).State
	if state == agents.ConsentNone {
		if err := m.checkRequest(edge{from, to}, now); err != nil {
			return err
		}
	}
	if state == agents.ConsentNone || state == agents.ConsentPending {
		_, err = m.checkFirstContact(edge{from, to}, source, firstContacts)
	}
	return err
}

// checkFirstContact rejects a message to be held if the list is full, or returns the function that
// makes room for it.
func (m *Memory) checkFirstContact(waits edge, source string, limits federation.InboxLimits) (drop func(), err error) {
	var held federation.InboxUse
	shares := map[string]int{}
	for _, request := range m.pending(waits.to) {
		e := edge{request.From, waits.to}
		n := len(m.heldOn(e))
		held.Entries += max(n, 1)
		shares[m.sources[e]] += max(n, 1)
		if e == waits {
			held.SenderEntries, source = n, m.sources[e]
		}
	}
	heaviest, yields := federation.Heaviest(shares, source)
	if limits.Events == 0 || held.Entries < limits.Events {
		return func() {}, limits.CheckFirstContact(held, yields)
	}
	return func() { m.dropFirstContact(waits.to, heaviest) }, limits.CheckFirstContact(held, yields)
}

// heldOn returns the held messages of the sender of an edge, in order.
func (m *Memory) heldOn(e edge) []*memoryMessage {
	var held []*memoryMessage
	for _, on := range m.messages {
		if on.Seq == 0 && on.waits == e && on.From == e.from {
			held = append(held, on)
		}
	}
	return held
}

// dropFirstContact drops the newest first contact of a source.
func (m *Memory) dropFirstContact(to, source string) {
	var newest edge
	var at time.Time
	for _, request := range m.pending(to) {
		e := edge{request.From, to}
		came := m.asked[e]
		if held := m.heldOn(e); len(held) > 0 {
			came = held[len(held)-1].Received
		}
		if m.sources[e] == source && !came.Before(at) {
			newest, at = e, came
		}
	}
	var last *memoryMessage
	if held := m.heldOn(newest); len(held) > 0 {
		last = held[len(held)-1]
	}
	m.dropHeld(newest, last, at)
}

// dropHeld deletes a message that is held on an edge, and withdraws the request of its last one.
func (m *Memory) dropHeld(e edge, held *memoryMessage, now time.Time) {
	m.messages = slices.DeleteFunc(m.messages, func(on *memoryMessage) bool { return on == held })
	if len(m.heldOn(e)) == 0 {
		m.discard(e.from, e.to)
		m.setConsent(e.from, e.to, agents.ConsentNone, now)
	}
}

func (m *Memory) checkRequest(waits edge, now time.Time) error {
	if barred := m.consent(waits.from, waits.to).Barred; now.Before(barred) {
		return &federation.RefusalError{
			Code: federation.RateLimited, RetryAfter: barred.Sub(now), Detail: "it was unblocked less than a day ago",
		}
	}
	asked, oldest := 0, now
	for e, at := range m.asked {
		recent := at.After(now.Add(-agents.RequestWindow))
		if e.from == waits.from && recent && m.consent(e.from, e.to).State != agents.ConsentAccepted {
			asked++
			if at.Before(oldest) {
				oldest = at
			}
		}
	}
	if asked >= agents.MaxRequests {
		return &federation.RefusalError{
			Code: federation.RateLimited, RetryAfter: oldest.Add(agents.RequestWindow).Sub(now),
			Detail: "too many handles were asked for consent within the hour",
		}
	}
	return nil
}

// pending returns the edges to a handle that wait, the oldest request first.
func (m *Memory) pending(to string) []agents.Consent {
	var all []agents.Consent
	for e, c := range m.consents {
		if e.to == to && c.State == agents.ConsentPending {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b agents.Consent) int {
		return m.asked[edge{a.From, to}].Compare(m.asked[edge{b.From, to}])
	})
	return all
}

// discard throws away what is held on an edge.
func (m *Memory) discard(from, to string) {
	m.messages = slices.DeleteFunc(m.messages, func(on *memoryMessage) bool {
		return on.Seq == 0 && on.waits == (edge{from, to})
	})
}

// Unblock implements [Registry].
func (m *Memory) Unblock(ctx context.Context, from, to string, now time.Time) (agents.Consent, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return agents.Consent{}, err
	}
	e := edge{from, to}
	if m.consent(from, to).State == agents.ConsentBlocked {
		m.setConsent(from, to, agents.ConsentNone, now)
		if m.answered[e] {
			c := m.consents[e]
			c.Barred = now.Add(agents.UnblockBar)
			m.consents[e] = c
		}
		delete(m.answered, e)
	}
	return m.consent(from, to), nil
}

// Contacts implements [Registry].
func (m *Memory) Contacts(ctx context.Context, handle string, limit int) ([]string, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var contacts []string
	for e, c := range m.consents {
		mutual := c.State == agents.ConsentAccepted && m.consent(e.to, e.from).State == agents.ConsentAccepted
		if e.from == handle && mutual {
			contacts = append(contacts, e.to)
		}
	}
	slices.Sort(contacts)
	return contacts[:min(max(limit, 0), len(contacts))], nil
}

// Pending implements [Registry].
func (m *Memory) Pending(ctx context.Context, to string, limit int) ([]agents.Consent, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	all := m.pending(to)
	return all[:min(max(limit, 0), len(all))], nil
}

// Edges implements [Registry].
func (m *Memory) Edges(ctx context.Context, to, after string, limit int) ([]agents.Consent, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var all []agents.Consent
	for e := range m.consents {
		if c := m.consent(e.from, to); e.to == to && e.from > after && c.State != agents.ConsentNone {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b agents.Consent) int { return strings.Compare(a.From, b.From) })
	return all[:min(max(limit, 0), len(all))], nil
}

// noteUnseen remembers an offer that its agent is not shown yet.
func (m *Memory) noteUnseen(in agents.Message) {
	if !in.Event.IsZero() && in.Event == in.Handoff {
		m.unseen[in.Handoff] = true
	}
}

// Unseen implements [Registry].
func (m *Memory) Unseen(ctx context.Context, opened time.Time, limit int) ([]federation.View, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var views []federation.View
	for id := range m.unseen {
		if v := m.views[id]; v.State == federation.Offered && v.Clock == federation.UnansweredClock && !v.Since.After(opened) {
			views = append(views, v)
		}
	}
	slices.SortFunc(views, func(a, b federation.View) int { return a.Since.Compare(b.Since) })
	return views[:min(max(limit, 0), len(views))], nil
}

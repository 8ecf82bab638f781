package federationtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// edge is one direction between two handles.
type edge struct{ from, to string }

// memoryMessage is a message with its place in the inbox of its recipient, zero
// while it is held, and then the edge that it waits for.
type memoryMessage struct {
	agents.Message
	n        int64 // in the order of arrival
	position int
	waits    edge
	deleted  bool // by its recipient
	read     bool // by its recipient

	// The delivery of the step in it: when it ended, and how, and whether its signer was told
	// of a delay.
	ended   time.Time
	outcome federation.DeliveryState
	slow    bool
}

// AddAgent implements [Registry].
func (m *Memory) AddAgent(ctx context.Context, a agents.Agent) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	before := slices.IndexFunc(m.agents, func(b agents.Agent) bool { return b.Handle == a.Handle })
	if before >= 0 && m.agents[before].Released.IsZero() {
		return federation.ErrTaken
	}
	if since := a.Account.Since; !since.IsZero() {
		a.Account.Since = time.Time{}
		if slices.ContainsFunc(m.agents, func(b agents.Agent) bool { return b.Account == a.Account && !b.Registered.Before(since) }) {
			return federation.ErrTokenUsed
		}
	}
	a.Keys = slices.Clone(a.Keys)
	for i, key := range a.Keys {
		if a.Keys[i] = m.unowned(key); !a.Keys[i].Proved() && a.OwnDID == key.DID {
			a.OwnDID = a.DID
		}
		m.ownProved(a.Keys[i])
	}
	if before >= 0 {
		m.agents[before] = a
	} else {
		m.agents = append(m.agents, a)
	}
	m.ownKey(a.KeptKey, a.DID)
	return nil
}

// ReleaseHandle implements [Registry].
func (m *Memory) ReleaseHandle(ctx context.Context, handle string, now time.Time) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(m.agents, func(a agents.Agent) bool { return a.Handle == handle })
	if i < 0 {
		return federation.ErrNotFound
	}
	a := &m.agents[i]
	if !a.Released.IsZero() {
		return nil
	}
	a.Released, a.OwnDID, a.Keys = now, a.DID, nil
	maps.DeleteFunc(m.sessions, func(_ string, s federation.Session) bool { return s.Participant == handle })
	m.webhooks = slices.DeleteFunc(m.webhooks, func(h *memoryWebhook) bool { return h.Participant == handle || h.DID == a.DID })
	return nil
}

// Agent implements [Registry].
func (m *Memory) Agent(ctx context.Context, handle string) (agents.Agent, error) {
	return m.agent(ctx, func(a agents.Agent) bool { return a.Handle == handle })
}

// AgentOf implements [Registry].
func (m *Memory) AgentOf(ctx context.Context, did federation.DID) (agents.Agent, error) {
	return m.agent(ctx, func(a agents.Agent) bool { return a.Is(did) })
}

func (m *Memory) agent(ctx context.Context, matches func(agents.Agent) bool) (agents.Agent, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return agents.Agent{}, err
	}
	i := slices.IndexFunc(m.agents, matches)
	if i < 0 {
		return agents.Agent{}, federation.ErrNotFound
	}
	return m.agents[i], nil
}

// SetShows implements [Registry].
func (m *Memory) SetShows(ctx context.Context, handle string, shows agents.Shows) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(m.agents, func(a agents.Agent) bool { return a.Handle == handle })
	if i < 0 {
		return federation.ErrNotFound
	}
	m.agents[i].Shows = shows
	return nil
}

// Post implements [Registry].
func (m *Memory) Post(ctx context.Context, p agents.Posting) (agents.Message, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return agents.Message{}, err
	}
	return m.post(p)
}

func (m *Memory) post(p agents.Posting) (agents.Message, error) {
	in := p.Message
	used := false
	for _, on := range m.messages {
		if !in.Event.IsZero() && on.To == in.To && on.Event == in.Event {
			return m.readMessage(on), nil
		}
		used = used || on.From == in.From && on.ID == in.ID && in.Received.Sub(on.Received) < agents.MessageIDWindow
	}
	if used {
		return agents.Message{}, agents.ErrDuplicate
	}
	waits := edge{cmp.Or(p.Edge, in.From), in.To}
	held, lost, err := m.ask(p, waits)
	if err != nil {
		return agents.Message{}, err
	}
	if held || lost {
		m.noteUnseen(in)
	}
	if lost {
		in.Seq, in.Cursor = 0, ""
		return in, nil
	}
	if p.Relay != nil {
		if err := m.enqueue(*p.Relay); err != nil {
			return agents.Message{}, err
		}
	}
	m.claimBlob(in.Handoff, p.Blob)
	filed := m.insert(in)
	if held {
		filed.waits = waits
	} else {
		m.deliver(filed, in.Received)
	}
	return filed.Message, nil
}

func (m *Memory) insert(in agents.Message) *memoryMessage {
	in.Seq, in.Cursor, in.Told = 0, "", time.Time{}
	m.numbered++
	filed := &memoryMessage{Message: in, n: m.numbered}
	m.messages = append(m.messages, filed)
	return filed
}

// deliver gives a message the next place in its thread and in the inbox of its
// recipient.
func (m *Memory) deliver(filed *memoryMessage, now time.Time) {
	var seq uint64
	var last int
	filed.Told = now.Truncate(time.Millisecond)
	for _, on := range m.messages {
		if (edge{on.From, on.To}) == (edge{filed.From, filed.To}) || (edge{on.To, on.From}) == (edge{filed.From, filed.To}) {
			seq = max(seq, on.Seq)
			if !on.Told.IsZero() && on != filed && !on.Told.Before(filed.Told) {
				filed.Told = on.Told.Add(time.Millisecond)
			}
		}
		if on.To == filed.To {
			last = max(last, on.position)
		}
	}
	filed.Seq, filed.position = seq+1, last+1
	m.queuePushes(filed)
	if filed.Event == filed.Handoff {
		delete(m.unseen, filed.Handoff)
	}
}

// readMessage returns a message with the current state of its handoff.
func (m *Memory) readMessage(on *memoryMessage) agents.Message {
	message := on.Message
	message.Now = m.views[on.Handoff].State
	return message
}

// Sent implements [Registry].
func (m *Memory) Sent(ctx context.Context, from, id string, since time.Time) (agents.Message, error) {
	return m.newest(ctx, func(on *memoryMessage) bool {
		return on.From == from && on.ID == id && !on.Received.Before(since)
	})
}

// Named implements [Registry].
func (m *Memory) Named(ctx context.Context, handle, id string) (agents.Message, error) {
	message, err := m.newest(ctx, func(on *memoryMessage) bool {
		return on.ID == id && (on.From == handle || on.To == handle && on.Seq > 0)
	})
	if !errors.Is(err, federation.ErrNotFound) {
		return message, err
	}
	return m.newest(ctx, func(on *memoryMessage) bool {
		return on.To == handle && m.relayIDs[id] == edge{on.From, on.ID}
	})
}

// OfferMessage implements [Registry].
func (m *Memory) OfferMessage(ctx context.Context, handle string, id federation.HandoffID) (agents.Message, error) {
	return m.newest(ctx, func(on *memoryMessage) bool {
		return on.Handoff == id && on.Event == id && (on.From == handle || on.To == handle && on.Seq > 0)
	})
}

func (m *Memory) newest(ctx context.Context, matches func(*memoryMessage) bool) (agents.Message, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return agents.Message{}, err
	}
	for _, on := range slices.Backward(m.messages) {
		if matches(on) {
			return m.readMessage(on), nil
		}
	}
	return agents.Message{}, federation.ErrNotFound
}

// Inbox implements [Registry].
func (m *Memory) Inbox(ctx context.Context, to string, after federation.Cursor, limit int) (messages []agents.Message, more bool, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, false, err
	}
	var all []*memoryMessage
	newest := 0
	for _, on := range m.messages {
		newest = max(newest, on.positionIn(to))
		if on.positionIn(to) > 0 && !on.deleted {
			all = append(all, on)
		}
	}
	slices.SortFunc(all, func(a, b *memoryMessage) int { return a.position - b.position })
	n, err := position("handle "+to, after, newest)
	if err != nil {
		return nil, false, err
	}
	all = slices.DeleteFunc(all, func(on *memoryMessage) bool { return on.position <= n })
	for _, on := range all[:min(max(limit, 0), len(all))] {
		message := m.readMessage(on)
		message.Cursor = cursor("handle "+to, on.position)
		messages = append(messages, message)
	}
	return messages, len(messages) < len(all), nil
}

// positionIn returns where a message is in the inbox of a handle, 0 for nowhere.
func (on *memoryMessage) positionIn(handle string) int {
	if on.To != handle {
		return 0
	}
	return on.position
}

// Thread implements [Registry].
func (m *Memory) Thread(ctx context.Context, handle, peer string, after uint64, limit int) (messages []agents.Message, more bool, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, false, err
	}
	for _, on := range m.messages {
		between := on.From == handle && on.To == peer || on.From == peer && on.To == handle
		gone := on.deleted && on.To == handle
		if between && on.Seq > after && !gone {
			messages = append(messages, m.readMessage(on))
		}
	}
	slices.SortFunc(messages, func(a, b agents.Message) int { return cmp.Compare(a.Seq, b.Seq) })
	end := min(max(limit, 0), len(messages))
	return messages[:end], end < len(messages), nil
}

// MarkRead implements [Registry].
func (m *Memory) MarkRead(ctx context.Context, handle, id string, now time.Time) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	on, err := m.delivered(handle, id)
	if err == nil {
		on.read = true
		m.endHandOut(on, federation.DeliveryDelivered, now)
	}
	return err
}

// Delete implements [Registry].
func (m *Memory) Delete(ctx context.Context, handle, id string) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	on, err := m.delivered(handle, id)
	if err == nil {
		on.deleted = true
	}
	return err
}

// delivered returns the newest message with an id in the inbox of a handle.
func (m *Memory) delivered(handle, id string) (*memoryMessage, error) {
	for _, on := range slices.Backward(m.messages) {
		if on.ID == id && on.positionIn(handle) > 0 && !on.deleted {
			return on, nil
		}
	}
	return nil, federation.ErrNotFound
}

// Shown implements [Registry].
func (m *Memory) Shown(ctx context.Context, id federation.HandoffID) ([]string, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var handles []string
	for _, on := range m.messages {
		if on.Handoff == id && !slices.Contains(handles, on.To) {
			handles = append(handles, on.To)
		}
	}
	return handles, nil
}

// Capable implements [Registry].
func (m *Memory) Capable(ctx context.Context, caps []string) ([]agents.Agent, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var able []agents.Agent
	for _, a := range m.agents {
		var declared struct {
			Skills []string `json:"skills"`
		}
		if json.Unmarshal(a.Capabilities, &declared) != nil || len(caps) == 0 || !a.Released.IsZero() {
			continue // registered without any
		}
		if !slices.ContainsFunc(caps, func(c string) bool { return !slices.Contains(declared.Skills, c) }) {
			able = append(able, a)
		}
	}
	return able, nil
}

// HasSession implements [Registry].
func (m *Memory) HasSession(ctx context.Context, participant string, now time.Time) (bool, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return false, err
	}
	for _, s := range m.sessions {
		if s.Participant == participant && s.Live(now) {
			return true, nil
		}
	}
	return false, nil
}

// Seen implements [Registry].
func (m *Memory) Seen(ctx context.Context, did federation.DID) (bool, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	return m.logins[did] || len(m.devices[did])+len(m.declared[did]) > 0, err
}

// Consent implements [Registry].
func (m *Memory) Consent(ctx context.Context, from, to string) (agents.Consent, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return agents.Consent{}, err
	}
	return m.consent(from, to), nil
}

func (m *Memory) consent(from, to string) agents.Consent {
	if c, ok := m.consents[edge{from, to}]; ok {
		return c
	}
	return agents.Consent{From: from, To: to, State: agents.ConsentNone}
}

func (m *Memory) setConsent(from, to string, state agents.ConsentState, now time.Time) {
	c := m.consent(from, to)
	if c.State != state {
		c.State, c.Updated, c.Version = state, now, c.Version+1
		m.consents[edge{from, to}] = c
	}
}

// Accept implements [Registry].
func (m *Memory) Accept(ctx context.Context, from, to string, now time.Time) (agents.Consent, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return agents.Consent{}, err
	}
	m.accept(from, to, now)
	if m.consent(to, from).State != agents.ConsentBlocked {
		m.accept(to, from, now)
	}
	return m.consent(from, to), nil
}

// AcceptOneWay implements [Registry].
func (m *Memory) AcceptOneWay(ctx context.Context, from, to string, now time.Time) (agents.Consent, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return agents.Consent{}, err
	}
	m.accept(from, to, now)
	return m.consent(from, to), nil
}

func (m *Memory) accept(from, to string, now time.Time) {
	m.setConsent(from, to, agents.ConsentAccepted, now)
	c := m.consents[edge{from, to}]
	c.Barred = time.Time{}
	m.consents[edge{from, to}] = c
	for _, on := range m.messages {
		if agents.ReadHere(to) && on.Seq == 0 && on.waits == (edge{from, to}) {
			m.deliver(on, now)
		}
	}
}

// Block implements [Registry].
func (m *Memory) Block(ctx context.Context, from, to string, now time.Time) (agents.Consent, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return agents.Consent{}, err
	}
	if before := m.consent(from, to).State; before != agents.ConsentBlocked {
		m.setConsent(from, to, agents.ConsentBlocked, now)
		m.answered[edge{from, to}] = before == agents.ConsentPending
		m.discard(from, to)
	}
	return m.consent(from, to), nil
}

// Unshown implements [Registry].
func (m *Memory) Unshown(ctx context.Context, to, from string) (u federation.InboxUse, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return federation.InboxUse{}, err
	}
	for _, on := range m.messages {
		waits := on.position == 0 || on.position > m.shown[to]
		if on.To == to && waits && on.Event.IsZero() && !on.deleted {
			size := int64(len(on.Envelope))
			u = u.Plus(federation.InboxUse{Entries: 1, Bytes: size})
			if on.From == from {
				u = u.Plus(federation.InboxUse{SenderEntries: 1, SenderBytes: size})
			}
		}
	}
	return u, nil
}

// Show implements [Registry].
func (m *Memory) Show(ctx context.Context, to string, upTo federation.Cursor) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	n, err := position("handle "+to, upTo, len(m.messages))
	if err != nil {
		return err
	}
	m.shown[to] = max(m.shown[to], n)
	return nil
}

package federationtest

import (
	"context"
	"errors"
	"slices"

	"baton/federation"
)

// Snapshot reads what a home needs to judge a step. See [federation.Snapshot].
func (m *Memory) Snapshot(ctx context.Context, q federation.SnapshotQuery) (s federation.Snapshot, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return s, err
	}
	ev := q.Step
	s.View, s.Replaced = m.views[ev.Handoff], m.views[ev.Replaces]
	filed, known := m.known(ev.From, ev.ID, ev.Digest())
	if used, ok := errors.AsType[*federation.RefusalError](known); ok {
		s.Used = used
	} else if known == nil {
		s.Filed = &filed
	}
	byEvent := func(e federation.Entry) bool { return e.Event.ID.String() == ev.Answers() }
	byMessage := func(e federation.Entry) bool { return ev.Answers() != "" && e.Event.Arrival.MessageID == ev.Answers() }
	for _, matches := range []func(federation.Entry) bool{byEvent, byMessage} {
		if i := slices.IndexFunc(m.entries, matches); i >= 0 && s.Reference.IsZero() {
			s.Reference = m.entries[i].Event.Handoff
		}
	}
	for _, v := range m.views {
		if q.OpenOf != "" && v.Offerer == q.OpenOf && !v.Over {
			s.Open++
		}
	}
	for _, each := range m.awaiting {
		if each.Event.Handoff == ev.Handoff {
			s.Pending = append(s.Pending, each)
		}
	}
	s.Forked = q.Version > 0 && m.homes.forked(ev.Handoff)
	m.readLog(q, &s)
	m.readInboxes(q, &s)
	return s, nil
}

// readLog fills in what the log of the handoff says.
func (m *Memory) readLog(q federation.SnapshotQuery, s *federation.Snapshot) {
	for _, entry := range m.entries {
		if entry.Event.Handoff != q.Step.Handoff || entry.Version == 0 {
			continue
		}
		s.Head = federation.Link(s.Head, entry.Event.Signature.Document)
		if entry.Version == q.Version {
			s.Chain = s.Head
		}
		if entry.Event.ID == q.Step.Accepts && s.Named == nil && !q.Step.Accepts.IsZero() {
			s.Named = &entry
		}
	}
}

// readInboxes fills in what waits in the inboxes that the query asks for.
func (m *Memory) readInboxes(q federation.SnapshotQuery, s *federation.Snapshot) {
	parties := s.View.Others("")
	if q.Step.Verb == federation.Offer {
		parties = []federation.DID{q.Step.Offeree()}
	}
	for _, did := range parties {
		if m.arrived[did] == 0 || !q.Inboxes {
			continue
		}
		if s.Inboxes == nil {
			s.Inboxes = map[federation.DID]federation.InboxUse{}
		}
		s.Inboxes[did] = m.use(did, q.Step.From)
	}
}

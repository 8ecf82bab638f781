package home_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
	"pgregory.net/rapid"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/lifecycle"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate/dialect"
)

// modelled are the rules, written a second time: from, role, verb, to. A cancel of assigned work is
// for handoffs opened in act tags.
var modelled = map[federation.Kind]string{
	federation.Handoff: `offered offeree accept assigned; offered offeree decline declined; open anyone claim assigned;
		assigned assignee progress assigned; assigned assignee complete completed; assigned assignee fail failed;
		offered offerer cancel cancelled; open offerer cancel cancelled; assigned offerer cancel/act cancelled;
		offered system expire expired; open system expire expired; assigned system expire expired`,
	bounty: `open anyone bid open; open offerer award assigned; assigned assignee progress assigned;
		assigned assignee submit under_review; under_review offerer revise assigned; under_review offerer accept-work accepted;
		assigned assignee forfeit forfeited; under_review assignee forfeit forfeited; under_review system auto-accept accepted;
		open offerer cancel cancelled; assigned offerer cancel cancelled; open system expire expired; assigned system expire expired`,
}

var everyVerb = []federation.Verb{
	"accept", "decline", "claim", "progress", "complete", "fail", "cancel", "expire",
	"bid", "award", "submit", "revise", "accept-work", "forfeit", "auto-accept",
}

type model struct {
	kind                federation.Kind
	dialect             federation.Dialect
	state               federation.State
	offerer, offeree    federation.DID
	assignee            federation.DID
	deadline, bidsUntil time.Time
	moved               time.Time
	bids                map[federation.EventID]federation.DID
	steps               federation.Version
}

// follow returns the state after a step, "" if it is illegal.
func (m *model) follow(actor federation.DID, verb federation.Verb) federation.State {
	roles := map[federation.DID]string{m.offerer: "offerer "}
	roles[m.offeree] += "offeree "
	roles[m.assignee] += "assignee "
	roles["did:web:gw.example"] += "system "
	for rule := range strings.SplitSeq(modelled[m.kind], ";") {
		word := strings.Fields(rule)
		plays := word[1] == "anyone" || actor != "" && strings.Contains(roles[actor], word[1])
		says := word[2] == string(verb) || word[2] == string(verb)+"/"+string(m.dialect)
		if word[0] == string(m.state) && plays && says {
			return federation.State(word[3])
		}
	}
	return ""
}

func (m *model) take(ev federation.Event, filed time.Time) bool {
	to, at := m.follow(ev.From, ev.Verb), ev.Time().Add(-lifecycle.Tolerance)
	answers := ev.Verb == "accept" || ev.Verb == "claim" || ev.Verb == "award"
	switch {
	case to == "" || ev.Kind != m.kind || !ev.Replaces.IsZero():
		return false
	case answers && !m.deadline.IsZero() && at.After(m.deadline), ev.Verb == "bid" && !m.bidsUntil.IsZero() && at.After(m.bidsUntil):
		return false
	case ev.Verb == "award" && m.bids[ev.Accepts] == "":
		return false
	}
	switch string(ev.Verb) {
	case "bid":
		m.bids[ev.ID] = ev.From
	case "award":
		m.assignee = m.bids[ev.Accepts]
	case "accept", "claim":
		m.assignee = ev.From
	}
	m.state, m.moved = to, filed
	m.steps++
	return true
}

func (m *model) over() bool {
	return !strings.Contains("; "+strings.Join(strings.Fields(modelled[m.kind]), " "), "; "+string(m.state)+" ")
}

// ends returns how the home ends the handoff by now, "" if it does not.
func (m *model) ends(limits map[string]time.Duration, now time.Time) federation.Verb {
	at := m.moved.Add(limits[string(m.state)])
	if (m.state == "offered" || m.state == "open") && !m.deadline.IsZero() {
		at = m.deadline.Add(lifecycle.Tolerance)
	}
	switch {
	case m.over() || now.Before(at):
		return ""
	case m.state == "under_review":
		return "auto-accept"
	}
	return federation.Expire
}

type machine struct {
	bench

	reopens bool // its record, in a restart
	minted  int
	models  map[federation.HandoffID]*model
	order   []federation.HandoffID        // of the models, for draws that can be repeated
	moved   map[federation.HandoffID]bool // since the last check
	filed   []federation.Event
	held    []federation.Event // signed, and not submitted yet: they come late, in any order
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{bench: newBench(t), models: map[federation.HandoffID]*model{}, moved: map[federation.HandoffID]bool{}}
	m.home.Limits.ClockSkew, m.home.Limits.MaxDeadline = 0, 0
	return m
}

// mint returns an id of its own, of now.
func (m *machine) mint() federation.EventID {
	m.minted++
	var id ulid.ULID
	_ = id.SetTime(ulid.Timestamp(m.now)) // fails in the year 10889
	copy(id[6:], fmt.Sprintf("%010d", m.minted))
	return federation.EventID(id)
}

func (m *machine) sign(by person, ev federation.Event) federation.Event {
	m.t.Helper()
	ev.ID, ev.From, ev.Venue, ev.Provenance = m.mint(), by.did, "#ops", federation.Signed
	ev.Arrival = federation.Arrival{Network: "spanningtree", Link: "lab", Received: m.now}
	if ev.Verb == federation.Offer {
		ev.Handoff = ev.ID
	}
	if ev.Dialect == "" {
		ev.Dialect = federation.HandoffTags
	}
	ev.Fields, _ = dialect.Write(ev)
	sealed, err := signing.Seal(m.t.Context(), by.key, ev)
	if err != nil {
		m.t.Fatal(err)
	}
	return sealed
}

func (m *machine) somebody(r *rapid.T) person {
	return rapid.SampledFrom([]person{m.alice, m.bob, m.carol}).Draw(r, "who")
}

func (m *machine) someTime(r *rapid.T, what string) time.Time {
	if rapid.Bool().Draw(r, what) {
		return m.now.Add(time.Duration(rapid.IntRange(0, 600).Draw(r, what+" in seconds")) * time.Second).Truncate(time.Second)
	}
	return time.Time{}
}

// handoff returns an opened handoff, most often an open one, or else an ID that no offer opened.
func (m *machine) handoff(r *rapid.T, what string) federation.HandoffID {
	live := slices.DeleteFunc(slices.Clone(m.order), func(id federation.HandoffID) bool { return m.models[id].over() })
	from := rapid.IntRange(0, 19).Draw(r, "where from")
	switch {
	case from > 2 && len(live) > 0:
		return rapid.SampledFrom(live).Draw(r, what)
	case from > 0 && len(m.order) > 0:
		return rapid.SampledFrom(m.order).Draw(r, what)
	}
	return m.mint()
}

func (m *machine) offer(r *rapid.T) federation.Event {
	ev := federation.Event{
		Kind: rapid.SampledFrom([]federation.Kind{federation.Handoff, bounty}).Draw(r, "kind"), Verb: federation.Offer,
		Dialect:  rapid.SampledFrom([]federation.Dialect{federation.HandoffTags, federation.ActTags}).Draw(r, "dialect"),
		Deadline: m.someTime(r, "deadline"), BidDeadline: m.someTime(r, "bids until"), Title: "Review it",
	}
	if directed := rapid.IntRange(0, 9).Draw(r, "directed"); directed == 0 || directed < 6 && ev.Kind == federation.Handoff {
		ev.To = m.somebody(r).did
	}
	if rapid.IntRange(0, 3).Draw(r, "revives") == 0 {
		ev.Replaces = m.handoff(r, "replaced")
	}
	return m.sign(m.somebody(r), ev)
}

// answer returns a later step, more often than not a legal one.
func (m *machine) answer(r *rapid.T) federation.Event {
	id := m.handoff(r, "handoff")
	ev := federation.Event{Kind: federation.Handoff, Handoff: id, Verb: rapid.SampledFrom(everyVerb).Draw(r, "verb")}
	who := m.somebody(r)
	if known := m.models[id]; known != nil {
		ev.Kind, ev.Dialect = known.kind, known.dialect
		bids := slices.SortedFunc(maps.Keys(known.bids), func(a, b federation.EventID) int { return strings.Compare(a.String(), b.String()) })
		if rapid.IntRange(0, 3).Draw(r, "legal") > 0 {
			who, ev.Verb = m.legal(r, known, who, ev.Verb)
		}
		if ev.Verb == "award" && len(bids) > 0 {
			ev.Accepts = rapid.SampledFrom(bids).Draw(r, "bid")
		}
	}
	if ev.Verb == "award" && ev.Accepts.IsZero() && rapid.Bool().Draw(r, "no bid") {
		ev.Accepts = id
	}
	return m.sign(who, ev)
}

// legal returns a verb that the handoff has a rule for now, if there is one, and most often a
// signer with its role.
func (m *machine) legal(r *rapid.T, known *model, who person, verb federation.Verb) (person, federation.Verb) {
	able := make(map[federation.Verb][]person)
	for _, v := range everyVerb {
		for _, p := range []person{m.alice, m.bob, m.carol} {
			if known.follow(p.did, v) != "" {
				able[v] = append(able[v], p)
			}
		}
	}
	if len(able) == 0 {
		return who, verb
	}
	verb = rapid.SampledFrom(slices.Sorted(maps.Keys(able))).Draw(r, "legal verb")
	return rapid.SampledFrom(append(able[verb], who)).Draw(r, "able or not"), verb
}

// submit hands a step to the home and to the model, which must agree.
func (m *machine) submit(r *rapid.T, ev federation.Event) {
	judged, err := m.home.Submit(m.t.Context(), ev, m.now)
	if _, refused := errors.AsType[*federation.RefusalError](err); err != nil && !refused {
		r.Fatalf("%s: %v", ev.Verb, err)
	}
	if legal := m.expect(ev); legal != (err == nil) {
		r.Fatalf("%s of %s %s by %s: %v; the model says %t", ev.Verb, ev.Kind, ev.Handoff, ev.From, err, legal)
	}
	if err == nil {
		if judged.Duplicate {
			r.Fatalf("%s was filed before", ev.Verb)
		}
		m.filed = append(m.filed, ev)
	}
}

func (m *machine) expect(ev federation.Event) bool {
	m.moved[ev.Handoff] = true
	if ev.Verb != federation.Offer {
		known := m.models[ev.Handoff]
		return known != nil && known.take(ev, m.now)
	}
	if replaced := m.models[ev.Replaces]; replaced != nil && !replaced.over() || ev.Kind == bounty && ev.To != "" {
		return false
	}
	opened := &model{
		kind: ev.Kind, dialect: ev.Dialect, state: federation.Open, offerer: ev.From, offeree: ev.To, deadline: ev.Deadline,
		bidsUntil: ev.BidDeadline, moved: m.now, bids: map[federation.EventID]federation.DID{}, steps: 1,
	}
	if ev.To != "" {
		opened.state = federation.Offered
	}
	m.models[ev.Handoff] = opened
	m.order = append(m.order, ev.Handoff)
	return true
}

func (m *machine) Offer(r *rapid.T) { m.submit(r, m.offer(r)) }

func (m *machine) Answer(r *rapid.T) {
	for range rapid.IntRange(1, 10).Draw(r, "steps") {
		m.submit(r, m.answer(r))
	}
}

// Hold signs a step that comes later, perhaps before earlier signed ones.
func (m *machine) Hold(r *rapid.T) {
	ev := m.answer(r)
	if rapid.Bool().Draw(r, "an offer") {
		ev = m.offer(r)
	}
	m.held = append(m.held, ev)
}

func (m *machine) Release(r *rapid.T) {
	if len(m.held) == 0 {
		return // nothing is held
	}
	i := rapid.IntRange(0, len(m.held)-1).Draw(r, "held")
	ev := m.held[i]
	m.held = slices.Delete(m.held, i, i+1)
	m.submit(r, ev)
}

func (m *machine) Repeat(r *rapid.T) {
	if len(m.filed) == 0 {
		return // nothing is filed
	}
	ev := rapid.SampledFrom(m.filed).Draw(r, "step")
	judged, err := m.home.Submit(m.t.Context(), ev, m.now)
	if err != nil || !judged.Duplicate || judged.Entry.Event.ID != ev.ID {
		r.Fatalf("%s again: %+v, %v", ev.Verb, judged, err)
	}
}

// Wait lets time pass and the home look at its clocks.
func (m *machine) Wait(r *rapid.T) {
	m.now = m.now.Add(rapid.SampledFrom([]time.Duration{
		time.Second, time.Minute, 2 * time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour, 72 * time.Hour, 310 * time.Hour, 336 * time.Hour,
	}).Draw(r, "wait"))
	limits := map[string]time.Duration{
		"offered": m.home.Limits.Unanswered, "open": m.home.Limits.Unanswered, "assigned": m.home.Limits.Abandoned,
		"under_review": 336 * time.Hour,
	}
	want, got := map[federation.HandoffID]federation.Verb{}, map[federation.HandoffID]federation.Verb{}
	for id, known := range m.models {
		if verb := known.ends(limits, m.now); verb != "" {
			want[id] = verb
			known.take(federation.Event{Kind: known.kind, Verb: verb, From: m.home.ID.DID()}, m.now)
			m.moved[id] = true
		}
	}
	filed, err := m.home.Sweep(m.t.Context(), m.now)
	if err != nil {
		r.Fatal(err)
	}
	for _, judged := range filed {
		got[judged.View.ID] = judged.Entry.Event.Verb
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) != len(filed) {
		r.Fatalf("%d ended (-want +got):\n%s", len(filed), diff)
	}
}

func (m *machine) Restart(*rapid.T) {
	if m.reopens {
		m.bench = m.restarted()
	}
	for id := range m.models {
		m.moved[id] = true
	}
}

// Check compares the changed handoffs with their models, and their views with their logs. After a
// restart that is everything.
func (m *machine) Check(r *rapid.T) {
	for id := range m.moved {
		view, err := m.record.View(m.t.Context(), id)
		if err != nil {
			r.Fatal(err)
		}
		known, opened := m.models[id]
		if !opened && view.Exists() {
			r.Fatalf("nobody opened %+v", view)
		}
		if !opened {
			continue
		}
		if view.State != known.state || view.Assignee != known.assignee || view.Version != known.steps || view.Over != known.over() {
			r.Fatalf("%s is %+v, and the model %+v", id, view, known)
		}
		replayed, err := m.home.Kinds.Replay(m.home.ID, m.record.Log(m.t.Context(), id, 0))
		if diff := cmp.Diff(view, replayed); err != nil || diff != "" {
			r.Fatalf("the log says otherwise (%v) (-filed +replayed):\n%s", err, diff)
		}
	}
	clear(m.moved)
}

// reopened is one in how many histories has its record opened again in a restart, which costs as
// much as many steps.
const reopened = 20

func TestHomeFollowsItsModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := newMachine(t)
		defer func() {
			if err := m.record.Close(); err != nil {
				r.Error(err)
			}
		}()
		m.reopens = rapid.IntRange(1, reopened).Draw(r, "one of these is opened again") == reopened
		r.Repeat(rapid.StateMachineActions(m))
		m.Restart(r)
		m.Check(r)
	})
}

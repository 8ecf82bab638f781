package peering_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/peering"
)

// steps is the home of a canary in memory. It implements [peering.Steps].
type steps struct {
	submitted []federation.Event
	read      []federation.EventID
	answers   func(s *steps) // the other home's reaction to a submitted offer; completes it if nil
	state     federation.State
	over      bool
	refusing  error
	wake      chan struct{}
	due       time.Time // when the other home completes it; zero for never
}

func (s *steps) Submit(_ context.Context, ev federation.Event) (federation.Judgement, error) {
	s.submitted = append(s.submitted, ev)
	switch {
	case s.refusing != nil:
		return federation.Judgement{}, s.refusing
	case ev.Verb == federation.Cancel:
		s.state, s.over = "cancelled", true
	case ev.Verb == federation.Offer && s.answers != nil:
		s.state, s.over = "offered", false
		s.answers(s)
	case ev.Verb == federation.Offer:
		s.state, s.over = "completed", true
	}
	return federation.Judgement{}, nil
}

func (s *steps) View(context.Context, federation.HandoffID) (federation.View, error) {
	if !s.due.IsZero() && !time.Now().Before(s.due) {
		return federation.View{State: "completed", Over: true}, nil
	}
	return federation.View{State: s.state, Over: s.over}, nil
}

func (s *steps) Log(_ context.Context, id federation.HandoffID, _ federation.Version) iter.Seq2[federation.Entry, error] {
	return func(yield func(federation.Entry, error) bool) {
		for _, ev := range s.submitted {
			if ev.Handoff == id && !yield(federation.Entry{Event: ev}, nil) {
				return
			}
		}
	}
}

func (s *steps) Read(_ context.Context, _ federation.DID, ids []federation.EventID, _ time.Time) error {
	s.read = append(s.read, ids...)
	return nil
}

func (s *steps) Arrivals(federation.DID) (wake <-chan struct{}, stop func()) {
	return s.wake, func() {}
}

func (s *steps) verbs() string {
	var verbs []string
	for _, ev := range s.submitted {
		verbs = append(verbs, string(ev.Verb))
	}
	return strings.Join(verbs, " ")
}

func (g *gateway) canary() *peering.Canary {
	return &peering.Canary{
		Home: "a.test", PublicURL: "https://a.test", Key: func() federation.SigningKey { return keyOf("a") },
		Write: func(ev federation.Event) map[string]string { return map[string]string{"title": ev.Title} },
		Steps: &g.steps, Link: g.Link,
	}
}

func TestCanarySucceedsOnceCompleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGateway()
		g.wake = make(chan struct{}, 1)
		g.answers = func(s *steps) {
			s.due = time.Now().Add(3 * time.Second)
			time.AfterFunc(3*time.Second, func() { s.wake <- struct{}{} })
		}
		report, err := g.canary().Send(t.Context(), "b.test")
		if err != nil || !report.Green || report.Took != 3*time.Second || report.Reason != "" {
			t.Errorf("got %+v, %v", report, err)
		}
		offer := g.submitted[0]
		if offer.From != "did:web:a.test" || offer.To != "did:web:b.test" || offer.Title != "canary" || offer.Handoff != report.Handoff || offer.Signature.Text == "" {
			t.Errorf("the offer is %+v", offer)
		}
		if got := g.verbs(); got != "offer" || !slices.Equal(g.read, []federation.EventID{offer.ID}) {
			t.Errorf("submitted %q, read %v", got, g.read)
		}
	})
}

func TestCanaryIsCancelledAfterItsTimeout(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		link peering.Link
		ends federation.State
		took time.Duration
		want string
	}{
		"the link is up":                     {peering.Link{Up: true}, "", 15 * time.Second, "it is offered after 15s: b.test did not answer it in time"},
		"the link is down":                   {peering.Link{LastError: "connection refused"}, "", 15 * time.Second, "b.test is not reached: connection refused"},
		"the other home does not know us":    {peering.Link{LastError: "unavailable: status 403"}, "", 0, "b.test does not know this home yet; there: baton peer add https://a.test"},
		"the other home declined the canary": {peering.Link{Up: true}, "declined", 0, "it ended declined"},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGateway()
			g.links["b.test"] = test.link
			g.answers = func(s *steps) {
				if test.ends != "" {
					s.state, s.over = test.ends, true
				}
			}
			report, err := g.canary().Send(t.Context(), "b.test")
			if err != nil || report.Green || report.Reason != test.want || report.Took != test.took {
				t.Errorf("%s: %+v, %v", name, report, err)
			}
			if want := map[bool]string{true: "offer", false: "offer cancel"}[test.ends != ""]; g.verbs() != want || len(g.read) != len(g.submitted) {
				t.Errorf("%s: submitted %q, want %q; read %d", name, g.verbs(), want, len(g.read))
			}
		})
	}
}

func TestCanaryReturnsALocalRefusal(t *testing.T) {
	t.Parallel()
	g := newGateway()
	g.refusing = errors.New("disk")
	if _, err := g.canary().Send(t.Context(), "b.test"); !errors.Is(err, g.refusing) {
		t.Errorf("Send: %v", err)
	}
	if err := g.canary().Answer(t.Context(), canaryOffer(), "b.test"); !errors.Is(err, g.refusing) {
		t.Errorf("Answer: %v", err)
	}
}

func canaryOffer() federation.Event {
	id := federation.EventID{15: 1}
	return federation.Event{
		ID: id, Handoff: id, Kind: federation.Handoff, Verb: federation.Offer, From: "did:web:b.test", To: "did:web:a.test", Title: "canary",
		Venue: "dm", Dialect: federation.HandoffTags,
	}
}

func TestCanaryAnswersOnlyCanaries(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(ev *federation.Event)
		want   string
	}{
		"a canary":                 {func(*federation.Event) {}, "accept complete"},
		"another title":            {func(ev *federation.Event) { ev.Title = "Review it" }, ""},
		"another step":             {func(ev *federation.Event) { ev.Verb = federation.Cancel }, ""},
		"of a user of the home":    {func(ev *federation.Event) { ev.From = "did:key:bob" }, ""},
		"to a user of this home":   {func(ev *federation.Event) { ev.To = "did:key:alice" }, ""},
		"of a third home's making": {func(ev *federation.Event) { ev.From = "did:web:c.test" }, ""},
	} {
		g, offer := newGateway(), canaryOffer()
		test.change(&offer)
		if err := g.canary().Answer(t.Context(), offer, "b.test"); err != nil || g.verbs() != test.want {
			t.Errorf("%s: %q, %v", name, g.verbs(), err)
		}
		for _, ev := range g.submitted {
			if ev.Handoff != offer.Handoff || ev.ReplyTo != offer.ID.String() || ev.From != "did:web:a.test" {
				t.Errorf("%s: %+v", name, ev)
			}
		}
		if answered := test.want != ""; answered != slices.Equal(g.read, []federation.EventID{offer.ID}) {
			t.Errorf("%s: read %v", name, g.read)
		}
	}
}

//go:build interop

package main_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// limitsTable returns a table of limits, of which there is one.
func limitsTable(limit string) string {
	key, _, _ := strings.Cut(limit, " ")
	table := limit + "\n"
	for line := range strings.Lines(unlimited) {
		if strings.HasPrefix(line, "[") {
			table = line + table
		} else if !strings.HasPrefix(line, key+" ") {
			table += line
		}
	}
	return table
}

// another brings a second person onto the first network, and returns a way to offer
// something that must cross.
func (tw *twin) another(t *testing.T, nick string) (offers func(t *testing.T)) {
	t.Helper()
	who := user{newPerson(t), tw.net.join(t, nick, "message-tags")}
	return func(t *testing.T) {
		t.Helper()
		offer := rfcTags.offer(who.person, channel, extras{"to": tw.scout.DID, "title": title})
		send(t, who.IRCClient, offer.tags)
		seenAsSigned(t, tw.carol, rfcTags, "offer", offer)
	}
}

// until makes alice repeat an offer until it is refused, and returns the
// number of filed ones.
func (tw *twin) until(t *testing.T, code string, offer func() signed) (filed int) {
	t.Helper()
	const enough = 50
	for filed = range enough {
		s := offer()
		send(t, tw.alice, s.tags)
		m := next(t, tw.alice, "what becomes of an offer", func(m bridgetest.IRCMessage) bool {
			return m.Command == "NOTICE" && (strings.Contains(m.Params[1], s.event) || isLine(s.handoff, "alice offers")(m))
		})
		if m.Params[0] == channel {
			continue
		}
		if !strings.HasPrefix(m.Params[1], code+" "+s.event+" ") {
			t.Fatalf("told %q, want %s", m.Params[1], code)
		}
		return filed
	}
	t.Fatalf("%d offers were filed", enough)
	return filed
}

// offerTo returns how alice makes an offer.
func (tw *twin) offerTo(did string) func() signed {
	return func() signed { return rfcTags.offer(tw.key, channel, extras{"to": did, "title": title}) }
}

func TestLimitsApplyOnlyToTheBusyIRCUser(t *testing.T) {
	for _, tt := range []struct {
		name, limit, code string
		fewest            int // filed offers
	}{
		{"steps of one DID", "did_events_per_minute = 5", "RATE_LIMITED", 3}, // two were made before
		{"steps of one user", "user_events_per_minute = 5", "RATE_LIMITED", 3},
		{"handoffs that are not over", "open_handoffs_per_did = 3", "QUOTA_EXCEEDED", 3},
		{"steps that wait for one DID", "inbox_events = 3", "INBOX_FULL", 3},
		{"bytes that wait for one DID", "inbox_bytes = 2000", "INBOX_FULL", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tw := newTwin(t, rfcTags, limitsTable(tt.limit))
			offers := tw.another(t, "erin")
			if filed := tw.until(t, tt.code, tw.offerTo(tw.scout.DID)); filed < tt.fewest-1 {
				t.Errorf("%d offers were filed, want %d or so", filed, tt.fewest)
			}
			if tt.code == "INBOX_FULL" { // of scout, from each offerer
				offer := rfcTags.offer(tw.key, channel, extras{"to": tw.finn.DID, "title": title})
				send(t, tw.alice, offer.tags)
				tw.finn.next(t, "the offer", isAbout("offer", offer.handoff))
				return
			}
			offers(t)
		})
	}
}

// A client flooded off by one limit must not be answered line by line.
func TestLimitsRefuseAFloodAndKeepTheLink(t *testing.T) {
	t.Parallel()
	tw := newTwin(t, rfcTags, limitsTable("user_events_per_minute = 10"))
	offers := tw.another(t, "erin")
	for range 200 {
		send(t, tw.alice, tw.offerTo(tw.scout.DID)().tags)
	}
	limited := func(m bridgetest.IRCMessage) bool {
		return m.Command == "NOTICE" && m.Params[0] == "alice" && strings.HasPrefix(m.Params[1], "RATE_LIMITED ")
	}
	next(t, tw.alice, "a refusal", limited)
	offers(t)
	if told := slices.DeleteFunc(tw.alice.Received(), func(m bridgetest.IRCMessage) bool { return !limited(m) }); len(told) > 10 {
		t.Errorf("told %d times more", len(told))
	}
	if up := tw.counters(t)[`baton_link_up{link="lab",network="spanningtree"}`]; up != 1 {
		t.Errorf("baton_link_up is %v, want 1", up)
	}
}

// exchangeHTTP sends one request as an agent, and returns the answer with its headers.
func exchangeHTTP(t *testing.T, agent *mailbox, method, path string, body []byte) (outcome, http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, agent.URL+path, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if agent.Token != "" {
		request.Header.Set("Authorization", "Bearer "+agent.Token)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return decodeOutcome(t, response), response.Header
}

func TestLimitsAreReportedToEachCaller(t *testing.T) {
	t.Parallel()
	tw := newTwin(t, rfcTags, limitsTable("did_events_per_minute = 6"))
	offender, other := tw.hire(t, "offender"), tw.hire(t, "other")
	var last outcome
	var header http.Header
	remaining := 6
	for i := range 8 {
		text := write(t, offender.Agent, offender.Envelope("scout_7", "hello", nil))
		last, header = exchangeHTTP(t, offender, http.MethodPost, "/messages", text)
		if header.Get("X-RateLimit-Limit") != "6" || header.Get("X-RateLimit-Reset") == "" {
			t.Errorf("message %d: headers %v", i, header)
		}
		left, err := strconv.Atoi(header.Get("X-RateLimit-Remaining"))
		if err != nil || left > remaining {
			t.Errorf("message %d: %d remaining after %d, %v", i, left, remaining, err)
		}
		remaining = left
		if last.Status >= http.StatusBadRequest {
			break
		}
	}
	if last.Status != http.StatusTooManyRequests || last.Error != "rate_limited" || last.Message == "" {
		t.Fatalf("the last one is answered %+v", last)
	}
	if after, err := strconv.Atoi(header.Get("Retry-After")); err != nil || after < 1 || after > 60 {
		t.Errorf("Retry-After %q", header.Get("Retry-After"))
	}
	text := write(t, other.Agent, other.Envelope("scout_7", "hello", nil))
	if got, _ := exchangeHTTP(t, other, http.MethodPost, "/messages", text); got.Status != http.StatusAccepted {
		t.Errorf("another agent is answered %+v", got)
	}
}

func TestLimitsApplyOnlyToTheBusyAIRCAgent(t *testing.T) {
	for _, tt := range []struct {
		name, limit, code string
	}{
		{"handoffs that are not over", "open_handoffs_per_did = 3", "rate_limited"},
		{"steps that wait for one DID", "inbox_events = 3", "recipient_over_capacity"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tw := newTwin(t, rfcTags, limitsTable(tt.limit))
			other := tw.hire(t, "other")
			to := handleOf(tw.key.did)
			ask := func(from *mailbox, to string) outcome {
				got, _ := printError(t, from, to, payload("task:request", map[string]any{"description": title}))
				return got
			}
			if tt.code == "recipient_over_capacity" {
				consent(t, tw.scout, "finn")
				to = "scout_7"
			}
			got := ask(tw.finn, to)
			for range 10 {
				if got.Status != http.StatusCreated {
					break
				}
				got = ask(tw.finn, to)
			}
			if got.Status != http.StatusTooManyRequests || got.Error != tt.code {
				t.Errorf("the last offer is answered %+v", got)
			}
			if got := ask(other, handleOf(tw.key.did)); got.Status != http.StatusCreated {
				t.Errorf("another agent is answered %+v", got)
			}
		})
	}
}

package inspircd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
	"github.com/baton-gateway/baton/federation"
)

func TestInboundSteps(t *testing.T) {
	t.Run("submits a step with what was signed and where it came from", func(t *testing.T) {
		h, peer := linked(t, nil)
		msgid := peer.Tagmsg("alice", "#ops", offerTags())
		ev := h.gateway.next(t)
		wantArrival := federation.Arrival{Network: "spanningtree", Link: linkName, Name: "alice", User: "alice", MessageID: msgid}
		if diff := cmp.Diff(wantArrival, ev.Arrival, cmpopts.IgnoreFields(federation.Arrival{}, "Received")); diff != "" {
			t.Errorf("arrival (-want +got):\n%s", diff)
		}
		if since := time.Since(ev.Arrival.Received); since < 0 || since > patience {
			t.Errorf("received %v ago", since)
		}
		if got, want := ev.Fields["handoff-task"], "Cite the 3 best sources; on X"; got != want {
			t.Errorf("title %q, want %q", got, want)
		}
		if ev.Venue != "#ops" || ev.Verb != federation.Offer || ev.ID.String() != offerID {
			t.Errorf("event %+v", ev)
		}
	})

	t.Run("keeps the order of steps, and answers PING, while the gateway is slow", func(t *testing.T) {
		h, peer := linked(t, nil)
		release := make(chan struct{})
		h.gateway.answer = func(context.Context, federation.Event) error { <-release; return nil }
		const steps = 40
		var want, got []string
		for range steps {
			want = append(want, peer.Tagmsg("alice", "#ops", offerTags()))
		}
		line := acceptRow(t)
		if err := h.link.Deliver(waiting(t), line); err != nil { // its PONG comes after all the steps
			t.Fatalf("deliver: %v", err)
		}
		close(release)
		for range steps {
			got = append(got, h.gateway.next(t).Arrival.MessageID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
	})

	t.Run("stops reading when too many steps wait, and loses none", func(t *testing.T) {
		h, peer := linked(t, nil)
		release := make(chan struct{})
		h.gateway.answer = func(context.Context, federation.Event) error { <-release; return nil }
		const steps = inspircd.MaxSteps + 100
		for range steps {
			peer.Tagmsg("alice", "#ops", offerTags())
		}
		close(release)
		for range steps {
			h.gateway.next(t)
		}
	})

	t.Run("submits again what the gateway could not take, in order, and tells nobody", func(t *testing.T) {
		h, peer := linked(t, nil)
		var asked atomic.Int32
		h.gateway.answer = func(context.Context, federation.Event) error {
			if asked.Add(1) < 3 {
				return &federation.UnavailableError{What: "record", Err: errors.New("disk full")}
			}
			return nil
		}
		first, second := peer.Tagmsg("alice", "#ops", offerTags()), peer.Tagmsg("alice", "#ops", offerTags())
		got := []string{h.gateway.next(t).Arrival.MessageID, h.gateway.next(t).Arrival.MessageID}
		if diff := cmp.Diff([]string{first, second}, got); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		if n := countOf(peer, "NOTICE"); n != 0 {
			t.Errorf("%d notices", n)
		}
	})

	t.Run("files what was read before the connection was lost", func(t *testing.T) {
		h, peer := linked(t, nil)
		begun, release := make(chan struct{}, 2), make(chan struct{})
		h.gateway.answer = func(context.Context, federation.Event) error { begun <- struct{}{}; <-release; return nil }
		peer.Tagmsg("alice", "#ops", offerTags())
		<-begun
		peer.Drop()
		close(release)
		h.gateway.next(t)
	})

	t.Run("passes over chat, tags of others and what its own users could not mean", func(t *testing.T) {
		h, peer := linked(t, nil)
		peer.Say("alice", "PRIVMSG #ops :[handoff] hello")
		peer.Tagmsg("alice", "#ops", map[string]string{"+typing": "active"})
		peer.Tagmsg("alice", "#ops", map[string]string{"+freeq.at/handoff-ack": offerID})
		msgid := peer.Tagmsg("alice", "#ops", offerTags())
		if got := h.gateway.next(t).Arrival.MessageID; got != msgid {
			t.Errorf("submitted %q", got)
		}
		if n := countOf(peer, "NOTICE"); n != 0 {
			t.Errorf("%d notices", n)
		}
	})
}

func TestInboundRefusals(t *testing.T) {
	without := func(tag string) map[string]string {
		tags := offerTags()
		delete(tags, tag)
		return tags
	}
	tests := []struct {
		name   string
		target string
		tags   map[string]string
		answer error
		code   string
		want   string
		ref    string
	}{
		{
			"tells the code, the event and the sentence of what the gateway refused", "#ops", offerTags(),
			&federation.RefusalError{Code: federation.WrongSender, Event: federation.EventID{1}, Handoff: federation.EventID{2}},
			"WRONG_SENDER", "WRONG_SENDER " + federation.EventID{1}.String() + " " + federation.WrongSender.Sentence(), federation.EventID{2}.String(),
		},
		{
			"tells a step without from that it needs one here", "#ops", without("+freeq.at/handoff-from"), nil,
			"MISSING_REQUIREMENT", "MISSING_REQUIREMENT " + offerID + " " + federation.MissingRequirement.Sentence() + ": +freeq.at/handoff-from", offerID,
		},
		{
			"tells a step with a bad id", "#ops", without("+freeq.at/handoff-id"), nil,
			"MISSING_REQUIREMENT", "MISSING_REQUIREMENT " + offerID + " " + federation.MissingRequirement.Sentence() + ": +freeq.at/handoff-id", "",
		},
		{
			"tells a bug without its text", "#ops", offerTags(), errors.New("secret detail"),
			"", "INTERNAL_ERROR * the gateway could not judge the step", "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, peer := linked(t, nil)
			h.gateway.answer = func(context.Context, federation.Event) error { return tt.answer }
			peer.Tagmsg("alice", tt.target, tt.tags)
			notice := await(t, peer, "NOTICE")
			if diff := cmp.Diff([]string{peer.UUID("alice"), tt.want}, notice.Params); diff != "" {
				t.Errorf("notice (-want +got):\n%s", diff)
			}
			if notice.Nick != "Baton" || notice.Tags["+freeq.at/ref"] != tt.ref {
				t.Errorf("from %q with ref %q", notice.Nick, notice.Tags["+freeq.at/ref"])
			}
			if tt.code == "" {
				return
			}
			if n := testutil.ToFloat64(h.metrics.Refusals.WithLabelValues("spanningtree", tt.code)); n != 1 {
				t.Errorf("counted %v refusals", n)
			}
		})
	}
}

func TestInboundRefusesTargets(t *testing.T) {
	for _, target := range []string{"@#ops", "9GWZZZZZZ", "alice", "1AAAAAAAB", "$*", "#elsewhere", "#ops,#other"} {
		t.Run("refuses a step to "+target, func(t *testing.T) {
			h, peer := linked(t, nil)
			peer.Send(tagLine(peer, target, offerTags()))
			notice := await(t, peer, "NOTICE")
			if !strings.HasPrefix(notice.Params[1], "INVALID_TARGET "+offerID+" ") {
				t.Errorf("notice %q", notice.Params[1])
			}
			if n := strings.Count(h.log.String(), "step refused"); n != 1 {
				t.Errorf("told the log %d times", n)
			}
		})
	}
}

// tagLine is a TAGMSG of alice to any target.
func tagLine(peer *bridgetest.IRCd, target string, tags map[string]string) string {
	var all []string
	for name, value := range tags {
		all = append(all, name+"="+strings.NewReplacer(";", `\:`, " ", `\s`).Replace(value))
	}
	return fmt.Sprintf("@%s :%s TAGMSG %s", strings.Join(all, ";"), peer.UUID("alice"), target)
}

func TestInboundBadInput(t *testing.T) {
	tests := []struct {
		name   string
		line   func(peer *bridgetest.IRCd) string
		reason string
		notice string // "" when no user can be told
	}{
		{"tags that are not UTF-8", func(p *bridgetest.IRCd) string {
			return "@+freeq.at/handoff=\xff :" + p.UUID("alice") + " TAGMSG #ops"
		}, "unreadable_tags", "INVALID_TAG * the tags could not be read"},
		{"tags that are not UTF-8, elsewhere", func(p *bridgetest.IRCd) string {
			return "@+x=\xff :" + p.UUID("alice") + " TAGMSG #elsewhere"
		}, "unreadable_tags", ""},
		{"a line longer than any", func(p *bridgetest.IRCd) string {
			return ":" + p.UUID("alice") + " PRIVMSG #ops :" + strings.Repeat("x", inspircd.MaxLineBytes)
		}, "too_long", ""},
		{"a NUL", func(p *bridgetest.IRCd) string { return ":" + p.UUID("alice") + " PRIVMSG #ops :\x00" }, "malformed", ""},
		{"too few parameters", func(*bridgetest.IRCd) string { return ":1AA UID 1AAAAAAAZ 1 nick" }, "malformed", ""},
		{"a user of another server", func(*bridgetest.IRCd) string {
			return ":1AA UID 2BBAAAAAZ 1 nick h h i 127.0.0.1 1 + :real"
		}, "malformed", ""},
		{"an unknown source", func(*bridgetest.IRCd) string { return ":1AAZZZZZZ PRIVMSG #ops :hi" }, "unknown_source", ""},
		{"a source of ours", func(*bridgetest.IRCd) string { return ":9GWAAAAAA PRIVMSG #ops :hi" }, "unknown_source", ""},
	}
	for _, tt := range tests {
		t.Run("survives "+tt.name, func(t *testing.T) {
			h, peer := linked(t, nil)
			peer.Send(tt.line(peer))
			if tt.notice != "" {
				if got := await(t, peer, "NOTICE").Params[1]; got != tt.notice {
					t.Errorf("notice %q, want %q", got, tt.notice)
				}
			}
			peer.Tagmsg("alice", "#ops", offerTags())
			h.gateway.next(t) // the link lives
			if n := testutil.ToFloat64(h.metrics.BadInput.WithLabelValues("spanningtree", linkName, tt.reason)); n != 1 {
				t.Errorf("counted %v, log:\n%s", n, h.log)
			}
			if n := strings.Count(h.log.String(), "unreadable line"); n != 1 {
				t.Errorf("told the log %d times", n)
			}
			if n := countOf(peer, "NOTICE"); n != 0 {
				t.Errorf("%d more notices", n)
			}
		})
	}
}

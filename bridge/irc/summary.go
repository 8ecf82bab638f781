package irc

import (
	"context"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// Summary returns the readable line for a step, such as
//
//	[handoff …Y6Z0AB] eliza offers scholar: Cite the 3 best sources on X (due 14:00 UTC)
//
// It is one line of at most [MaxTextBytes] without control characters.
//
// spec: handofftag "Humans"
func Summary(step translate.Step) string { return summary(step, due(step.Event)) }

// PrivateSummary returns the readable line for the recipient of a private step: [Summary] and, for an
// offer, the commands to answer it. Nick is that of the gateway's own user.
//
// spec: handofftag "Humans"
func PrivateSummary(step translate.Step, nick string) string {
	return summary(step, due(step.Event)+answers(step.Event, nick))
}

// Named returns a delivered step with the names of its parties. It blocks on the gateway.
func Named(ctx context.Context, gw bridge.Gateway, d federation.Delivery) translate.Step {
	names := map[federation.DID]string{}
	for _, did := range append(d.View.Others(""), d.Entry.Event.Actor(), d.Entry.Event.Offeree()) {
		if _, known := names[did]; !known && did != "" {
			names[did] = gw.Name(ctx, did)
		}
	}
	return translate.Step{Entry: d.Entry, View: d.View, Name: func(did federation.DID) string { return names[did] }}
}

// The tail is never truncated.
func summary(step translate.Step, tail string) string {
	ev := step.Event
	about := ev.Title
	if about == "" {
		about = step.View.Title
	}
	if ev.Note != "" {
		about += " — " + ev.Note
	}
	line := fmt.Sprintf("[%s …%s] %s: %s", ev.Kind, ev.Handoff.Short(), clause(step), about)
	return Cut(Plain(line), MaxTextBytes-len(tail)) + tail
}

func due(ev federation.Event) string {
	if ev.Verb != federation.Offer || ev.Deadline.IsZero() {
		return ""
	}
	return " (due " + dueTime(ev.Deadline, ev.Time()) + ")"
}

func answers(ev federation.Event, nick string) string {
	say := func(verb string) string { return "/msg " + nick + " " + verb + " " + ev.Handoff.Short() }
	switch {
	case ev.Verb != federation.Offer:
		return ""
	case ev.To == "":
		return " — answer: " + say("claim")
	}
	return " — answer: " + say("accept") + " or " + say("decline")
}

func clause(step translate.Step) string {
	who := step.Name(step.Event.Actor())
	switch step.Event.Verb {
	case federation.Offer:
		if step.Event.To == "" {
			return who + " offers anyone"
		}
		return who + " offers " + step.Name(step.Event.Offeree())
	case federation.Accept:
		return who + " accepts"
	case federation.Decline:
		return who + " declines"
	case federation.Claim:
		return who + " claims"
	case federation.Progress:
		return who + " reports progress"
	case federation.Complete:
		return who + " completes"
	case federation.Fail:
		return who + " fails"
	case federation.Cancel:
		return who + " cancels"
	case federation.Expire:
		return "expired" // declared by the home, not by a DID
	case federation.Confirm: // no line, because the state does not change
	}
	if step.Event.From == step.View.Home.DID() {
		return string(step.Event.Verb) // declared by the home
	}
	return who + " " + string(step.Event.Verb)
}

// dueTime omits the date if it is today.
func dueTime(deadline, step time.Time) string {
	layout := "15:04 MST"
	if apart := deadline.Sub(step).Abs(); apart >= 24*time.Hour {
		layout = "2006-01-02 15:04 MST"
	}
	return deadline.UTC().Format(layout)
}

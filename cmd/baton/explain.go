package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"baton/bridge"
	"baton/bridge/operatorapi"
	"baton/federation"
	"baton/federation/agents"
)

// explainCommand explains one event.
type explainCommand struct {
	Event string `arg:"" help:"The id of an event; of an offer also its last six characters or more."`
}

// Help has one example.
func (explainCommand) Help() string {
	return `Says what was signed, with which key and who named it, why it counts, how it got where it is, and what
happens next if nobody does anything.

Example:

	baton explain 01K0A3V9M7Q2X5R8T1W4Y6Z0AB`
}

// Run prints the explanation.
func (cmd explainCommand) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client(cmd.Event)
	if err != nil {
		return err
	}
	e, err := answered[operatorapi.Explanation](gateway.ExplainEvent(ctx, cmd.Event))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, e)
	}
	return printExplanation(streams, e, time.Now())
}

// printExplanation writes an explanation for people, a line for each thing to know.
func printExplanation(streams std, e operatorapi.Explanation, now time.Time) error {
	out := tabwriter.NewWriter(streams.out, 0, 0, 2, ' ', 0)
	say := func(name, value string) { fmt.Fprintf(out, "%s\t%s\n", name, shown(value)) }
	say("event", fmt.Sprintf("%s  %s of %s", e.EventID, e.Verb, e.HandoffID))
	say("signer", string(e.From))
	if e.For != "" {
		say("stands for", string(e.For))
	}
	say("identity", string(e.Identity)+": "+identityLine(e.Identity))
	say("verdict", fmt.Sprintf("%s, %s: %s", e.Verdict, e.Provenance, e.Why))
	if e.Key.Public == "" {
		say("key", e.Key.KeyID+"  nobody says whose it is")
	} else {
		say("key", fmt.Sprintf("%s  %s  by %s", e.Key.KeyID, e.Key.Public, e.Key.Source))
	}
	say("document", e.Document)
	say("signature", e.Signature)
	if e.Evidence != nil {
		say("evidence", e.Evidence.URL+"  sha256 "+e.Evidence.SHA256)
	}
	for _, hop := range e.Hops {
		say(hop.What, strings.TrimSpace(fmt.Sprintf("%s  %s  %s  %s", hop.Time, hop.Via, hop.Who, hop.Why)))
	}
	if e.State != "" {
		say("handoff", fmt.Sprintf("%s by it, %s now", e.State, e.Standing))
	} else {
		say("handoff", cmp.Or(string(e.Standing), "not opened"))
	}
	for _, at := range e.Routes {
		say("mailbox", routeLine(at))
	}
	for _, next := range e.Next {
		say("next", nextLine(next, now))
	}
	if len(e.Next) == 0 {
		say("next", "nothing: no delivery waits, and no clock runs")
	}
	return out.Flush()
}

// routeLine says where a mailbox is, and how that is known.
func routeLine(r operatorapi.Route) string {
	if r.Home == "" {
		return string(r.DID) + "  nowhere yet: no home is known to have it"
	}
	line := fmt.Sprintf("%s  at %s, by %s", r.DID, r.Home, r.Source)
	if !r.Since.IsZero() {
		line += "  since " + r.Since.String()
	}
	return line
}

// identityLine says what an identity is worth.
func identityLine(claim bridge.IdentityClaim) string {
	switch claim {
	case bridge.Anchored:
		return "a DID with a document, which names its keys and may change them"
	case bridge.SelfIssued:
		return "the DID is its key; who holds that is who it is"
	case bridge.Relayed:
		return "another server says who it is"
	case bridge.Guest, bridge.LookingUp, bridge.Unknown:
	}
	return "nobody says who it is"
}

// nextLine says one thing to come.
func nextLine(n operatorapi.Next, now time.Time) string {
	if n.What == operatorapi.Judgement {
		return fmt.Sprintf("judge it again at %s, in %s, tried %d times, last error: %s", n.Time, until(n.Time, now), n.Attempts, n.LastError)
	}
	if n.Via == "" {
		return fmt.Sprintf("%s by the home at %s, in %s, where the %s clock ends", n.What, n.Time, until(n.Time, now), n.Clock)
	}
	parts := []string{fmt.Sprintf("deliver over %s to %s", n.Via, n.Who)}
	switch n.Via {
	case agents.Link:
		return parts[0] + ", once the agent consents to hear from the sender"
	case federation.InboxLink:
		return "it is in the inbox of " + n.Who + ", and delivered once they read it there"
	}
	parts = append(parts, fmt.Sprintf("tried %d times", n.Attempts))
	if n.LinkState != "" {
		parts = append(parts, "the link is "+n.LinkState)
	}
	switch {
	case n.Time.IsZero():
	case n.LinkState == string(bridge.LinkUp):
		parts = append(parts, "tried again in "+until(n.Time, now))
	default:
		parts = append(parts, "dials in "+until(n.Time, now))
	}
	if n.Tried != "" {
		parts = append(parts, "last attempt: "+n.Tried)
	}
	if n.LastError != "" {
		parts = append(parts, "last error: "+n.LastError)
	}
	return strings.Join(parts, ", ")
}

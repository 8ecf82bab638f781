package text

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"baton/bridge"
	"baton/bridge/operatorapi/contract"
	"baton/federation"
	"baton/federation/agents"
)

// Explanation writes why an event holds, its way, and what is next.
func Explanation(out io.Writer, e contract.Explanation, now time.Time) error {
	var d details
	d.say("event", fmt.Sprintf("%s  %s of %s", e.EventID, e.Verb, e.HandoffID))
	d.say("signer", string(e.From))
	d.sayIf("stands for", string(e.For))
	d.say("identity", string(e.Identity)+": "+identityLine(e.Identity))
	d.say("verdict", fmt.Sprintf("%s, %s: %s", e.Verdict, e.Provenance, e.Why))
	if e.Key.Public == "" {
		d.say("key", e.Key.KeyID+"  nobody says whose it is")
	} else {
		d.say("key", fmt.Sprintf("%s  %s  by %s", e.Key.KeyID, e.Key.Public, e.Key.Source))
	}
	d.say("document", e.Document)
	d.say("signature", e.Signature)
	if e.Evidence != nil {
		d.say("evidence", e.Evidence.URL+"  sha256 "+e.Evidence.SHA256)
	}
	for _, hop := range e.Hops {
		d.say(hop.What, strings.TrimSpace(fmt.Sprintf("%s  %s  %s  %s", hop.Time, hop.Via, hop.Who, hop.Why)))
	}
	if e.State != "" {
		d.say("handoff", fmt.Sprintf("%s by it, %s now", e.State, e.Standing))
	} else {
		d.say("handoff", cmp.Or(string(e.Standing), "not opened"))
	}
	for _, at := range e.Routes {
		d.say("mailbox", routeLine(at))
	}
	for _, next := range e.Next {
		d.say("next", nextLine(next, now))
	}
	if len(e.Next) == 0 {
		d.say("next", "nothing: no delivery waits, and no clock runs")
	}
	return d.print(out)
}

// routeLine says where a mailbox is, and the source of that.
func routeLine(r contract.Route) string {
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
func nextLine(n contract.Next, now time.Time) string {
	if n.What == contract.Judgement {
		return fmt.Sprintf("judge it again at %s, in %s, tried %d times, last error: %s", n.Time, Until(n.Time, now), n.Attempts, n.LastError)
	}
	if n.Via == "" {
		return fmt.Sprintf("%s by the home at %s, in %s, where the %s clock ends", n.What, n.Time, Until(n.Time, now), n.Clock)
	}
	if n.What == contract.Routing {
		line := "it waits for a route to the mailbox of " + n.Who
		if n.Via != federation.UnroutedLink {
			line += ": " + n.Via + " is no peer now"
		} else if n.Tried != "" {
			line += ": " + n.Tried
		}
		return line
	}
	line := fmt.Sprintf("deliver over %s to %s", n.Via, n.Who)
	switch n.Via {
	case agents.Link:
		return line + ", once the agent consents to hear from the sender"
	case federation.InboxLink:
		return "it is in the inbox of " + n.Who + ", and delivered once they read it there"
	}
	return line + ", " + strings.Join(attempts(n, now), ", ")
}

// attempts says how a delivery stands, and when it is tried.
func attempts(n contract.Next, now time.Time) []string {
	parts := []string{fmt.Sprintf("tried %d times", n.Attempts)}
	if n.LinkState != "" {
		parts = append(parts, "the link is "+n.LinkState)
	}
	switch {
	case n.Time.IsZero():
	case n.LinkState == string(bridge.LinkUp):
		parts = append(parts, "tried again in "+Until(n.Time, now))
	default:
		parts = append(parts, "dials in "+Until(n.Time, now))
	}
	if n.Tried != "" {
		parts = append(parts, "last attempt: "+n.Tried)
	}
	if n.LastError != "" {
		parts = append(parts, "last error: "+n.LastError)
	}
	return parts
}

// DID prints the document of a DID as this gateway sees it.
func DID(out io.Writer, e contract.ExplainedDID) error {
	var d details
	d.say("did", string(e.DID))
	d.sayIf("source", e.Source)
	d.sayIf("fetched", e.Fetched.String())
	d.sayIf("mailbox", e.Mailbox)
	d.sayIf("error", e.Error)
	for _, key := range e.Keys {
		d.say("key", fmt.Sprintf("%s  %s  %s", key.KeyID, key.Kind, key.Public))
	}
	for _, key := range e.Skipped {
		d.say("skipped", cmp.Or(key.ID, "a method without an id")+": "+key.Reason)
	}
	if len(e.Keys) == 0 && e.Error == "" {
		d.say("next", "the document has no usable key: no proof for this DID is valid")
	}
	return d.print(out)
}

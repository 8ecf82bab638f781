package render

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
)

// clock formats the time of a step, which has the date of its handoff.
const clock = "15:04:05.000Z"

// DeadLetter writes a dead letter.
func DeadLetter(out io.Writer, letter admin.DeadLetter) error {
	var d details
	d.add("id", strconv.FormatInt(letter.ID, 10))
	d.add("to", letter.Link+letter.Peer)
	if !letter.EventID.IsZero() {
		d.add("event", fmt.Sprintf("%s  %s of %s", letter.EventID, letter.Verb, letter.HandoffID))
	}
	d.addIf("message", letter.Message)
	d.add("queued", letter.Queued.String())
	d.add("died", letter.Died.String())
	d.add("reason", string(letter.Reason))
	d.add("last error", letter.LastError)
	d.addIf("replayed", letter.Replayed.String())
	if letter.DeadDetail == nil {
		return d.print(out)
	}
	d.add("verdict", letter.Verdict)
	d.addIf("broken", letter.Broken)
	d.add("raw", letter.Raw)
	d.addIf("signature", letter.Signature)
	for _, try := range letter.Attempts {
		d.add("attempt "+strconv.Itoa(try.Number), try.Time.String()+"  "+try.Error)
	}
	d.add("what to do", letter.Fix)
	return d.print(out)
}

// Link writes a link with its negotiated options.
func Link(out io.Writer, l admin.Link, now time.Time) error {
	var d details
	for _, c := range Links.Columns {
		d.add(strings.ToLower(c.Page), c.Value(l).terminal(now))
	}
	if !l.HeldSince.IsZero() {
		d.addIf("link error", l.LastError)
	}
	if l.LinkDetail == nil {
		return d.print(out)
	}
	d.add("channels", strings.Join(l.Channels, " "))
	for _, name := range slices.Sorted(maps.Keys(l.Negotiated)) {
		d.add("negotiated "+name, l.Negotiated[name])
	}
	d.add("steps a minute of one user", strconv.Itoa(l.Limits.UserEventsPerMinute))
	d.add("steps a second", strconv.Itoa(l.Limits.LinkEventsPerSecond))
	d.add("clock ahead by", strconv.FormatFloat(l.SkewSeconds, 'f', -1, 64)+"s")
	for _, what := range l.Obstacles {
		d.add("blocked", what)
	}
	for _, what := range l.NotCarried {
		d.add("not carried", what)
	}
	return d.print(out)
}

// Peer writes a home or a registry.
func Peer(out io.Writer, p admin.Peer, now time.Time) error {
	var d details
	d.add("name", p.Name)
	d.add("network", p.Network)
	d.add("mode", p.Mode+" by "+p.Origin)
	d.addIf("named by", p.Source)
	d.add("url", p.URL)
	if p.PeerHome == nil {
		d.add("dialect", p.Dialect)
	} else {
		d.add("path", p.Path)
		d.add("state", p.State)
		d.add("heard", Age(p.LastHeard, now))
		d.add("clock ahead by", strconv.FormatFloat(p.SkewSeconds, 'f', 3, 64)+"s")
	}
	d.add("waiting", strconv.Itoa(p.Waiting))
	d.add("oldest", Age(p.Oldest, now))
	d.add("dead letters", strconv.Itoa(p.Dead))
	d.add("held", cmp.Or(holdLine(p.Hold, p.Name), "false"))
	d.add("last error", p.LastError)
	if p.PeerHome != nil {
		for _, f := range p.Forks {
			d.add("two histories of", fmt.Sprintf("%s from step %d, found %s", f.Handoff, f.Version, f.Found))
		}
		for _, o := range p.Doubts {
			d.add("not believed", fmt.Sprintf("%s, noted %d times, last %s: %s", o.Kind, o.Times, o.Last, o.Why))
		}
	}
	return d.print(out)
}

// Webhook writes a webhook, then a table of its deliveries.
func Webhook(out io.Writer, h admin.Webhook) error {
	var d details
	d.add("id", h.ID)
	d.add("did", h.DID)
	d.addIf("agent", h.Agent)
	d.add("url", h.URL)
	d.add("since", h.Since.String())
	d.add("waiting", strconv.Itoa(h.Waiting))
	d.add("dead", strconv.Itoa(h.Dead))
	if !h.Disabled.IsZero() {
		d.add("disabled", h.Disabled.String()+"  "+h.Why)
	}
	if err := d.print(out); err != nil || h.WebhookDetail == nil || len(h.Deliveries) == 0 {
		return err
	}
	return webhookDeliveries.Print(out, true, time.Time{}, h.Deliveries...)
}

// Handoff writes a handoff: its fields, and a line for each step.
func Handoff(out io.Writer, h admin.Handoff) error {
	columns := newColumns(out)
	fmt.Fprintf(columns, "%s  %s  %s   home %s   channel %s\n", h.ID, h.Kind, HandoffState(h).Text, h.Home, Cell(Venue(h.Venue)))
	fmt.Fprintf(columns, "  offer   %s", Cell(h.ShownTitle()))
	if !h.Deadline.IsZero() {
		fmt.Fprintf(columns, "   deadline %s", h.Deadline)
	}
	if len(h.Caps) > 0 {
		fmt.Fprintf(columns, "   caps %s", Cell(strings.Join(h.Caps, ",")))
	}
	fmt.Fprintln(columns)
	if h.OrphanReason != "" {
		fmt.Fprintf(columns, "  orphaned   %s\n", Cell(h.OrphanReason))
	}
	for _, s := range h.Steps {
		signer := s.From
		if s.For != "" {
			signer = s.For
		}
		parts := make([]string, len(s.Delivered))
		for i, d := range s.Delivered {
			parts[i] = fmt.Sprintf("%s %s %s", d.State, d.Via, d.To)
			if d.Via == federation.UnroutedLink {
				parts[i] = fmt.Sprintf("%s for a route to %s", d.State, d.To)
			}
			if line := holdLine(d.Hold, d.Via); line != "" {
				parts[i] += ": " + line
			}
			if !d.Time.IsZero() {
				parts[i] += " " + time.Time(d.Time).UTC().Format(clock)
			}
		}
		line := fmt.Sprintf("  %s\t%s\t%s (%s: %s)\t%s\t%s\t%s", time.Time(s.Time).UTC().Format(clock), s.Verb,
			signer.Short(), s.Link, s.Name, s.Provenance, s.Verdict, Cell(strings.Join(parts, ", ")))
		fmt.Fprintln(columns, Printable(line))
	}
	for _, m := range h.Messages {
		line := fmt.Sprintf("  %s\tmessage\t%s (%s: %s)\t%s", time.Time(m.Time).UTC().Format(clock), m.From.Short(), m.Link, m.Name, Cell(m.Text))
		fmt.Fprintln(columns, Printable(line))
	}
	return columns.Flush()
}

// WriteKey writes the names of a key in other programs, one per line. A secret has only a
// fingerprint.
func WriteKey(out io.Writer, key admin.Key) error {
	lines := []string{key.PublicKey, key.KeyID}
	switch {
	case key.DID != "":
		lines = []string{string(key.DID), string(key.DIDKey)}
	case key.EndpointID != "":
		lines = []string{key.EndpointID}
	case key.PublicKey == "":
		lines = []string{key.KeyID}
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// Explanation writes an event's verdict, its route and the next action.
func Explanation(out io.Writer, e admin.Explanation, now time.Time) error {
	var d details
	d.add("event", fmt.Sprintf("%s  %s of %s", e.EventID, e.Verb, e.HandoffID))
	d.add("signer", string(e.From))
	d.addIf("stands for", string(e.For))
	d.add("identity", string(e.Identity)+": "+identityLine(e.Identity))
	d.add("verdict", fmt.Sprintf("%s, %s: %s", e.Verdict, e.Provenance, e.Why))
	if e.Key.Public == "" {
		d.add("key", e.Key.KeyID+"  its owner is unknown")
	} else {
		d.add("key", fmt.Sprintf("%s  %s  by %s", e.Key.KeyID, e.Key.Public, e.Key.Source))
	}
	d.add("document", e.Document)
	d.add("signature", e.Signature)
	if e.Evidence != nil {
		d.add("evidence", e.Evidence.URL+"  sha256 "+e.Evidence.SHA256)
	}
	for _, hop := range e.Hops {
		d.add(hop.What, strings.TrimSpace(fmt.Sprintf("%s  %s  %s  %s", hop.Time, hop.Via, hop.Who, hop.Why)))
	}
	if e.State != "" {
		d.add("handoff", fmt.Sprintf("%s by it, %s now", e.State, e.Standing))
	} else {
		d.add("handoff", cmp.Or(string(e.Standing), "not opened"))
	}
	for _, at := range e.Routes {
		d.add("mailbox", routeLine(at))
	}
	for _, next := range e.Next {
		d.add("next", nextLine(next, now))
	}
	if len(e.Next) == 0 {
		d.add("next", "nothing: no delivery is pending, and no deadline is set")
	}
	return d.print(out)
}

func routeLine(r admin.Route) string {
	if r.Home == "" {
		return string(r.DID) + "  nowhere yet: no home is known to have it"
	}
	line := fmt.Sprintf("%s  at %s, by %s", r.DID, r.Home, r.Source)
	if !r.Since.IsZero() {
		line += "  since " + r.Since.String()
	}
	return line
}

func identityLine(claim bridge.IdentityClaim) string {
	switch claim {
	case bridge.Anchored:
		return "a DID with a document, which names its keys and may change them"
	case bridge.SelfIssued:
		return "the DID is a key; the holder of the private key is its owner"
	case bridge.Relayed:
		return "another server vouches for the identity"
	case bridge.Guest, bridge.LookingUp, bridge.Unknown:
	}
	return "no server vouches for the identity"
}

func nextLine(n admin.Next, now time.Time) string {
	if n.What == admin.Judgement {
		return fmt.Sprintf("judge it again at %s, in %s, tried %d times, last error: %s", n.Time, Until(n.Time, now), n.Attempts, n.LastError)
	}
	if n.Via == "" {
		return fmt.Sprintf("%s by the home at %s, in %s, where the %s clock ends", n.What, n.Time, Until(n.Time, now), n.Clock)
	}
	if n.What == admin.Routing {
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
		return line + ", once the agent consents to messages from the sender"
	case federation.InboxLink:
		return "it is in the inbox of " + n.Who + ", and delivered once they read it there"
	}
	return line + ", " + strings.Join(attempts(n, now), ", ")
}

func attempts(n admin.Next, now time.Time) []string {
	parts := []string{fmt.Sprintf("tried %d times", n.Attempts)}
	if line := holdLine(n.Hold, n.Via); line != "" {
		return append(parts, line)
	}
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

// DID prints this gateway's view of the document of a DID.
func DID(out io.Writer, e admin.ExplainedDID) error {
	var d details
	d.add("did", string(e.DID))
	d.addIf("source", e.Source)
	d.addIf("fetched", e.Fetched.String())
	d.addIf("mailbox", e.Mailbox)
	d.addIf("error", e.Error)
	if !e.RefusedAt.IsZero() {
		d.add("login refused", e.RefusedAt.String()+"  "+e.RefusedWhy)
	}
	for _, key := range e.Keys {
		d.add("key", fmt.Sprintf("%s  %s  %s", key.KeyID, key.Kind, key.Public))
	}
	for _, key := range e.Skipped {
		d.add("skipped", cmp.Or(key.ID, "a method without an id")+": "+key.Reason)
	}
	if len(e.Keys) == 0 && e.Error == "" {
		d.add("next", "the document has no usable key: no proof for this DID is valid")
	}
	return d.print(out)
}

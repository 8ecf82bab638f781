package render

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/federation"
)

var (
	Links = Table[admin.Link]{
		Caption: "Links", Command: "link list", Empty: "The configuration has no link.",
		Key:  func(l admin.Link) string { return l.Name },
		Wide: []string{"Network", "Heard", "Oldest", "Next dial"},
		Columns: []Column[admin.Link]{
			{"Name", "NAME", func(l admin.Link) Value { return Linked(l.Name, "links", l.Name) }},
			{"Network", "NETWORK", func(l admin.Link) Value { return Text(l.Network) }},
			{"State", "STATE", func(l admin.Link) Value { return marked(State(l.State), l.Hold != admin.Hold{}, "held") }},
			{"Heard", "HEARD", func(l admin.Link) Value { return since(l.LastHeard) }},
			{"Waiting", "WAITING", func(l admin.Link) Value { return rowsOf(l.Waiting, url.Values{"link": {l.Name}}) }},
			{"Oldest", "OLDEST", func(l admin.Link) Value { return since(l.Oldest) }},
			{"Next dial", "NEXT", func(l admin.Link) Value { return until(l.NextDial) }},
			{"Last error", "LAST ERROR", func(l admin.Link) Value { return Long(cmp.Or(holdLine(l.Hold, l.Name), l.LastError)) }},
		},
	}
	Agents = Table[admin.Link]{
		Caption: "External agents", Command: "a2a list", Empty: "The configuration has no external agent.",
		Key: func(l admin.Link) string { return l.Name },
		Columns: []Column[admin.Link]{
			{"Name", "NAME", func(l admin.Link) Value { return Linked(l.Name, "links", l.Name) }},
			{"Agent", "AGENT", func(l admin.Link) Value { return Text(strings.TrimSpace(l.Agent.Name + " " + l.Agent.Version)) }},
			{"State", "STATE", func(l admin.Link) Value { return State(l.State) }},
			{"Protocol", "PROTOCOL", func(l admin.Link) Value { return Text(l.Agent.Protocol) }},
			{"Updates", "UPDATES", func(l admin.Link) Value { return Text(l.Agent.Updates) }},
			{"Tasks", "TASKS", func(l admin.Link) Value { return Number(l.Agent.Tasks) }},
			{"Waiting", "WAITING", func(l admin.Link) Value { return Number(l.Waiting) }},
			{"Claims", "CLAIMS", func(l admin.Link) Value { return Text(l.Agent.Claims) }},
			{"Trouble", "TROUBLE", func(l admin.Link) Value { return Long(agentTrouble(l)) }},
		},
	}
	Shapes = Table[admin.Shape]{
		Caption: "By destination", Command: "feed shape", Empty: "Nothing waits.",
		Key:  func(s admin.Shape) string { return s.Link + s.Peer },
		Wide: []string{"<1m", "<5m", "<1h", "<24h", "Older"},
		Columns: []Column[admin.Shape]{
			{"To", "TO", func(s admin.Shape) Value { return Text(s.Link + s.Peer) }},
			{"Rows", "ROWS", func(s admin.Shape) Value {
				if s.Link == "" {
					return rowsOf(s.Rows, url.Values{"peer": {s.Peer}})
				}
				return rowsOf(s.Rows, url.Values{"link": {s.Link}})
			}},
			{"<1m", "<1m", aged(0)},
			{"<5m", "<5m", aged(1)},
			{"<1h", "<1h", aged(2)},
			{"<24h", "<24h", aged(3)},
			{"Older", "OLDER", aged(4)},
			{"Oldest", "OLDEST", func(s admin.Shape) Value { return since(s.Oldest) }},
			{"Held", "HELD", func(s admin.Shape) Value {
				if !s.Held {
					return Value{Text: "no", Terminal: none}
				}
				return Value{Text: strings.TrimSpace("held: " + s.Reason), Terminal: "held " + s.Reason, Class: long, At: s.Since}
			}},
		},
	}
	Deliveries = Table[admin.Waiting]{
		Caption: "Waiting", Command: "feed list", Empty: "Nothing waits.",
		Key:  func(w admin.Waiting) string { return w.ID + w.Link + w.Peer },
		Wide: []string{"Verb", "Queued", "Attempt", "Next"},
		Columns: []Column[admin.Waiting]{
			{"ID", "ID", func(w admin.Waiting) Value {
				v := Text(w.ID)
				v.Link = HandoffID(w.HandoffID).Link
				return v
			}},
			{"Verb", "VERB", func(w admin.Waiting) Value { return Text(w.Verb) }},
			{"To", "TO", func(w admin.Waiting) Value { return Text(w.Link + w.Peer) }},
			{"Queued", "AGE", func(w admin.Waiting) Value { return since(w.Queued) }},
			{"Attempt", "ATTEMPT", func(w admin.Waiting) Value { return Number(w.Attempt) }},
			{"Next", "NEXT", func(w admin.Waiting) Value {
				switch {
				case w.Held:
					return Text("held")
				case w.Behind:
					return Value{Text: "after another of its handoff", Terminal: "behind"}
				case w.Next.IsZero():
					return Value{Text: "now", Terminal: none}
				}
				return until(w.Next)
			}},
			{"Last error", "LAST ERROR", func(w admin.Waiting) Value { return Long(w.LastError) }},
		},
	}
	Handoffs = Table[admin.Handoff]{
		Caption: "Handoffs", Command: "handoff list", Empty: "There is no such handoff.",
		Key:  func(h admin.Handoff) string { return h.ID.String() },
		Wide: []string{"Kind", "Channel", "Offerer", "With", "Moved"},
		Columns: []Column[admin.Handoff]{
			{"ID", "ID", func(h admin.Handoff) Value { return HandoffID(h.ID) }},
			{"Kind", "KIND", func(h admin.Handoff) Value { return Text(h.Kind) }},
			{"State", "STATE", HandoffState},
			{"Channel", "CHANNEL", func(h admin.Handoff) Value { return Text(Venue(h.Venue)) }},
			{"Offerer", "OFFERER", func(h admin.Handoff) Value { return Text(h.Offerer.Short()) }},
			{"With", "WITH", func(h admin.Handoff) Value { return Text(cmp.Or(h.Assignee, h.Offeree).Short()) }},
			{"Moved", "MOVED", func(h admin.Handoff) Value { return Time(h.Moved) }},
			{"Title", "TITLE", func(h admin.Handoff) Value { return Long(h.ShownTitle()) }},
		},
	}
	DeadLetters = Table[admin.DeadLetter]{
		Caption: "Dead letters", Command: "dead list", Empty: "There is no dead letter.",
		Key:  func(d admin.DeadLetter) string { return strconv.FormatInt(d.ID, 10) },
		Wide: []string{"Died", "Verb", "Handoff", "Attempts", "Replayed"},
		Columns: []Column[admin.DeadLetter]{
			{"Number", "ID", func(d admin.DeadLetter) Value {
				id := strconv.FormatInt(d.ID, 10)
				return Linked(id, "dead", id)
			}},
			{"Died", "DIED", func(d admin.DeadLetter) Value { return Time(d.Died) }},
			{"To", "TO", func(d admin.DeadLetter) Value { return Text(d.Link + d.Peer) }},
			{"Verb", "VERB", func(d admin.DeadLetter) Value { return Text(d.Verb) }},
			{"Handoff", "HANDOFF", func(d admin.DeadLetter) Value {
				v := HandoffID(d.HandoffID)
				v.Terminal = d.HandoffID.Short()
				return v
			}},
			{"Attempts", "ATTEMPTS", func(d admin.DeadLetter) Value { return Number(d.Attempt) }},
			{"Reason", "REASON", func(d admin.DeadLetter) Value { return State(d.Reason) }},
			{"Replayed", "", func(d admin.DeadLetter) Value { return Time(d.Replayed) }},
			{"Last error", "LAST ERROR", func(d admin.DeadLetter) Value { return Long(d.LastError) }},
		},
	}
	Attempts = Table[admin.Attempt]{
		Caption: "Attempts", Command: "dead show", Empty: "No attempt is recorded.",
		Key: func(t admin.Attempt) string { return strconv.Itoa(t.Number) },
		Columns: []Column[admin.Attempt]{
			{"Attempt", "", func(t admin.Attempt) Value { return Number(t.Number) }},
			{"Time", "", func(t admin.Attempt) Value { return Time(t.Time) }},
			{"Error", "", func(t admin.Attempt) Value { return Long(t.Error) }},
		},
	}
	Peers = Table[admin.Peer]{
		Caption: "Peers", Command: "peer list", Empty: "No other home or registry is known.",
		Key:  func(p admin.Peer) string { return p.Name + " " + p.Network },
		Wide: []string{"Network", "Path", "Heard", "Oldest", "Dead", "Forks", "Doubts", "Clock ahead by"},
		Columns: []Column[admin.Peer]{
			{"Name", "NAME", func(p admin.Peer) Value { return Text(p.Name) }},
			{"Network", "NETWORK", func(p admin.Peer) Value { return Text(p.Network) }},
			{"Mode", "MODE", func(p admin.Peer) Value { return marked(State(p.Mode), p.Held, "held") }},
			{"State", "STATE", ofHome(func(h admin.PeerHome) Value { return State(h.State) })},
			{"Path", "", ofHome(func(h admin.PeerHome) Value { return Text(h.Path) })},
			{"Heard", "HEARD", ofHome(func(h admin.PeerHome) Value { return since(h.LastHeard) })},
			{"Waiting", "WAITING", func(p admin.Peer) Value { return rowsOf(p.Waiting, url.Values{"peer": {p.Name}}) }},
			{"Oldest", "OLDEST", func(p admin.Peer) Value { return since(p.Oldest) }},
			{"Dead", "DEAD", func(p admin.Peer) Value {
				v := Number(p.Dead)
				if p.Dead > 0 {
					v.Link = "dead?" + url.Values{"peer": {p.Name}}.Encode()
				}
				return v
			}},
			{"Forks", "FORKS", ofHome(func(h admin.PeerHome) Value { return Number(len(h.Forks)) })},
			{"Doubts", "DOUBTS", ofHome(func(h admin.PeerHome) Value { return Number(len(h.Doubts)) })},
			{"Clock ahead by", "CLOCK", ofHome(skew)},
			{"Last error", "LAST ERROR", func(p admin.Peer) Value { return Long(p.LastError) }},
		},
	}
	Forks = Table[PeerFork]{
		Caption: "Forks", Command: "peer list --json",
		Key: func(f PeerFork) string { return f.Peer + f.Handoff.String() },
		Columns: []Column[PeerFork]{
			{"Peer", "", func(f PeerFork) Value { return Text(f.Peer) }},
			{"Handoff", "", func(f PeerFork) Value { return HandoffID(f.Handoff) }},
			{"From step", "", func(f PeerFork) Value { return Number(f.Version) }},
			{"Found", "", func(f PeerFork) Value { return Time(f.Found) }},
		},
	}
	Doubts = Table[PeerDoubt]{
		Caption: "Doubts", Command: "peer list --json",
		Key: func(d PeerDoubt) string { return d.Peer + string(d.Kind) },
		Columns: []Column[PeerDoubt]{
			{"Peer", "", func(d PeerDoubt) Value { return Text(d.Peer) }},
			{"Kind", "", func(d PeerDoubt) Value { return Text(d.Kind) }},
			{"Times", "", func(d PeerDoubt) Value { return Number(d.Times) }},
			{"First", "", func(d PeerDoubt) Value { return Time(d.First) }},
			{"Last", "", func(d PeerDoubt) Value { return Time(d.Last) }},
			{"Why", "", func(d PeerDoubt) Value { return Long(d.Why) }},
		},
	}
	HeldRelays = Table[admin.Held]{
		Caption: "Held relays", Command: "airc held", Empty: "No message waits for consent.",
		Key: func(h admin.Held) string { return strconv.FormatInt(h.ID, 10) },
		Columns: []Column[admin.Held]{
			{"Number", "ID", func(h admin.Held) Value { return Text(strconv.FormatInt(h.ID, 10)) }},
			{"Received", "RECEIVED", func(h admin.Held) Value { return Time(h.Received) }},
			{"From", "FROM", func(h admin.Held) Value { return Text(h.From) }},
			{"To", "TO", func(h admin.Held) Value { return Text(h.To) }},
			{"Text", "TEXT", func(h admin.Held) Value { return Long(h.Text) }},
		},
	}
	Keys = Table[admin.Key]{
		Caption: "Keys", Command: "keys list", Empty: "There are no keys.",
		Key:  func(k admin.Key) string { return k.Name + k.KeyID },
		Wide: []string{"Key ID", "Until"},
		Columns: []Column[admin.Key]{
			{"Name", "NAME", func(k admin.Key) Value { return Words(k.Name) }},
			{"Identity", "ID", func(k admin.Key) Value {
				if k.DID != "" {
					return Value{Text: string(k.DID + " " + k.DIDKey), Terminal: string(k.DID), Class: long}
				}
				return Long(cmp.Or(k.EndpointID, k.PublicKey))
			}},
			{"Key ID", "KEY", func(k admin.Key) Value { return Text(k.KeyID) }},
			{"Since", "SINCE", func(k admin.Key) Value { return written(k.Since) }},
			{"State", "STATE", func(k admin.Key) Value { return State(k.State) }},
			{"Until", "", func(k admin.Key) Value { return written(k.Until) }},
		},
	}
	Rules = Table[Rule]{
		Caption: "Rules", Command: "policy show",
		Key: func(r Rule) string { return strconv.Itoa(r.Number) },
		Columns: []Column[Rule]{
			{"#", "", func(r Rule) Value { return Number(r.Number) }},
			{"Verbs", "VERBS", func(r Rule) Value { return anyOf(r.Verbs) }},
			{"Peers", "PEERS", func(r Rule) Value { return anyOf(r.Peers) }},
			{"Senders", "SENDERS", func(r Rule) Value { return anyOf(r.Senders) }},
			{"Recipients", "RECIPIENTS", func(r Rule) Value { return anyOf(r.Recipients) }},
			{"Require", "REQUIRE", func(r Rule) Value { return State(r.Require) }},
			{"From", "FROM", func(r Rule) Value { return Long(place(r.File, r.Line)) }},
		},
	}
	Limits = Table[admin.PolicyLimit]{
		Caption: "Limits", Command: "policy show",
		Key: func(l admin.PolicyLimit) string { return l.Key },
		Columns: []Column[admin.PolicyLimit]{
			{"Key", "LIMIT", func(l admin.PolicyLimit) Value { return Text(l.Key) }},
			{"Value", "VALUE", limitValue},
			{"From", "FROM", func(l admin.PolicyLimit) Value { return Long(place(l.File, l.Line)) }},
		},
	}
	Changes = Table[admin.Change]{
		Caption: "Changes", Command: "audit list", Empty: "No operator has changed anything.",
		Key:  func(c admin.Change) string { return c.Time.String() + c.What + c.Subject },
		Wide: []string{"Actor"},
		Columns: []Column[admin.Change]{
			{"Time", "TIME", func(c admin.Change) Value { return Time(c.Time) }},
			{"Actor", "ACTOR", func(c admin.Change) Value { return Text(c.Actor) }},
			{"Action", "WHAT", func(c admin.Change) Value { return Words(c.What) }},
			{"Subject", "SUBJECT", func(c admin.Change) Value { return Long(c.Subject) }},
			{"Reason", "REASON", func(c admin.Change) Value { return Long(c.Reason) }},
		},
	}
	Webhooks = Table[admin.Webhook]{
		Caption: "Webhooks", Command: "webhook list", Empty: "No agent has a webhook.",
		Key:  func(h admin.Webhook) string { return h.ID },
		Wide: []string{"ID", "Agent", "Oldest"},
		Columns: []Column[admin.Webhook]{
			{"ID", "ID", func(h admin.Webhook) Value { return Text(h.ID) }},
			{"DID", "DID", func(h admin.Webhook) Value { return Text(h.DID) }},
			{"Agent", "AGENT", func(h admin.Webhook) Value { return Text(h.Agent) }},
			{"Waiting", "WAITING", func(h admin.Webhook) Value { return Number(h.Waiting) }},
			{"Oldest", "OLDEST", func(h admin.Webhook) Value { return Time(h.Oldest) }},
			{"Dead", "DEAD", func(h admin.Webhook) Value { return Number(h.Dead) }},
			{"Disabled", "DISABLED", func(h admin.Webhook) Value { return Time(h.Disabled) }},
			{"URL", "URL", func(h admin.Webhook) Value { return Long(h.URL) }},
		},
	}
	Bindings = Table[admin.Binding]{
		Caption: "Bindings", Command: "bind list", Empty: "No name is bound to a DID.",
		Key:  func(b admin.Binding) string { return b.Network + " " + b.Name },
		Wide: []string{"Origin", "Since"},
		Columns: []Column[admin.Binding]{
			{"Network", "NETWORK", func(b admin.Binding) Value { return Text(b.Network) }},
			{"Name", "NAME", func(b admin.Binding) Value { return Text(b.Name) }},
			{"DID", "DID", func(b admin.Binding) Value { return Text(b.DID) }},
			{"Vouch", "VOUCH", func(b admin.Binding) Value {
				if b.Vouch {
					return Text("yes")
				}
				return Text("no")
			}},
			{"Origin", "ORIGIN", func(b admin.Binding) Value { return Text(b.Origin) }},
			{"Since", "SINCE", func(b admin.Binding) Value { return Time(b.Since) }},
		},
	}
	Blocks = Table[admin.Block]{
		Caption: "Blocks", Command: "block list", Empty: "Nothing is blocked.",
		Key:  func(b admin.Block) string { return b.What },
		Wide: []string{"Kind", "Since"},
		Columns: []Column[admin.Block]{
			{"What", "WHAT", func(b admin.Block) Value { return Text(b.What) }},
			{"Kind", "KIND", func(b admin.Block) Value { return Text(b.Kind) }},
			{"Since", "SINCE", func(b admin.Block) Value { return Time(b.Since) }},
			{"Until", "UNTIL", func(b admin.Block) Value { return Time(b.Expires) }},
			{"Reason", "REASON", func(b admin.Block) Value { return Long(b.Reason) }},
		},
	}
	Senders = Table[admin.Sender]{
		Caption: "Top", Command: "top", Empty: "No step was sent within ten minutes.",
		Key:  func(s admin.Sender) string { return s.Name },
		Wide: []string{"Limited", "Bytes"},
		Columns: []Column[admin.Sender]{
			{"Sender", "SENDER", func(s admin.Sender) Value { return Text(s.Name) }},
			{"Steps", "STEPS", func(s admin.Sender) Value { return Number(s.Steps) }},
			{"Refused", "REFUSED", func(s admin.Sender) Value { return Number(s.Refused) }},
			{"Limited", "LIMITED", func(s admin.Sender) Value { return Number(s.Limited) }},
			{"Blocked", "BLOCKED", func(s admin.Sender) Value { return Number(s.Blocked) }},
			{"Bytes", "BYTES", func(s admin.Sender) Value { return Bytes(s.Bytes) }},
		},
	}
	Warnings = Table[admin.Diagnosis]{
		Caption: "Warnings", Command: "doctor", Empty: "The last checks found nothing.",
		Key: func(d admin.Diagnosis) string { return d.Check },
		Columns: []Column[admin.Diagnosis]{
			{"Check", "", func(d admin.Diagnosis) Value { return Text(d.Check) }},
			{"State", "", func(d admin.Diagnosis) Value { return State(d.State) }},
			{"Cause", "", func(d admin.Diagnosis) Value { return Long(d.Detail) }},
			{"Remedy", "", func(d admin.Diagnosis) Value { return Long(d.Remedy) }},
		},
	}
	Hours = Table[Hour]{
		Caption: "Last day by hour", Command: "status", Empty: "There is no sample yet.",
		Key:  func(h Hour) string { return h.Start.Format(time.RFC3339) },
		Wide: []string{"Most dead letters", "Least disk free"},
		Columns: []Column[Hour]{
			{"Hour", "HOUR", func(h Hour) Value { return Text(h.Start.Format("01-02 15:04")) }},
			{"Steps filed", "STEPS", func(h Hour) Value { return Number(h.Steps) }},
			{"Most waiting", "WAITING", func(h Hour) Value { return Number(h.Waiting) }},
			{"Most dead letters", "DEAD", func(h Hour) Value { return Number(h.Dead) }},
			{"Most links down", "DOWN", func(h Hour) Value { return Number(h.Down) }},
			{"Least disk free", "DISK", func(h Hour) Value { return Value{Text: strconv.Itoa(h.Disk) + " %", Class: number} }},
		},
	}
	Sessions = Table[admin.Session]{
		Caption: "Sessions", Command: "session list", Empty: "No participant is logged in.",
		Key:  func(s admin.Session) string { return s.ID },
		Wide: []string{"ID", "Began", "Address", "Expires"},
		Columns: []Column[admin.Session]{
			{"ID", "ID", func(s admin.Session) Value { return Text(s.ID) }},
			{"Participant", "PARTICIPANT", func(s admin.Session) Value { return Long(s.Participant) }},
			{"Began", "BEGAN", func(s admin.Session) Value { return Text(s.Began) }},
			{"Client", "CLIENT", func(s admin.Session) Value { return Long(s.Client) }},
			{"Address", "ADDRESS", func(s admin.Session) Value { return Text(s.Address) }},
			{"", "CREATED", func(s admin.Session) Value { return Time(s.Created) }},
			{"Used", "USED", func(s admin.Session) Value { return since(s.Used) }},
			{"Expires", "EXPIRES", func(s admin.Session) Value { return until(s.Expires) }},
		},
	}
)

// Lists that are shown only on a terminal.
var (
	Arrivals = Table[admin.Arrived]{Columns: []Column[admin.Arrived]{
		{"Filed", "FILED", func(a admin.Arrived) Value { return Time(a.Filed) }},
		{"Handoff", "HANDOFF", func(a admin.Arrived) Value { return HandoffID(a.HandoffID) }},
		{"Verb", "VERB", func(a admin.Arrived) Value { return Text(a.Verb) }},
		{"From", "FROM", func(a admin.Arrived) Value { return Text(a.From.Short()) }},
		{"Name", "NAME", func(a admin.Arrived) Value { return Text(a.Name) }},
		{"State", "STATE", func(a admin.Arrived) Value { return State(a.State) }},
		{"Cursor", "CURSOR", func(a admin.Arrived) Value { return Text(a.Cursor) }},
	}}
	webhookDeliveries = Table[admin.WebhookDelivery]{Columns: []Column[admin.WebhookDelivery]{
		{"Queued", "QUEUED", func(d admin.WebhookDelivery) Value { return Time(d.Queued) }},
		{"Of", "OF", func(d admin.WebhookDelivery) Value { return Text(d.Of) }},
		{"Verb", "VERB", func(d admin.WebhookDelivery) Value { return Text(d.Verb) }},
		{"State", "STATE", func(d admin.WebhookDelivery) Value { return State(d.State) }},
		{"Attempts", "ATTEMPTS", func(d admin.WebhookDelivery) Value { return Number(d.Attempt) }},
		{"Next or ended", "NEXT OR ENDED", func(d admin.WebhookDelivery) Value { return Time(cmp.Or(d.Ended, d.Next)) }},
		{"Last error", "LAST ERROR", func(d admin.WebhookDelivery) Value { return Long(d.LastError) }},
	}}
	Tokens = Table[admin.Token]{Columns: []Column[admin.Token]{
		{"Name", "NAME", func(t admin.Token) Value { return Text(t.Name) }},
		{"Scope", "SCOPE", func(t admin.Token) Value { return Text(t.Scope) }},
		{"Created", "CREATED", func(t admin.Token) Value { return Time(t.Created) }},
		{"Expires", "EXPIRES", func(t admin.Token) Value { return Time(t.Expires) }},
		{"Left", "LEFT", func(t admin.Token) Value { return Value{At: t.Expires, print: left} }},
	}}
)

// PeerFork is a fork with the name of its home.
type PeerFork struct {
	Peer string
	admin.Fork
}

// PeerDoubt is a doubt with the name of its home.
type PeerDoubt struct {
	Peer string
	admin.Doubt
}

// Rule is a rule with its number in the order of evaluation.
type Rule struct {
	Number int
	admin.PolicyRule
}

// NumberRules returns the rules of a policy with their numbers.
func NumberRules(policy admin.Policy) []Rule {
	var rules []Rule
	for i, each := range policy.Rules {
		rules = append(rules, Rule{i + 1, each})
	}
	return rules
}

func aged(i int) func(s admin.Shape) Value {
	return func(s admin.Shape) Value {
		if i >= len(s.Ages) {
			return Value{}
		}
		v := Number(s.Ages[i])
		if s.Ages[i] > 0 {
			v.Class += " heat" + strconv.Itoa(i)
		}
		return v
	}
}

// HandoffState returns the state of a handoff, marked if its home is unreachable.
func HandoffState(h admin.Handoff) Value { return marked(State(h.State), h.Orphaned, "orphaned") }

func marked(v Value, condition bool, mark string) Value {
	if condition {
		v.Text += " (" + mark + ")"
	}
	return v
}

func rowsOf(n int, filter url.Values) Value {
	v := Number(n)
	if n > 0 {
		v.Link = "feeds?" + filter.Encode()
	}
	return v
}

func holdLine(h admin.Hold, name string) string {
	switch {
	case h.HeldSince.IsZero() && h.PeerMode != "":
		return "held by the mode of " + name + "; baton peer mode " + shellWord(name) + " allow --reason TEXT"
	case h.HeldSince.IsZero():
		return ""
	}
	return strings.TrimSpace("held by an operator since "+h.HeldSince.String()+": "+h.HoldReason) + "; baton feed release " + shellWord(name) + " --reason TEXT"
}

// Venue returns the name of a venue.
func Venue(venue string) string {
	if federation.Private(venue) {
		return "private"
	}
	return venue
}

// ofHome returns a column value that is empty for registries.
func ofHome(value func(h admin.PeerHome) Value) func(p admin.Peer) Value {
	return func(p admin.Peer) Value {
		if p.PeerHome == nil {
			return Value{}
		}
		return value(*p.PeerHome)
	}
}

// skew returns how far our clock is ahead of the clock of a home. A terminal prints "ok" for up to
// 30 seconds, as the log does.
func skew(h admin.PeerHome) Value {
	v := Value{Text: fmt.Sprintf("%.1f s", h.SkewSeconds), Terminal: "ok", Class: number}
	ahead := time.Duration(h.SkewSeconds * float64(time.Second)).Round(time.Second)
	switch {
	case ahead > 30*time.Second:
		v.Terminal = ahead.String() + " behind"
	case ahead < -30*time.Second:
		v.Terminal = (-ahead).String() + " ahead"
	}
	return v
}

// written formats a text in RFC 3339, and returns any other text unchanged.
func written(text string) Value {
	var m admin.Moment
	if err := m.UnmarshalJSON([]byte(strconv.Quote(text))); err != nil {
		return Text(text)
	}
	return Value{Terminal: text, At: m, Class: at}
}

func left(end admin.Moment, now time.Time) string {
	if !time.Time(end).After(now) {
		return "over"
	}
	return Until(end, now)
}

func anyOf(items []string) Value {
	if len(items) == 0 {
		return Text("any")
	}
	return Value{Text: strings.Join(items, ", "), Terminal: strings.Join(items, ","), Class: long}
}

// The limit 0 is shown as none.
func limitValue(l admin.PolicyLimit) Value {
	if n, err := strconv.ParseInt(l.Value, 10, 64); err == nil && n > 0 && strings.Contains(l.Key, "bytes") {
		return Bytes(n)
	}
	text := l.Value
	if short, whole := strings.CutSuffix(text, "m0s"); whole {
		text = short + "m"
	}
	if short, whole := strings.CutSuffix(text, "h0m"); whole {
		text = short + "h"
	}
	return Value{Text: text, Terminal: l.Value, Class: number}
}

func place(file string, line int) string {
	if line == 0 {
		return "default"
	}
	return file + ":" + strconv.Itoa(line)
}

// The reason is that its link is down, or that a task needs an operator.
func agentTrouble(l admin.Link) string {
	if l.State != string(bridge.LinkUp) {
		return cmp.Or(l.LastError, l.Agent.Obstacle)
	}
	return l.Agent.Obstacle
}

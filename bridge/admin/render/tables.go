package render

import (
	"strconv"
	"time"

	"baton/bridge/admin/contract"
)

// A table with ages takes the clock: the rows of a watched list come later than its header.

// Handoffs returns the table of handoffs.
func Handoffs() Table[contract.Handoff] {
	return Table[contract.Handoff]{
		Header: "ID | KIND | STATE | CHANNEL | OFFERER | WITH | MOVED | TITLE",
		Row: func(h contract.Handoff) []string {
			with := h.Assignee
			if with == "" {
				with = h.Offeree
			}
			return []string{
				h.ID.String(), string(h.Kind), state(h), venue(h.Venue), h.Offerer.Short(), with.Short(), h.Moved.String(), h.ShownTitle(),
			}
		},
	}
}

// Arrivals returns the table of what reached a DID.
func Arrivals() Table[contract.Arrived] {
	return Table[contract.Arrived]{
		Header: "FILED | HANDOFF | VERB | FROM | NAME | STATE | CURSOR",
		Row: func(a contract.Arrived) []string {
			return []string{
				a.Filed.String(), a.HandoffID.String(), string(a.Verb), a.From.Short(), a.Name, string(a.State), string(a.Cursor),
			}
		},
	}
}

// Links returns the table of links.
func Links(now func() time.Time) Table[contract.Link] {
	return Table[contract.Link]{
		Header: "NAME | NETWORK | STATE | HEARD | WAITING | OLDEST | NEXT | LAST ERROR",
		Row: func(l contract.Link) []string {
			now := now()
			return []string{
				l.Name, l.Network, l.State, Age(l.LastHeard, now), strconv.Itoa(l.Waiting), Age(l.Oldest, now), Until(l.NextDial, now), l.LastError,
			}
		},
	}
}

// Peers returns the table of homes and registries.
func Peers(now func() time.Time) Table[contract.Peer] {
	return Table[contract.Peer]{
		Header: "NAME | NETWORK | MODE | STATE | HEARD | WAITING | OLDEST | DEAD | FORKS | DOUBTS | CLOCK | LAST ERROR",
		Row: func(p contract.Peer) []string {
			now, mode, state, heard, forks, doubts, clock := now(), p.Mode, "", "", "", "", ""
			if p.Held {
				mode += " (held)"
			}
			if p.PeerHome != nil {
				state, heard, forks, doubts = p.State, Age(p.LastHeard, now), strconv.Itoa(len(p.Forks)), strconv.Itoa(len(p.Doubts))
				clock = clockOf(p)
			}
			return []string{p.Name, p.Network, mode, state, heard, strconv.Itoa(p.Waiting), Age(p.Oldest, now), strconv.Itoa(p.Dead), forks, doubts, clock, p.LastError}
		},
	}
}

// clockOf says how far the clock of a home is from the one here: "ok" up to thirty seconds,
// from which on the log warns too.
func clockOf(p contract.Peer) string {
	skew := time.Duration(p.SkewSeconds * float64(time.Second)).Round(time.Second)
	switch {
	case skew > 30*time.Second:
		return skew.String() + " behind"
	case skew < -30*time.Second:
		return (-skew).String() + " ahead"
	}
	return "ok"
}

// Deliveries returns the table of pending deliveries.
func Deliveries(now func() time.Time) Table[contract.Waiting] {
	return Table[contract.Waiting]{
		Header: "ID | VERB | TO | AGE | ATTEMPT | NEXT | LAST ERROR",
		Row: func(w contract.Waiting) []string {
			now := now()
			return []string{w.ID, string(w.Verb), w.Link + w.Peer, Age(w.Queued, now), strconv.Itoa(w.Attempt), nextTry(w, now), w.LastError}
		},
	}
}

// nextTry says when a pending delivery is tried.
func nextTry(w contract.Waiting, now time.Time) string {
	switch {
	case w.Held:
		return "held"
	case w.Behind:
		return "behind"
	}
	return Until(w.Next, now)
}

// Shapes returns the table of destinations with pending deliveries.
func Shapes(now func() time.Time) Table[contract.Shape] {
	return Table[contract.Shape]{
		Header: "TO | ROWS | <1m | <5m | <1h | <24h | OLDER | OLDEST | HELD",
		Row: func(s contract.Shape) []string {
			cells := []string{s.Link + s.Peer, strconv.Itoa(s.Rows)}
			for _, n := range s.Ages {
				cells = append(cells, strconv.Itoa(n))
			}
			held := ""
			if s.Held {
				held = "held " + s.Reason
			}
			return append(cells, Age(s.Oldest, now()), held)
		},
	}
}

// DeadLetters returns the table of dead letters.
func DeadLetters() Table[contract.DeadLetter] {
	return Table[contract.DeadLetter]{
		Header: "ID | DIED | TO | VERB | HANDOFF | ATTEMPTS | REASON | LAST ERROR",
		Row: func(d contract.DeadLetter) []string {
			return []string{
				strconv.FormatInt(d.ID, 10), d.Died.String(), d.Link + d.Peer, string(d.Verb), d.HandoffID.Short(),
				strconv.Itoa(d.Attempt), string(d.Reason), d.LastError,
			}
		},
	}
}

// HeldRelays returns the table of held messages of unverified senders.
func HeldRelays() Table[contract.Held] {
	return Table[contract.Held]{
		Header: "ID | RECEIVED | FROM | TO | TEXT",
		Row: func(h contract.Held) []string {
			return []string{strconv.FormatInt(h.ID, 10), h.Received.String(), h.From, h.To, h.Text}
		},
	}
}

// Webhooks returns the table of webhooks.
func Webhooks() Table[contract.Webhook] {
	return Table[contract.Webhook]{
		Header: "ID | DID | AGENT | WAITING | OLDEST | DEAD | DISABLED | URL",
		Row: func(h contract.Webhook) []string {
			return []string{h.ID, h.DID, h.Agent, strconv.Itoa(h.Waiting), h.Oldest.String(), strconv.Itoa(h.Dead), h.Disabled.String(), h.URL}
		},
	}
}

// Bindings returns the table of bindings.
func Bindings() Table[contract.Binding] {
	return Table[contract.Binding]{
		Header: "NETWORK | NAME | DID | VOUCH | ORIGIN | SINCE",
		Row: func(b contract.Binding) []string {
			vouch := "no"
			if b.Vouch {
				vouch = "yes"
			}
			return []string{b.Network, b.Name, string(b.DID), vouch, b.Origin, b.Since.String()}
		},
	}
}

// Blocks returns the table of blocks.
func Blocks() Table[contract.Block] {
	return Table[contract.Block]{
		Header: "WHAT | KIND | SINCE | UNTIL | REASON",
		Row: func(b contract.Block) []string {
			return []string{b.What, string(b.Kind), b.Since.String(), b.Expires.String(), b.Reason}
		},
	}
}

// Senders returns the table of the senders with the most steps.
func Senders() Table[contract.Sender] {
	return Table[contract.Sender]{
		Header: "SENDER | STEPS | REFUSED | LIMITED | BLOCKED | BYTES",
		Row: func(s contract.Sender) []string {
			return []string{
				s.Name, strconv.Itoa(s.Steps), strconv.Itoa(s.Refused), strconv.Itoa(s.Limited), strconv.Itoa(s.Blocked), strconv.FormatInt(s.Bytes, 10),
			}
		},
	}
}

// Tokens returns the table of tokens.
func Tokens(now func() time.Time) Table[contract.Token] {
	return Table[contract.Token]{
		Header: "NAME | SCOPE | CREATED | EXPIRES | LEFT",
		Row: func(t contract.Token) []string {
			now, left := now(), "over"
			if time.Time(t.Expires).After(now) {
				left = Until(t.Expires, now)
			}
			return []string{t.Name, string(t.Scope), t.Created.String(), t.Expires.String(), left}
		},
	}
}

// Changes returns the table of the audit log.
func Changes() Table[contract.Change] {
	return Table[contract.Change]{
		Header: "TIME | ACTOR | WHAT | SUBJECT | REASON",
		Row: func(c contract.Change) []string {
			return []string{c.Time.String(), c.Actor, c.What, c.Subject, c.Reason}
		},
	}
}

// Keys returns the table of the keys of a gateway.
func Keys() Table[contract.Key] {
	return Table[contract.Key]{
		Header: "NAME | ID | KEY | SINCE | STATE",
		Row: func(k contract.Key) []string {
			id := k.PublicKey
			switch {
			case k.DID != "":
				id = string(k.DID)
			case k.EndpointID != "":
				id = k.EndpointID
			}
			return []string{k.Name, id, k.KeyID, k.Since, k.State}
		},
	}
}

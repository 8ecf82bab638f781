package mcp

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

type handoff struct {
	ID        string             `json:"id"`
	Kind      string             `json:"kind"`
	State     string             `json:"state"`
	Over      bool               `json:"over"`
	Version   federation.Version `json:"version"`
	Home      string             `json:"home"`
	Dialect   string             `json:"dialect"`
	Offerer   string             `json:"offerer"`
	Offeree   string             `json:"offeree,omitempty"`
	Assignee  string             `json:"assignee,omitempty"`
	Caps      []string           `json:"caps"`
	Missing   []string           `json:"missing_caps,omitzero"` // capabilities of an open offer that the caller has not declared
	Deadline  time.Time          `json:"deadline,omitzero"`
	Priority  string             `json:"priority,omitempty"`
	Replaces  string             `json:"replaces,omitempty"`
	Opened    time.Time          `json:"opened"`
	Moved     time.Time          `json:"moved"`
	Untrusted untrusted          `json:"untrusted"`
	Steps     []step             `json:"steps,omitempty"`
}

type evidence struct {
	URL    string `json:"url"`
	SHA256 string `json:"sha256"`
}

type step struct {
	EventID    string    `json:"event_id"`
	HandoffID  string    `json:"handoff_id"`
	Verb       string    `json:"verb"`
	From       string    `json:"from"`
	SignedBy   string    `json:"signed_by,omitempty"` // DID of the signing key, if it differs from From
	For        string    `json:"for,omitempty"`       // same as From if SignedBy is set
	Time       time.Time `json:"time"`
	State      string    `json:"state"`
	Provenance string    `json:"provenance"`
	Verdict    string    `json:"verdict"`
	Evidence   *evidence `json:"evidence,omitempty"`
	Untrusted  untrusted `json:"untrusted,omitempty"`
}

type entry struct {
	Cursor  string       `json:"cursor"`
	Waits   bool         `json:"waits"`
	Now     string       `json:"state_now,omitempty"` // current state of the handoff
	Step    *step        `json:"step,omitempty"`
	Message *privateText `json:"message,omitempty"`
}

type privateText struct {
	ID       string    `json:"id"`
	From     string    `json:"from"`
	Network  string    `json:"network"`
	Handoff  string    `json:"handoff,omitempty"` // handoff that the message refers to
	Time     time.Time `json:"time"`
	Evidence *evidence `json:"evidence,omitempty"`
	// Unknown marks the first message of an author that the reader has neither allowed nor blocked.
	Unknown   bool      `json:"unknown_sender,omitempty"`
	Untrusted untrusted `json:"untrusted"`
}

func shapeHandoff(l participant.Listed) handoff {
	v := l.View
	h := handoff{
		ID: v.ID.String(), Kind: string(v.Kind), State: string(v.State), Over: v.Over, Version: v.Version, Home: string(v.Home), Dialect: string(v.Dialect),
		Offerer: string(v.Offerer), Offeree: string(v.Offeree), Assignee: string(v.Assignee), Replaces: v.Replaces.String(),
		Deadline: participant.Timestamp(v.Deadline), Opened: participant.Timestamp(v.Opened), Moved: participant.Timestamp(v.Moved), Caps: []string{}, Missing: l.Missing,
		Untrusted: untrusted{"title": v.Title, "venue": v.Venue},
	}
	h.Caps = append(h.Caps, v.Caps...) // capabilities are words
	if plain(v.Priority) {
		h.Priority = v.Priority
	} else {
		h.Untrusted.add("priority", v.Priority)
	}
	return h
}

func shapeStep(n participant.Named) step {
	ev, actor := n.Entry.Event, n.Entry.Event.Actor()
	s := step{
		EventID: ev.ID.String(), HandoffID: ev.Handoff.String(), Verb: string(ev.Verb), From: string(actor), Time: participant.Timestamp(ev.Time()),
		State: string(n.Entry.State), Provenance: string(ev.Provenance), Verdict: ev.FiledVerdict().String(),
		Untrusted: untrusted{},
	}
	if actor != ev.From {
		s.SignedBy, s.For = string(ev.From), string(actor)
	}
	if ev.Evidence != nil {
		s.Evidence = &evidence{ev.Evidence.URL, hex.EncodeToString(ev.Evidence.Digest[:])}
	}
	s.Untrusted.add("name", n.Name)
	s.Untrusted.add("title", ev.Title)
	s.Untrusted.add("note", ev.Note)
	if federation.CapabilityIn(ev.Context) != "" { // a gateway stores a context too long for its step
		s.Untrusted.add("context_ref", ev.Context)
	} else {
		s.Untrusted.add("context", ev.Context)
	}
	return s
}

func shapeEntry(n participant.Named) entry {
	e := entry{Cursor: string(n.Cursor), Waits: n.Waits, Now: string(n.Now)}
	if n.Entry.Text != nil {
		e.Message = new(shapeMessage(*n.Entry.Text, n.Name))
	} else {
		e.Step = new(shapeStep(n))
	}
	return e
}

func shapeMessage(t federation.Text, name string) privateText {
	m := privateText{
		ID: t.ID.String(), From: string(t.Author), Network: t.Arrival.Network, Handoff: t.About.String(), Time: participant.Timestamp(t.Arrival.Received),
		Unknown: t.Fields[federation.Introduces] != "", Untrusted: untrusted{},
	}
	if t.Evidence != nil {
		m.Evidence = &evidence{t.Evidence.URL, hex.EncodeToString(t.Evidence.Digest[:])}
	}
	m.Untrusted.add("name", name)
	m.Untrusted.add("text", t.Body)
	return m
}

func (m privateText) text(start string) string {
	line := fmt.Sprintf("%smessage %s, network %s, time %s", start, m.ID, m.Network, m.Time.Format(time.RFC3339Nano))
	if m.Handoff != "" {
		line += ", about handoff " + m.Handoff
	}
	if m.Unknown {
		line += ", from an unknown sender: allow or block it with the consent of message_send"
	}
	return escape(line) + "\n" + fence{event: m.ID, from: m.From, provenance: string(federation.Vouched), untrusted: m.Untrusted}.String()
}

func (h handoff) text() string {
	line := fmt.Sprintf("handoff %s: %s %s, offerer %s", h.ID, h.Kind, h.State, h.Offerer)
	if h.Offeree != "" {
		line += ", offeree " + h.Offeree
	}
	if h.Assignee != "" {
		line += ", assignee " + h.Assignee
	}
	if len(h.Caps) > 0 {
		line += ", caps " + strings.Join(h.Caps, " ")
	}
	if len(h.Missing) > 0 {
		line += ", of which you have not declared " + strings.Join(h.Missing, " ")
	}
	if !h.Deadline.IsZero() {
		line += ", deadline " + h.Deadline.Format(time.RFC3339Nano)
	}
	return escape(line) + "\n" + fence{handoff: h.ID, from: h.Offerer, untrusted: h.Untrusted}.String()
}

func (s step) text(start string) string {
	line := fmt.Sprintf("%s%s: handoff %s, state %s, event %s, time %s", start, s.Verb, s.HandoffID, s.State, s.EventID, s.Time.Format(time.RFC3339Nano))
	f := fence{event: s.EventID, from: s.From, verdict: s.Verdict, provenance: s.Provenance, untrusted: s.Untrusted}
	return escape(line) + "\n" + f.String()
}

func (e entry) text() string {
	start := "cursor " + e.Cursor + ", "
	if !e.Waits {
		start += "read, "
	}
	if e.Message != nil {
		return e.Message.text(start)
	}
	if e.Now != e.Step.State {
		start += "now " + e.Now + ", "
	}
	return e.Step.text(start)
}

// fence encloses text of other parties in three lines. The opening line names the source, and contains no
// text of a party.
type fence struct {
	handoff, event, from, verdict, provenance string
	untrusted                                 untrusted
}

type untrusted map[string]any

func (u untrusted) add(name, text string) {
	if text != "" {
		u[name] = text
	}
}

// String returns "" for an empty fence.
func (f fence) String() string {
	if len(f.untrusted) == 0 {
		return ""
	}
	var tag strings.Builder
	for _, a := range [][2]string{{"handoff", f.handoff}, {"event", f.event}, {"from", f.from}, {"verdict", f.verdict}, {"provenance", f.provenance}} {
		if a[1] != "" {
			fmt.Fprintf(&tag, ` %s="%s"`, a[0], strings.ReplaceAll(escape(a[1]), `"`, `\u0022`))
		}
	}
	text, err := json.Marshal(f.untrusted)
	if err != nil {
		return ""
	}
	return "<external_message" + tag.String() + ">\n" + escape(string(text)) + "\n</external_message>\n"
}

// escape writes a character as \uXXXX if it could end a fence, break its line, or hide text from people.
func escape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == '\\' && i+1 < len(text) {
			b.WriteString(escapeOf(text[i+1]))
			i += 2
			continue
		}
		if hidden(r) {
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		} else {
			b.WriteString(text[i : i+size])
		}
		i += size
	}
	return b.String()
}

func escapeOf(second byte) string {
	if i := strings.IndexByte("bfnrt", second); i >= 0 {
		return fmt.Sprintf(`\u%04x`, "\b\f\n\r\t"[i])
	}
	return `\` + string(rune(second))
}

// hidden reports markup, control characters, and characters that reorder or hide text.
func hidden(r rune) bool {
	switch r {
	case '<', '>', '&', '\u2028', '\u2029', utf8.RuneError:
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Variation_Selector)
}

// In bytes.
const maxPlain = 64

// plain accepts a single word of letters, digits and nickname punctuation.
func plain(name string) bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-./[]\\`^{|}", r)
	}
	return name != "" && len(name) <= maxPlain && !strings.ContainsFunc(name, odd)
}

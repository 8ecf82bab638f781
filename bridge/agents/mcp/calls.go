package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

// The schemas repeat these defaults.
const (
	defaultLimit   = 20
	defaultSeconds = 50
)

type inboxInput struct {
	Cursor  string `json:"cursor"`
	Limit   int    `json:"limit"`
	Device  string `json:"device"`
	Seconds int    `json:"seconds"`
}

func (in inboxInput) query(s *server) participant.InboxQuery {
	return participant.InboxQuery{
		Cursor: federation.Cursor(in.Cursor), Device: cmp.Or(in.Device, s.deviceName()), Limit: cmp.Or(in.Limit, defaultLimit),
	}
}

type inboxOutput struct {
	Items    []entry `json:"items"`
	Next     string  `json:"next_cursor"`
	TimedOut *bool   `json:"timed_out,omitempty"` // only of inbox_wait
}

func shapeInbox(page participant.InboxPage) inboxOutput {
	out := inboxOutput{Items: []entry{}, Next: string(page.Next)}
	for _, n := range page.Items {
		out.Items = append(out.Items, shapeEntry(n))
	}
	return out
}

func (o inboxOutput) answer() answer {
	var text strings.Builder
	for _, e := range o.Items {
		text.WriteString(e.text())
	}
	if len(o.Items) == 0 {
		text.WriteString("no entries\n")
	}
	fmt.Fprintf(&text, "next_cursor %s\n", o.Next)
	return answer{o, text.String()}
}

func listInbox(ctx context.Context, s *server, _ *mcp.CallToolRequest, in inboxInput) (answer, error) {
	page, err := s.account.Inbox(ctx, in.query(s))
	if err != nil {
		return answer{}, err
	}
	return shapeInbox(page).answer(), nil
}

func waitInbox(ctx context.Context, s *server, req *mcp.CallToolRequest, in inboxInput) (answer, error) {
	q := in.query(s)
	q.Wait = time.Duration(cmp.Or(in.Seconds, defaultSeconds)) * time.Second
	page, err := s.wait(ctx, req, q)
	if err != nil {
		return answer{}, err
	}
	out := shapeInbox(page)
	out.TimedOut = new(len(out.Items) == 0)
	return out.answer(), nil
}

type ackInput struct {
	Cursor string `json:"cursor"`
	Device string `json:"device"`
}

func ackInbox(ctx context.Context, s *server, _ *mcp.CallToolRequest, in ackInput) (answer, error) {
	err := s.account.Acknowledge(ctx, cmp.Or(in.Device, s.deviceName()), federation.Cursor(in.Cursor))
	return answer{map[string]string{"cursor": in.Cursor}, "read up to " + escape(in.Cursor) + "\n"}, err
}

type listInput struct {
	State      string `json:"state"`
	Claimable  *bool  `json:"claimable"`
	Capability string `json:"capability"`
	Channel    string `json:"channel"`
	Words      string `json:"q"`
	Cursor     string `json:"cursor"`
	Limit      int    `json:"limit"`
}

func listHandoffs(ctx context.Context, s *server, _ *mcp.CallToolRequest, in listInput) (answer, error) {
	q := participant.Query{State: in.State, Claimable: in.Claimable, Capability: in.Capability, Channel: in.Channel, Words: in.Words}
	page, err := s.account.Handoffs(ctx, q, federation.Cursor(in.Cursor), cmp.Or(in.Limit, defaultLimit))
	if err != nil {
		return answer{}, err
	}
	out := struct {
		Items []handoff `json:"items"`
		Next  string    `json:"next_cursor"`
	}{[]handoff{}, string(page.Next)}
	var text strings.Builder
	for _, v := range page.Items {
		h := shapeHandoff(v)
		out.Items = append(out.Items, h)
		text.WriteString(h.text())
	}
	if len(out.Items) == 0 {
		text.WriteString("no handoffs\n")
	}
	if out.Next != "" {
		fmt.Fprintf(&text, "next_cursor %s\n", out.Next)
	}
	return answer{out, text.String()}, nil
}

type idInput struct {
	ID string `json:"id"`
}

func getHandoff(ctx context.Context, s *server, _ *mcp.CallToolRequest, in idInput) (answer, error) {
	log, err := s.account.Handoff(ctx, in.ID)
	if err != nil {
		return answer{}, err
	}
	h := shapeHandoff(log.Listed)
	h.Steps = []step{}
	var text strings.Builder
	text.WriteString(h.text())
	for _, n := range log.Steps {
		shown := shapeStep(n)
		h.Steps = append(h.Steps, shown)
		text.WriteString(shown.text(""))
	}
	return answer{h, text.String()}, nil
}

type offerInput struct {
	To       string          `json:"to"`
	Open     bool            `json:"open"`
	Title    string          `json:"title"`
	Channel  string          `json:"channel"`
	Context  json.RawMessage `json:"context"`
	Caps     []string        `json:"caps"`
	Deadline string          `json:"deadline"`
	Replaces string          `json:"replaces"`
	Key      string          `json:"idempotency_key"`
}

func offerHandoff(ctx context.Context, s *server, _ *mcp.CallToolRequest, in offerInput) (answer, error) {
	if (in.To == "") == !in.Open {
		return answer{}, bridge.UsageProblem("want either to, or open: true")
	}
	o := participant.Offer{To: in.To, Title: in.Title, Channel: in.Channel, Context: in.Context, Caps: in.Caps, Replaces: in.Replaces}
	if in.Deadline != "" {
		var err error
		if o.Deadline, err = time.Parse(time.RFC3339, in.Deadline); err != nil {
			return answer{}, bridge.UsageProblem("deadline: want a time as of RFC 3339")
		}
	}
	return filed(s.account.Offer(ctx, o, in.Key))
}

type stepInput struct {
	ID      string          `json:"id"`
	Note    string          `json:"note"`
	Context json.RawMessage `json:"context"`
	Key     string          `json:"idempotency_key"`
}

func submitStep(verb federation.Verb) func(ctx context.Context, s *server, req *mcp.CallToolRequest, in stepInput) (answer, error) {
	return func(ctx context.Context, s *server, _ *mcp.CallToolRequest, in stepInput) (answer, error) {
		return filed(s.account.Take(ctx, in.ID, verb, participant.StepRequest{Note: in.Note, Context: in.Context}, in.Key))
	}
}

func filed(f participant.Filed, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	text := fmt.Sprintf("filed %s: handoff %s, state %s, event %s\n", f.Verb, f.ID, f.State, f.EventID)
	if f.Waits != "" {
		text = fmt.Sprintf("kept %s of handoff %s, event %s; it waits: %s\n", f.Verb, f.ID, f.EventID, escape(f.Waits))
	}
	if len(f.Lost) > 0 {
		text += "the step could not carry: " + strings.Join(f.Lost, ", ") + "\n"
	}
	if f.Resolved != nil {
		text += fmt.Sprintf("%s on %s is %s\n", escape(f.Resolved.Name), f.Resolved.Network, f.Resolved.DID)
	}
	for _, w := range f.Warnings {
		text += "warning " + w.Code + ": " + escape(w.Detail) + "\n"
	}
	return answer{f, text}, nil
}

type sendInput struct {
	To      string `json:"to"`
	Text    string `json:"text"`
	Handoff string `json:"handoff"`
	Consent string `json:"consent"`
	Key     string `json:"idempotency_key"`
}

type decided struct {
	Status federation.ContactState `json:"status"`
	To     federation.DID          `json:"to"`
}

func sendMessage(ctx context.Context, s *server, _ *mcp.CallToolRequest, in sendInput) (answer, error) {
	switch {
	case in.Consent != "":
		return decide(ctx, s, in)
	case in.Text == "":
		return answer{}, bridge.UsageProblem("the arguments: text or consent is missing")
	}
	sent, err := s.account.Say(ctx, participant.MessageRequest{To: in.To, Text: in.Text, Handoff: in.Handoff}, in.Key)
	if err != nil {
		return answer{}, err
	}
	return answer{sent, fmt.Sprintf("message %s to %s: %s\n", sent.ID, sent.To, sent.Status)}, nil
}

func decide(ctx context.Context, s *server, in sendInput) (answer, error) {
	if in.Text != "" || in.Handoff != "" {
		return answer{}, bridge.UsageProblem("the arguments: consent goes without text and handoff")
	}
	state := federation.ContactAllowed
	if in.Consent == "block" {
		state = federation.ContactBlocked
	}
	c, err := s.account.Decide(ctx, in.To, state)
	if err != nil {
		return answer{}, err
	}
	return answer{decided{c.State, c.DID}, fmt.Sprintf("messages of %s: %s\n", c.DID, c.State)}, nil
}

// person is a participant under one of its names. A multi-word name is quoted.
type person struct {
	DID       string    `json:"did"`
	Network   string    `json:"network"`
	Name      string    `json:"name"`
	Online    bool      `json:"online"`
	Caps      []string  `json:"caps"`
	Untrusted untrusted `json:"untrusted,omitempty"`
}

func whois(ctx context.Context, s *server, _ *mcp.CallToolRequest, in struct {
	Who string `json:"who"`
},
) (answer, error) {
	found, err := s.account.Whois(ctx, in.Who)
	if err != nil {
		return answer{}, err
	}
	out := struct {
		Items []person `json:"items"`
	}{[]person{}}
	var text strings.Builder
	for _, p := range found {
		odd := func(c string) bool { return !plain(c) }
		shown := person{DID: string(p.DID), Network: p.Network, Online: p.Online, Caps: slices.DeleteFunc(append([]string{}, p.Caps...), odd), Untrusted: untrusted{}}
		if plain(p.Name) {
			shown.Name = p.Name
		} else {
			shown.Untrusted.add("name", p.Name)
		}
		out.Items = append(out.Items, shown)
		inside := untrusted{}
		inside.add("name", p.Name)
		fmt.Fprintf(&text, "%s, network %q, online %t, caps %v\n", shown.DID, shown.Network, shown.Online, shown.Caps)
		text.WriteString(fence{from: shown.DID, untrusted: inside}.String())
	}
	if len(found) == 0 {
		text.WriteString("none found\n")
	}
	return answer{out, text.String()}, nil
}

func updateAgent(ctx context.Context, s *server, _ *mcp.CallToolRequest, in participant.AgentUpdate) (answer, error) {
	agent, err := s.account.Declare(ctx, in)
	return answer{agent, fmt.Sprintf("you are %s, name %q, caps %v\n", agent.DID, agent.Name, agent.Caps)}, err
}

func explain(ctx context.Context, s *server, _ *mcp.CallToolRequest, in struct {
	EventID string `json:"event_id"`
},
) (answer, error) {
	e, err := s.account.Explain(ctx, in.EventID)
	if err != nil {
		return answer{}, err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "event %s: %s, %s\n", e.EventID, e.Verdict, escape(e.Why))
	for _, d := range e.Deliveries {
		fmt.Fprintf(&text, "%s to %s via %s\n", d.State, escape(d.To), escape(d.Via))
	}
	if e.Next != "" {
		fmt.Fprintf(&text, "next: %s\n", escape(e.Next))
	}
	return answer{e, text.String()}, nil
}

func pairingCode(ctx context.Context, s *server, _ *mcp.CallToolRequest, _ struct{}) (answer, error) {
	p, err := s.account.Pair(ctx)
	return answer{p, "pairing code " + p.Code + " of " + string(p.DID) + ", until " + p.ExpiresAt.Format(time.RFC3339) + "\n"}, err
}

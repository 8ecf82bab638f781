package airc

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
)

// spec: airc-v0.1.1 §9.4
const (
	actionAccept  = "accept"
	actionBlock   = "block"
	actionUnblock = "unblock"
)

const maxKnockChars = 280

// spec: airc-v0.1.1 §9.3
type knock struct {
	Requester    string         `json:"requester"`
	RequesterKey string         `json:"requesterKey"`
	RequesterDID federation.DID `json:"requesterDid"`
	Message      string         `json:"message"`
	HeldMessages int            `json:"heldMessageCount"`
}

// handshake is filed with the requester's first held message, and counts as one message.
func (l *Link) handshake(ctx context.Context, requester contact, to, message string, now time.Time) (*agents.Message, error) {
	did, key := requester.foreign.DID, requester.foreign.Key
	if requester.agent != nil {
		did, key = requester.agent.DID, requester.agent.Primary(now).Public
	}
	if text := []rune(message); len(text) > maxKnockChars {
		message = string(text[:maxKnockChars])
	}
	asks := requester.handle + " asks to write to you; to accept, send " + consentCall(consentPath, actionAccept, requester.handle) +
		" (with a token of " + deployedRoot + ": " + deployedConsentPath + ")"
	m, err := l.sign(ctx, outgoing{From: systemHandle, To: to, Body: asks + ":\n" + fence(requester.handle, message), Payload: struct {
		Type string `json:"type"`
		Data knock  `json:"data"`
	}{"system:handshake_request", knock{
		Requester: requester.handle, RequesterKey: base64.RawURLEncoding.EncodeToString(key), RequesterDID: did,
		Message: message, HeldMessages: 1,
	}}}, now)
	return &m, err
}

// spec: airc-v0.1.1 §9.4
func (l *Link) postConsent(c *call) (answer, error) {
	agent, err := c.caller()
	if err != nil {
		return answer{}, err
	}
	o, err := l.readObject(c)
	if err != nil {
		return answer{}, err
	}
	handle, action := o.Text("handle"), o.Text("action")
	if o.Err != nil {
		return answer{}, o.Err
	}
	if err := checkAction(action); err != nil {
		return answer{}, err
	}
	from, err := known(l.find(c.Context(), handle))
	if err != nil {
		return answer{}, err
	}
	edge, err := l.decide(c.Context(), action, from, agent.Handle, time.Now())
	if err != nil {
		return answer{}, err
	}
	if err := l.peers.ShareDecision(c.Context(), action, edge, agent, time.Now()); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: describeEdge(edge)}, nil
}

func checkAction(action string) error {
	switch action {
	case actionAccept, actionBlock, actionUnblock:
		return nil
	}
	return wire.Refuse(wire.CodeBadRequest, "action is not accept, block or unblock")
}

func (l *Link) decide(ctx context.Context, action string, from contact, to string, now time.Time) (agents.Consent, error) {
	var edge agents.Consent
	var err error
	switch action {
	case actionBlock:
		edge, err = l.deps.Record.Block(ctx, from.handle, to, now)
	case actionUnblock:
		edge, err = l.deps.Record.Unblock(ctx, from.handle, to, now)
	default:
		edge, err = l.letIn(ctx, from, to, now)
		if err == nil && strings.HasPrefix(from.handle, agents.Unverified) {
			err = l.showHeld(ctx, from.handle, to, now)
		}
	}
	if err != nil {
		return agents.Consent{}, fmt.Errorf("%s %s: %w", action, from.handle, err)
	}
	return edge, nil
}

// letIn also opens the reverse edge of an agent that requested consent, so that it gets an answer.
func (l *Link) letIn(ctx context.Context, from contact, to string, now time.Time) (agents.Consent, error) {
	if from.agent == nil {
		return l.accept(ctx, from.handle, to, now)
	}
	edge, err := l.deps.Record.Consent(ctx, from.handle, to)
	if err != nil {
		return edge, err
	}
	if edge.State == agents.ConsentPending {
		return l.accept(ctx, from.handle, to, now)
	}
	return l.deps.Record.AcceptOneWay(ctx, from.handle, to, now)
}

// spec: airc-v0.1.1 §9.5
type consent struct {
	From      string              `json:"from"`
	To        string              `json:"to"`
	State     agents.ConsentState `json:"state"`
	UpdatedAt *int64              `json:"updatedAt"` // null if it never changed
	Version   uint64              `json:"version"`
}

func describeEdge(edge agents.Consent) consent {
	return consent{edge.From, edge.To, edge.State, wire.UnixTime(edge.Updated), edge.Version}
}

// spec: airc-v0.1.1 §9.5
func (l *Link) getConsent(c *call) (answer, error) {
	agent, err := c.caller()
	if err != nil {
		return answer{}, err
	}
	handle := c.URL.Query().Get("handle")
	if handle == "" {
		return answer{}, wire.Refuse(wire.CodeBadRequest, "handle is missing")
	}
	to, err := known(l.find(c.Context(), handle))
	if err != nil {
		return answer{}, err
	}
	edge, err := l.deps.Record.Consent(c.Context(), agent.Handle, to.handle)
	if err != nil {
		return answer{}, fmt.Errorf("look up consent: %w", err)
	}
	return answer{status: http.StatusOK, body: describeEdge(edge)}, nil
}

// accept also wakes both sides for their held messages.
func (l *Link) accept(ctx context.Context, from, to string, now time.Time) (agents.Consent, error) {
	edge, err := l.deps.Record.Accept(ctx, from, to, now)
	if err == nil {
		l.deps.PubSub.Wake(bridge.InboxTopic(from), bridge.InboxTopic(to), bridge.WebhooksTopic)
	}
	return edge, err
}

// spec: airc-v0.1.1 §9.2
func (l *Link) checkConsent(ctx context.Context, from, to string) (bool, error) {
	if from == to {
		return true, nil
	}
	edge, err := l.deps.Record.Consent(ctx, from, to)
	if err != nil {
		return false, fmt.Errorf("look up consent: %w", err)
	}
	return accepted(edge, from)
}

// accepted refuses a blocked sender.
func accepted(edge agents.Consent, from string) (bool, error) {
	if edge.State == agents.ConsentBlocked {
		return false, wire.Refuse(wire.CodeConsentBlocked, "this agent does not accept messages from you: it sends "+consentCall(consentPath, actionUnblock, from)+" to change that")
	}
	return edge.State == agents.ConsentAccepted, nil
}

// sourceOf returns the registry, the client's site, or the home or link: its first contacts share a
// limit.
func sourceOf(handle string, a federation.Arrival) string {
	if domain, isRemote := wire.SplitAddress(handle); isRemote {
		return "@" + domain
	}
	return cmp.Or(federation.Site(a.Address), string(a.Home), a.Link)
}

// befriend does nothing if the agent blocked the recipient.
func (l *Link) befriend(ctx context.Context, from, to string, now time.Time) error {
	edge, err := l.deps.Record.Consent(ctx, from, to)
	if err != nil {
		return fmt.Errorf("look up consent: %w", err)
	}
	if edge.State == agents.ConsentBlocked || edge.State == agents.ConsentAccepted {
		return nil
	}
	if _, err := l.accept(ctx, from, to, now); err != nil {
		return fmt.Errorf("accept %s: %w", from, err)
	}
	return nil
}

var _ bridge.Consenter = (*Link)(nil)

// Consents implements [bridge.Consenter].
func (l *Link) Consents(ctx context.Context, person, sender federation.DID) (bool, error) {
	c, err := l.contactOf(ctx, person, nil)
	if err != nil || c.agent != nil {
		return c.agent != nil, err
	}
	c, err = l.contactOf(ctx, sender, nil)
	return strings.HasPrefix(c.handle, agents.Unverified), err
}

// Decide implements [bridge.Consenter] like POST /consent.
func (l *Link) Decide(ctx context.Context, c federation.Contact, now time.Time) error {
	person, err := l.contactOf(ctx, c.Person, nil)
	if err != nil {
		return err
	}
	sender, err := l.contactOf(ctx, c.Sender, nil)
	if err != nil {
		return err
	}
	action := actionAccept
	if c.State == federation.ContactBlocked {
		action = actionBlock
	}
	edge, err := l.decide(ctx, action, sender, person.handle, now)
	if err != nil || person.agent == nil {
		return err
	}
	return l.peers.ShareDecision(ctx, action, edge, *person.agent, now)
}

// Answer implements [bridge.Consenter].
func (l *Link) Answer(ctx context.Context, person, to federation.DID, now time.Time) error {
	agent, err := l.contactOf(ctx, person, nil)
	if err != nil {
		return err
	}
	if strings.HasPrefix(agent.handle, agents.Unverified) {
		return nil
	}
	other, err := l.contactOf(ctx, to, nil)
	if err != nil {
		return err
	}
	return l.befriend(ctx, other.handle, agent.handle, now)
}

// Contacts implements [bridge.Consenter].
func (l *Link) Contacts(ctx context.Context, person federation.DID, after string, limit int) ([]federation.Contact, string, error) {
	to, err := l.contactOf(ctx, person, nil)
	if err != nil {
		return nil, "", err
	}
	if to.agent == nil {
		after = max(after, agents.Unverified)
	}
	edges, err := l.deps.Record.Edges(ctx, to.handle, after, limit)
	if err != nil {
		return nil, "", err
	}
	if to.agent == nil { // the gateway stores decisions about other senders
		edges = slices.DeleteFunc(edges, func(edge agents.Consent) bool { return !strings.HasPrefix(edge.From, agents.Unverified) })
	}
	found := make([]federation.Contact, 0, len(edges))
	for _, edge := range edges {
		sender, err := l.find(ctx, edge.From)
		if err != nil && !errors.Is(err, federation.ErrNotFound) { // a sender may have a name and no DID
			return nil, "", err
		}
		found = append(found, federation.Contact{Person: person, Sender: sender.did(), Name: edge.From, State: contactState(edge.State), Since: edge.Updated})
	}
	next := ""
	if n := len(edges); n > 0 && n == limit {
		next = edges[n-1].From
	}
	return found, next, nil
}

func contactState(s agents.ConsentState) federation.ContactState {
	switch s {
	case agents.ConsentAccepted:
		return federation.ContactAllowed
	case agents.ConsentBlocked:
		return federation.ContactBlocked
	case agents.ConsentPending, agents.ConsentNone:
	}
	return federation.ContactIntroduced
}

const (
	consentPath         = "/consent"
	deployedConsentPath = deployedRoot + consentPath
)

func consentCall(path, action, handle string) string {
	return fmt.Sprintf(`POST %s {"action":%q,"handle":%q}`, path, action, handle)
}

// heldNotice explains how a held message gets delivered, because many client libraries never make the
// consent call.
func heldNotice(path, from, to string) string {
	return fmt.Sprintf("the message is held until %s consents: it sends %s, or writes to %s", to, consentCall(path, actionAccept, from), from)
}

func withRemedy(err error, from, to string) error {
	refused, ok := errors.AsType[*federation.RefusalError](err)
	if !ok {
		return err
	}
	told := *refused
	told.Detail += "; " + to + " has not consented yet: it sends " + consentCall(consentPath, actionAccept, from)
	return &told
}

// fence marks a stranger's text, escapes text that would end the fence early, and removes invisible
// characters.
//
// spec: airc-v0.1.1 §12.3
func fence(from, text string) string {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = federation.PlainText(line)
	}
	text = strings.Join(lines, "\n")
	return `<external_message source="airc" from="` + escape.Replace(from) + "\">\n" + escape.Replace(text) + "\n</external_message>"
}

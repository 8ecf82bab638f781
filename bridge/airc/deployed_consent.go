package airc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// actionRequest asks for consent without a message; here a message does it.
const actionRequest = "request"

// postDeployedConsent answers POST /api/consent. The holder of the token acts, and the
// other party is the one of handle, to and from that is not the holder: five generations of
// clients name the two in five ways.
func (l *Link) postDeployedConsent(c *call) (answer, error) {
	o, err := l.readObject(c)
	if err != nil {
		return answer{}, err
	}
	agent, err := c.self("")
	if err != nil {
		return answer{}, err
	}
	action := strings.TrimPrefix(o.first("action", "type"), "consent:")
	if action != actionRequest {
		if err := checkAction(action); err != nil {
			return answer{}, err
		}
	}
	other := counterpart(o, agent.Handle)
	if other == "" {
		return answer{status: http.StatusOK, body: members{
			"success": true, "action": action, "from": agent.Handle, "to": agent.Handle, "message": "nothing to decide",
		}}, nil
	}
	who, err := known(l.find(c.Context(), l.unmangled(c.Context(), agent.Handle, other)))
	if err != nil {
		return answer{}, err
	}
	edge, err := l.decideDeployed(c.Context(), agent, who, action, o.first("message"), time.Now())
	if err != nil {
		return answer{}, err
	}
	if action != actionRequest { // a message makes one
		if err := l.shareDecision(c.Context(), action, edge, agent, time.Now()); err != nil {
			return answer{}, err
		}
	}
	return answer{status: http.StatusOK, body: members{
		"success": true, "action": action, "from": shownHandle(edge.From), "to": shownHandle(edge.To), "status": edge.State, "state": edge.State,
		"version": edge.Version, "message": "consent is " + string(edge.State),
	}}, nil
}

// counterpart returns the handle in a request that is not the caller's, "" where there
// is none.
func counterpart(o *object, caller string) string {
	for _, name := range []string{"handle", "to", "from"} {
		if handle := plainHandle(o.first(name)); handle != "" && handle != caller {
			return handle
		}
	}
	return ""
}

// decideDeployed applies an action of an agent and returns the edge that it was about:
// towards the agent, but for a request.
func (l *Link) decideDeployed(
	ctx context.Context, agent agents.Agent, other contact, action, message string, now time.Time,
) (agents.Consent, error) {
	if action != actionRequest {
		return l.decide(ctx, action, other, agent.Handle, now)
	}
	edge, err := l.deps.Record.Consent(ctx, agent.Handle, other.handle)
	if err != nil {
		return agents.Consent{}, fmt.Errorf("look up consent: %w", err)
	}
	if edge.State != agents.ConsentNone || other.agent == nil {
		return edge, nil
	}
	if message == "" {
		message = "asks for consent"
	}
	_, err = l.postDraft(ctx, agent, draft{to: other.handle, text: cut(message, maxTextChars), scheme: schemeNone}, now)
	if err != nil {
		return agents.Consent{}, err
	}
	return l.deps.Record.Consent(ctx, agent.Handle, other.handle)
}

// getDeployedConsent answers GET /api/consent: the state of an edge of the caller, or the
// senders that wait for its decision.
func (l *Link) getDeployedConsent(c *call) (answer, error) {
	query := c.URL.Query()
	agent, err := c.self(query.Get("user"))
	if err != nil {
		return answer{}, err
	}
	from, to := plainHandle(query.Get("from")), plainHandle(query.Get("to"))
	if from == "" && to == "" {
		return l.answerPending(c.Context(), agent)
	}
	if from != agent.Handle && to != agent.Handle {
		return answer{}, refuse(codeNotYourHandle, "neither side is the handle of the token")
	}
	edge, err := l.deps.Record.Consent(c.Context(), from, to)
	if err != nil {
		return answer{}, fmt.Errorf("look up consent: %w", err)
	}
	return answer{status: http.StatusOK, body: members{
		"success": true, "from": shownHandle(from), "to": shownHandle(to), "status": edge.State, "state": edge.State, "version": edge.Version,
	}}, nil
}

// maxRequestsShown is how many requests for consent one answer lists.
const maxRequestsShown = 1000

func (l *Link) answerPending(ctx context.Context, agent agents.Agent) (answer, error) {
	edges, err := l.deps.Record.Pending(ctx, agent.Handle, maxRequestsShown)
	if err != nil {
		return answer{}, fmt.Errorf("read requests: %w", err)
	}
	pending, requests := []string{}, []members{}
	for _, edge := range edges {
		pending = append(pending, "@"+edge.From)
		requests = append(requests, members{"from": shownHandle(edge.From), "created_at": isoTime(edge.Updated)})
	}
	return answer{status: http.StatusOK, body: members{
		"success": true, "user": agent.Handle, "pending": pending, "requests": requests, "count": len(pending),
	}}, nil
}

// getDeployedIdentity answers GET /api/identity/{handle} and what is below it.
func (l *Link) getDeployedIdentity(c *call) (answer, error) {
	now := time.Now()
	who, err := l.find(c.Context(), plainHandle(c.PathValue("handle")))
	if errors.Is(err, federation.ErrNotFound) || err == nil && (!who.met() || who.did() == "") {
		return answer{}, refuse(codeIdentityNotFound, "Agent not found")
	}
	if err != nil {
		return answer{}, err
	}
	id := l.identifyDeployed(who, now)
	said := members{"success": true, "identity": id}
	maps.Copy(said, id)
	return answer{status: http.StatusOK, body: said}, nil
}

// identifyDeployed returns the members of an identity that these clients read. The presence
// is included where it is public.
func (l *Link) identifyDeployed(who contact, now time.Time) members {
	full := l.identify(who, now)
	here := l.presences.of(who.handle, now)
	standing, work := "absent", ""
	if stranger := (viewer{}); here.status != statusOffline && stranger.seesPresence(here) {
		seen := here.describe(stranger)
		standing, work = "active", seen.Context
		if here.status == statusAway {
			standing = "away"
		}
	}
	id := members{
		"handle": who.handle, "federated_id": l.federatedID(who.handle), "registry": l.domain, "did": full.DID, "keys": full.Keys,
		"public_key": nil, "publicKey": full.PublicKey, "status": standing, "presence": standing, "working_on": work,
		"kind": "agent", "operator": nil, "runtime": nil, "capabilities": full.Capabilities, "verification": nil,
	}
	if who.agent != nil {
		human := here.human
		if here.status == statusOffline {
			human = isHuman(*who.agent)
		}
		id["kind"] = kind(human)
		id["created_at"], id["since"] = isoTime(who.agent.Registered), isoTime(who.agent.Registered)
		if key := who.agent.Primary(now); key.ID != "" && key.Signs(now) {
			id["public_key"] = registryKeyText(key.Public)
		}
	}
	return id
}

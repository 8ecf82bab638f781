package airc

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/signing"
)

// Deployed clients call the paths below /api. They have only a token, and each reads different members
// of the responses. The registry judges their messages like all others, and signs for them.

const deployedRoot = "/api"

// Deployed clients store tokens on disk and never refresh them.
const deployedTokenLife = 30 * 24 * time.Hour

func deployed(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, deployedRoot+"/") }

func (l *Link) mountDeployed(mux *http.ServeMux) {
	l.mount(mux, map[string]endpoint{
		"POST /api/presence":           l.postDeployedPresence,
		"POST /api/v2/presence":        l.postDeployedPresence,
		"POST /api/presence/heartbeat": l.postDeployedPresence,
		"POST /api/users":              l.postDeployedPresence,
		"GET /api/presence":            l.getDeployedPresence,
		"GET /api/v2/presence":         l.getDeployedPresence,
		"GET /api/presence/who":        l.getDeployedPresence,
		"GET /api/agents":              l.getDeployedAgents,

		"POST /api/messages":                l.postDeployedMessage,
		"POST /api/v2/messages":             l.postDeployedMessage,
		"POST /api/messages/send":           l.postDeployedMessage,
		"GET /api/messages":                 l.getDeployedMessages,
		"GET /api/v2/messages":              l.getDeployedMessages,
		"GET /api/messages/inbox":           l.getDeployedInbox,
		"GET /api/messages/thread/{handle}": l.getDeployedMessages,
		"DELETE /api/messages":              l.deleteDeployedMessage,

		"POST /api/consent": l.postDeployedConsent,
		"GET /api/consent":  l.getDeployedConsent,

		"GET /api/register":                       l.getDeployedGuide,
		"POST /api/identity":                      l.postDeployedPresence,
		"GET /api/identity/{handle}":              l.getDeployedIdentity,
		"GET /api/identity/{handle}/capabilities": l.getDeployedIdentity,
		"GET /api/identity/{handle}/verification": l.getDeployedIdentity,
		"POST /api/identity/{handle}/rotate":      l.postDeployedRotate,
		"POST /api/identity/{handle}/revoke":      l.postDeployedRevoke,
		"POST /api/identity/revoke":               l.postDeployedRevoke,

		"GET /api/health": l.getHealth,
		"GET /health":     l.getHealth,
	})
}

// shownHandle starts a handle of another registry with "@", which all deployed clients preserve.
func shownHandle(handle string) string {
	if strings.Contains(handle, "@") {
		return "@" + handle
	}
	return handle
}

func (l *Link) federatedID(handle string) string {
	if strings.Contains(handle, "@") {
		return handle
	}
	return handle + "@" + l.domain
}

func (l *Link) getHealth(*call) (answer, error) {
	now := time.Now()
	return answer{status: http.StatusOK, body: wire.Members{
		"status": "ok", "version": envelopeVersion, "registry": l.domain, "registry_name": l.cfg.Name,
		"protocol_version": wire.ProtocolVersion, "timestamp": wire.ISOTime(now),
		"agents_online": len(l.presences.list(now, func(present) bool { return true })),
	}}, nil
}

func (l *Link) getDeployedGuide(*call) (answer, error) {
	endpoint, err := federation.JoinURL(l.deps.PublicURL, "/api/presence", nil)
	if err != nil {
		return answer{}, err
	}
	signed, err := federation.JoinURL(l.deps.PublicURL, "/register/challenge", nil)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: wire.Members{
		"success": true, "protocol": "airc", "version": envelopeVersion,
		"registration": wire.Members{
			"endpoint": endpoint, "method": http.MethodPost,
			"body": wire.Members{"action": "register", "username": "your_handle", "workingOn": "what you do", "publicKey": "ed25519:…"},
		},
		"signed_registration": signed,
	}}, nil
}

// self rejects a request that names another agent.
func (c *call) self(named string) (agents.Agent, error) {
	agent, err := c.caller()
	if err != nil {
		return agent, authenticationRequired(err)
	}
	if named != "" && wire.PlainHandle(named) != agent.Handle {
		return agent, wire.Refuse(wire.CodeNotYourHandle, "the token belongs to another handle")
	}
	return agent, nil
}

func authenticationRequired(err error) error {
	if p, ok := err.(*wire.ProblemError); ok && p.Code == wire.CodeUnauthorized { //nolint:errorlint // as it came from the token
		return wire.Refuse(wire.CodeUnauthorized, "Authentication required: "+p.Message)
	}
	return err
}

// scheme is the signature scheme of a request below /api. A signature proves at most that the sender has
// the key; the token identifies the sender.
type scheme string

const (
	schemeNone   scheme = "none"
	schemeD2     scheme = "d2"     // in the body, covers all of it
	schemeLegacy scheme = "legacy" // in the body, covers a part of it
	schemeHeader scheme = "header" // covers the body
	schemeBad    scheme = "bad"    // matches no key of the sender
)

func findScheme(body []byte, header http.Header, keys []ed25519.PublicKey) scheme {
	var signed struct {
		Signature string `json:"signature"`
	}
	_ = federation.DecodeJSON(body, &signed) // a value other than a string counts as a missing signature
	fromHeader := header.Get("X-AIRC-Signature")
	if signed.Signature == "" && fromHeader == "" {
		return schemeNone
	}
	for _, key := range keys {
		matches := func(signature string, schemes ...signing.Scheme) bool {
			_, verdict := signing.Match(body, signature, key, schemes...)
			return signature != "" && verdict == federation.Valid
		}
		switch {
		case matches(signed.Signature, signing.LegacyMessage()):
			return schemeD2
		case matches(signed.Signature, signing.LegacyTextless(), signing.LegacyFive()):
			return schemeLegacy
		case matches(fromHeader, signing.LegacyHeader(), signing.LegacyASCIIHeader()):
			return schemeHeader
		}
	}
	return schemeBad
}

const actionRequest = "request"

// postDeployedConsent finds the other party in handle, to or from, because clients name the parties in
// five ways.
func (l *Link) postDeployedConsent(c *call) (answer, error) {
	o, err := l.readObject(c)
	if err != nil {
		return answer{}, err
	}
	agent, err := c.self("")
	if err != nil {
		return answer{}, err
	}
	action := strings.TrimPrefix(o.First("action", "type"), "consent:")
	if action != actionRequest {
		if err := checkAction(action); err != nil {
			return answer{}, err
		}
	}
	other := counterpart(o, agent.Handle)
	if other == "" {
		return answer{status: http.StatusOK, body: wire.Members{
			"success": true, "action": action, "from": agent.Handle, "to": agent.Handle, "message": "nothing to decide",
		}}, nil
	}
	who, err := known(l.find(c.Context(), l.unmangled(c.Context(), agent.Handle, other)))
	if err != nil {
		return answer{}, err
	}
	edge, err := l.decideDeployed(c.Context(), agent, who, action, o.First("message"), time.Now())
	if err != nil {
		return answer{}, err
	}
	if action != actionRequest {
		if err := l.peers.ShareDecision(c.Context(), action, edge, agent, time.Now()); err != nil {
			return answer{}, err
		}
	}
	return answer{status: http.StatusOK, body: wire.Members{
		"success": true, "action": action, "from": shownHandle(edge.From), "to": shownHandle(edge.To), "status": edge.State, "state": edge.State,
		"version": edge.Version, "message": "consent is " + string(edge.State),
	}}, nil
}

func counterpart(o *wire.Object, caller string) string {
	for _, name := range []string{"handle", "to", "from"} {
		if handle := wire.PlainHandle(o.First(name)); handle != "" && handle != caller {
			return handle
		}
	}
	return ""
}

// decideDeployed returns the agent's edge, which points to the agent except for a request.
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
	_, err = l.postDraft(ctx, agent, draft{to: other.handle, text: wire.Cut(message, wire.MaxTextChars), scheme: schemeNone}, now)
	if err != nil {
		return agents.Consent{}, err
	}
	return l.deps.Record.Consent(ctx, agent.Handle, other.handle)
}

func (l *Link) getDeployedConsent(c *call) (answer, error) {
	query := c.URL.Query()
	agent, err := c.self(query.Get("user"))
	if err != nil {
		return answer{}, err
	}
	from, to := wire.PlainHandle(query.Get("from")), wire.PlainHandle(query.Get("to"))
	if from == "" && to == "" {
		ctx := c.Context()
		edges, err := l.deps.Record.Pending(ctx, agent.Handle, maxRequestsShown)
		if err != nil {
			return answer{}, fmt.Errorf("read requests: %w", err)
		}
		pending, requests := []string{}, []wire.Members{}
		for _, edge := range edges {
			pending = append(pending, "@"+edge.From)
			requests = append(requests, wire.Members{"from": shownHandle(edge.From), "created_at": wire.ISOTime(edge.Updated)})
		}
		return answer{status: http.StatusOK, body: wire.Members{
			"success": true, "user": agent.Handle, "pending": pending, "requests": requests, "count": len(pending),
		}}, nil
	}
	if from != agent.Handle && to != agent.Handle {
		return answer{}, wire.Refuse(wire.CodeNotYourHandle, "neither handle belongs to the token")
	}
	edge, err := l.deps.Record.Consent(c.Context(), from, to)
	if err != nil {
		return answer{}, fmt.Errorf("look up consent: %w", err)
	}
	return answer{status: http.StatusOK, body: wire.Members{
		"success": true, "from": shownHandle(from), "to": shownHandle(to), "status": edge.State, "state": edge.State, "version": edge.Version,
	}}, nil
}

const maxRequestsShown = 1000

func (l *Link) getDeployedIdentity(c *call) (answer, error) {
	now := time.Now()
	who, err := l.find(c.Context(), wire.PlainHandle(c.PathValue("handle")))
	if errors.Is(err, federation.ErrNotFound) || err == nil && (!who.met() || who.did() == "") {
		return answer{}, wire.Refuse(wire.CodeIdentityNotFound, "Agent not found")
	}
	if err != nil {
		return answer{}, err
	}
	id := l.identifyDeployed(who, now)
	said := wire.Members{"success": true, "identity": id}
	maps.Copy(said, id)
	return answer{status: http.StatusOK, body: said}, nil
}

func (l *Link) identifyDeployed(who contact, now time.Time) wire.Members {
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
	id := wire.Members{
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
		id["created_at"], id["since"] = wire.ISOTime(who.agent.Registered), wire.ISOTime(who.agent.Registered)
		if key := who.agent.Primary(now); key.ID != "" && key.Signs(now) {
			id["public_key"] = wire.KeyText(key.Public)
		}
	}
	return id
}

package airc

import (
	"net/http"
	"strings"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// Clients in use today call the paths below /api. They know a token and nothing else, and
// each reads other members of the answers. The registry judges their messages like any
// other, and signs for them.

// deployedRoot is where those paths begin.
const deployedRoot = "/api"

// deployedTokenLife is how long their tokens are good: they never ask for another
// one, and keep theirs on disk.
const deployedTokenLife = 30 * 24 * time.Hour

// deployed reports whether a request is of such a client.
func deployed(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, deployedRoot+"/") }

// mountDeployed registers the paths below /api. Several names of one thing come from
// several generations of clients.
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

// members are the members of an answer of which each client reads some.
type members map[string]any

// plainHandle normalizes a handle as clients write it, with "@", capitals and hyphens. In the form
// "@scout@peer.example" the part after the name is kept. Letters and spaces outside ASCII are kept
// too, so that no handle has two spellings that look alike.
func plainHandle(text string) string {
	name, host, remote := strings.Cut(strings.TrimPrefix(lowerASCII(strings.Trim(text, " \t\r\n")), "@"), "@")
	name = strings.ReplaceAll(name, "-", "_")
	if remote {
		return name + "@" + host
	}
	return name
}

// first returns the first of some members that is a string with something in it.
func (o *object) first(names ...string) string {
	for _, name := range names {
		var s string
		if federation.DecodeJSON(o.members[name], &s) == nil && strings.TrimSpace(s) != "" {
			return s
		}
	}
	return ""
}

// isoTime writes a time with as many characters as any other: clients compare them as
// texts.
func isoTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// shownHandle returns how a handle is told to these clients: one of another registry
// with an "@" before it, which is what survives all that they strip.
func shownHandle(handle string) string {
	if strings.Contains(handle, "@") {
		return "@" + handle
	}
	return handle
}

// federatedID returns the name of a handle for other registries.
func (l *Link) federatedID(handle string) string {
	if strings.Contains(handle, "@") {
		return handle
	}
	return handle + "@" + l.domain
}

// getHealth answers GET /api/health and /health.
func (l *Link) getHealth(*call) (answer, error) {
	now := time.Now()
	return answer{status: http.StatusOK, body: members{
		"status": "ok", "version": envelopeVersion, "registry": l.domain, "registry_name": l.cfg.Name,
		"protocol_version": protocolVersion, "timestamp": isoTime(now),
		"agents_online": len(l.presences.list(now, func(present) bool { return true })),
	}}, nil
}

// protocolVersion is the version of the well-known documents.
const protocolVersion = "0.2.0"

// getDeployedGuide answers GET /api/register: it explains how to register.
func (l *Link) getDeployedGuide(*call) (answer, error) {
	endpoint, err := federation.JoinURL(l.deps.PublicURL, defaultPresencePath, nil)
	if err != nil {
		return answer{}, err
	}
	signed, err := federation.JoinURL(l.deps.PublicURL, "/register/challenge", nil)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: members{
		"success": true, "protocol": "airc", "version": envelopeVersion,
		"registration": members{
			"endpoint": endpoint, "method": http.MethodPost,
			"body": members{"action": "register", "username": "your_handle", "workingOn": "what you do", "publicKey": "ed25519:…"},
		},
		"signed_registration": signed,
	}}, nil
}

// self returns the agent of a call, and refuses another name in the request.
func (c *call) self(named string) (agents.Agent, error) {
	agent, err := c.caller()
	if err != nil {
		return agent, authenticationRequired(err)
	}
	if named != "" && plainHandle(named) != agent.Handle {
		return agent, refuse(codeNotYourHandle, "the token is of another handle")
	}
	return agent, nil
}

// authenticationRequired says a missing token in the words that clients look for.
func authenticationRequired(err error) error {
	if p, ok := err.(*problem); ok && p.code == codeUnauthorized { //nolint:errorlint // as it came from the token
		return refuse(codeUnauthorized, "Authentication required: "+p.message)
	}
	return err
}

package airc

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"baton/federation"
)

// postFederationConsent answers POST /federation/consent: an agent of another registry
// asks for consent, or decided about somebody here. It is taken where its registry
// signed it.
func (l *Link) postFederationConsent(c *call) (answer, error) {
	now := time.Now()
	raw, err := l.readBody(c)
	if err != nil {
		return answer{}, err
	}
	o, err := parseObject(raw)
	if err != nil {
		return answer{}, err
	}
	action := strings.TrimPrefix(o.first("type", "action"), "consent:")
	from, fromOK := parseAddress(o.first("from"))
	to, toOK := parseAddress(o.first("to"))
	if !fromOK || !toOK || to.domain != l.domain {
		return answer{}, refuse(codeBadRequest, "from and to are addresses, and to is of this registry")
	}
	if err := l.admitPeer(from.domain, now); err != nil {
		return answer{}, err
	}
	m := relayed{origin: from.domain, from: from.handle, to: to.handle, raw: raw}
	if err := l.assure(c.Context(), o, &m, now); err != nil {
		return answer{}, err
	}
	if m.assurance != assuranceRegistry {
		return answer{}, refuse(codeInvalidRegistrySignature, "consent is taken from registries that sign it")
	}
	edge, err := l.takeConsent(c.Context(), action, m, cut(o.first("message"), maxKnockChars), now)
	if err != nil {
		return answer{}, federationRefusal(err)
	}
	return answer{status: http.StatusOK, body: members{"success": true, "status": edge.State, "version": edge.Version}}, nil
}

// takeConsent notes a request for consent to somebody here, or what an agent elsewhere
// decided about the edge from somebody here to it.
func (l *Link) takeConsent(ctx context.Context, action string, m relayed, message string, now time.Time) (federation.Consent, error) {
	who, err := known(l.find(ctx, m.to))
	if err != nil {
		return federation.Consent{}, err
	}
	agent, err := l.acquaint(ctx, remote{m.from, m.origin}, now)
	if err != nil {
		return federation.Consent{}, err
	}
	switch action {
	case actionRequest:
		return l.decideDeployed(ctx, agent, who, action, message, now)
	case actionAccept:
		// The way back is for its recipient here alone to open.
		return l.deps.Registry.AcceptOneWay(ctx, who.handle, agent.Handle, now)
	case actionBlock:
		return l.deps.Registry.Block(ctx, who.handle, agent.Handle, now)
	case actionUnblock:
		return l.deps.Registry.Unblock(ctx, who.handle, agent.Handle, now)
	}
	return federation.Consent{}, refuse(codeBadRequest, "type is none of request, accept, block and unblock")
}

// consentDocument is a decision for another registry.
type consentDocument struct {
	Type      string `json:"type"`
	From      string `json:"from"`
	To        string `json:"to"`
	ToAddress string `json:"to_address"`
	Timestamp string `json:"timestamp"`
}

// shareDecision tells the registry of a handle what an agent here decided about it. It
// is told once, while the answer waits for nothing: messages are held to it here,
// whatever the other registry knows.
func (l *Link) shareDecision(action, from string, agent federation.Agent, now time.Time) func(context.Context) error {
	address, ok := parseAddress(from)
	if !ok {
		return nil
	}
	return func(ctx context.Context) error {
		p, err := l.peer(ctx, address.domain, now)
		if _, away := errors.AsType[*federation.UnavailableError](err); away || p.key == nil {
			return nil // it is away, or has no place for it
		}
		text, err := l.signForPeers(ctx, consentDocument{
			Type: action, From: "@" + agent.Handle + "@" + l.domain, To: "@" + address.String(), ToAddress: "@" + address.String(), Timestamp: isoTime(now),
		})
		if err != nil {
			return err
		}
		reply, err := l.deps.Fetch.Post(ctx, p.base+"/federation/consent", text)
		if err != nil || reply.Status >= http.StatusBadRequest {
			l.deps.Log.LogAttrs(ctx, slog.LevelInfo, "decision not shared", slog.String("network", network), slog.String("link", network),
				slog.String("peer", p.Domain), slog.String("reason", cmp.Or(http.StatusText(reply.Status), "no answer")))
		}
		return nil
	}
}

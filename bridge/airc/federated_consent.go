package airc

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"baton/bridge"
	"baton/federation"
	"baton/federation/agents"
)

// postFederationConsent answers POST /federation/consent: an agent of another registry asks
// for consent, or decided about an agent here. Its registry must have signed the request.
func (l *Link) postFederationConsent(c *call) (answer, error) {
	now := time.Now()
	o, raw, err := l.readSigned(c)
	if err != nil {
		return answer{}, err
	}
	action := strings.TrimPrefix(o.first("type", "action"), "consent:")
	from, fromOK := parseAddress(o.first("from"))
	to, toOK := parseAddress(o.first("to"))
	if !fromOK || !toOK || to.domain != l.domain {
		return answer{}, refuse(codeBadRequest, "from and to are addresses, and to is of this registry")
	}
	if err := l.checkBlocked(c.Context(), remote{from.handle, from.domain}.String()); err != nil {
		return answer{}, err
	}
	cfg, err := l.admitOrigin(c, from.domain)
	if err != nil {
		return answer{}, err
	}
	m := relayed{origin: from.domain, from: from.handle, to: to.handle, raw: raw}
	if o.first(signatureMember) != "" {
		err = l.admitSigned(c, o, &m, cfg, now)
	}
	if err != nil {
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

// takeConsent notes a request for consent to an agent here, or the decision of a remote
// agent about the edge from an agent here to it.
func (l *Link) takeConsent(ctx context.Context, action string, m relayed, message string, now time.Time) (agents.Consent, error) {
	who, err := known(l.find(ctx, m.to))
	if err != nil {
		return agents.Consent{}, err
	}
	agent, err := l.acquaint(ctx, remote{m.from, m.origin}.String(), now)
	if err != nil {
		return agents.Consent{}, err
	}
	switch action {
	case actionRequest:
		return l.decideDeployed(ctx, agent, who, action, message, now)
	case actionAccept:
		// The way back is for its recipient here alone to open.
		return l.deps.Record.AcceptOneWay(ctx, who.handle, agent.Handle, now)
	case actionBlock:
		return l.deps.Record.Block(ctx, who.handle, agent.Handle, now)
	case actionUnblock:
		return l.deps.Record.Unblock(ctx, who.handle, agent.Handle, now)
	}
	return agents.Consent{}, refuse(codeBadRequest, "type is none of request, accept, block and unblock")
}

// consentDocument is a decision for another registry, but for what each attempt adds.
type consentDocument struct {
	Type      string `json:"type"`
	From      string `json:"from"`
	To        string `json:"to"`
	ToAddress string `json:"to_address"`
	Timestamp string `json:"timestamp,omitempty"`
}

// shareDecision queues for the registry of a handle what an agent here decided about it:
// in one lane with what the agent writes to it, so that both arrive in the order in
// which they were done. When it returns nil that is on disk.
func (l *Link) shareDecision(ctx context.Context, action string, edge agents.Consent, agent agents.Agent, now time.Time) error {
	address, ok := parseAddress(edge.From)
	if !ok {
		return nil
	}
	if _, federated := l.peerConfig(address.domain); !federated {
		return nil
	}
	text, err := marshal(consentDocument{
		Type: action, From: "@" + agent.Handle + "@" + l.domain, To: "@" + address.String(), ToAddress: "@" + address.String(),
	})
	if err != nil {
		return fmt.Errorf("write decision about %s: %w", address, err)
	}
	err = l.deps.Record.Enqueue(ctx, federation.PeerDelivery{
		Kind: federation.DecisionDelivery, Peer: address.domain, Sender: agent.Handle, Message: fmt.Sprintf("consent %s %d", action, edge.Version),
		OrderKey: lane(agent.Handle, address.handle), Document: text, Queued: now,
	})
	if err != nil {
		return err
	}
	l.deps.Wakes.Wake(bridge.RelayTopic)
	return nil
}

// dressDecision returns a decision as it is sent now.
func (l *Link) dressDecision(ctx context.Context, row federation.PeerDelivery, now time.Time) ([]byte, error) {
	var doc consentDocument
	if err := federation.DecodeJSON(row.Document, &doc); err != nil {
		return nil, errUnreadableRow
	}
	doc.Timestamp = isoTime(now)
	return l.signForPeers(ctx, doc)
}

// readDecided tells what a registry made of a decision: any yes is one, and a registry
// that has no place for decisions is told no more of this one.
func readDecided(reply Reply, dialect string) fate {
	if reply.Status < http.StatusMultipleChoices && json.Valid(reply.Body) {
		return fate{delivered: true}
	}
	return readReply(reply, dialect)
}

package airc

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"baton/federation"
	"baton/federation/signing"
)

// getRegistry answers GET /.well-known/airc/registry.json: the key that signs
// what this registry itself writes and, after a rotation, those whose signatures are
// good beside it.
//
// spec: airc-v0.1.1 §9.3
func (l *Link) getRegistry(*call) (answer, error) {
	body := struct {
		Domain    string        `json:"domain"`
		Name      string        `json:"name"`
		PublicKey string        `json:"publicKey"`
		KeyID     string        `json:"kid"`
		Keys      []identityKey `json:"keys"`
	}{Domain: l.domain, Name: l.cfg.Name}
	for _, key := range l.deps.RegistryKeys(time.Now()) {
		body.Keys = append(body.Keys, registryKey(key))
	}
	body.PublicKey, body.KeyID = body.Keys[0].Public, body.Keys[0].ID
	return answer{status: http.StatusOK, body: body}, nil
}

// registryKey returns a key as agents and other registries read it. One that was
// rotated away is in transition until its overlap ends.
//
// spec: airc-v0.1.1 §5.3
func registryKey(key federation.OwnKey) identityKey {
	shown := identityKey{
		ID: signing.RegistryKeyID(key.Public), Public: base64.RawURLEncoding.EncodeToString(key.Public), Status: "active",
	}
	if !key.Since.IsZero() {
		shown.CreatedAt = new(key.Since.Unix())
	}
	if !key.Retired.IsZero() {
		shown.Status, shown.ExpiresAt = "pending", new(key.Until.Unix())
	}
	return shown
}

// getAgentDocument answers GET /airc/{registry}/{handle}/did.json: the document of the
// did:web that an agent has beside the did:key which the gateway keeps for it.
//
// spec: did:web "Read"
func (l *Link) getAgentDocument(c *call) (answer, error) {
	handle := c.PathValue("handle")
	agent, err := l.deps.Registry.Agent(c.Context(), handle)
	switch {
	case errors.Is(err, federation.ErrNotFound), err == nil && c.PathValue("registry") != l.domain:
		return answer{}, refuse(codeIdentityNotFound, "nobody here has this handle")
	case err != nil:
		return answer{}, fmt.Errorf("look up agent: %w", err)
	}
	did := l.deps.Home.DID() + federation.DID(":airc:"+l.domain+":"+agent.Handle)
	document := l.deps.AgentDocument(did, agent.KeptKey, agent.DID, agent.OwnDID)
	return answer{status: http.StatusOK, body: json.RawMessage(document)}, nil
}

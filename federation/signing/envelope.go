package signing

import (
	"context"
	"encoding/json"
	"fmt"

	"baton/federation"
)

// Envelope returns the bytes that the signature of an AIRC message covers: its canonical JSON without the
// member signature, and without seq, which the registry adds at delivery. Unknown members are covered. It
// returns an error for an envelope without a canonical form; see [federation.ExactJSON].
//
// spec: airc-v0.1.1 §6.2
func Envelope(envelope []byte) ([]byte, error) {
	canonical, err := without(envelope, "signature", "seq")
	if err != nil {
		return nil, fmt.Errorf("canonical envelope: %w", err)
	}
	return canonical, nil
}

// Message is the scheme of the message of an AIRC agent.
//
// spec: airc-v0.1.1 §6.2
func Message() Scheme {
	return Scheme{Name: "airc", Document: Envelope, Encoding: inEnvelope(), KeyID: AgentKeyID}
}

// SignEnvelope returns an AIRC envelope as canonical JSON with its signature
// added. The envelope is anything that marshals to a JSON object.
func SignEnvelope(ctx context.Context, key federation.SigningKey, envelope any) ([]byte, error) {
	text, err := json.Marshal(envelope)
	if err != nil {
		return nil, fmt.Errorf("sign envelope: %w", err)
	}
	signature, document, err := Message().Sign(ctx, key, text)
	if err != nil {
		return nil, fmt.Errorf("sign envelope: %w", err)
	}
	var members map[string]json.RawMessage
	if err := federation.DecodeJSON(document, &members); err != nil {
		return nil, fmt.Errorf("sign envelope: %w", err)
	}
	members["signature"] = json.RawMessage(`"` + signature + `"`)
	signed, err := canonicalObject(members)
	if err != nil {
		return nil, fmt.Errorf("sign envelope: %w", err)
	}
	return signed, nil
}

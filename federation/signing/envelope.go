package signing

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/gowebpki/jcs"

	"baton/federation"
)

// Envelope returns the bytes that the signature of an AIRC message covers: its
// canonical JSON without signature and without seq, which the registry adds at
// delivery. Unknown members are covered. It returns an error for an envelope
// that canonical JSON could not stand for; see [federation.ExactJSON].
//
// spec: airc-v0.1.1 §6.2
func Envelope(envelope []byte) ([]byte, error) {
	if err := federation.ExactJSON(envelope); err != nil {
		return nil, fmt.Errorf("canonical envelope: %w", err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(envelope, &members); err != nil {
		return nil, fmt.Errorf("canonical envelope: %w", err)
	}
	delete(members, "signature")
	delete(members, "seq")
	text, err := json.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("canonical envelope: %w", err)
	}
	canonical, err := jcs.Transform(text)
	if err != nil {
		return nil, fmt.Errorf("canonical envelope: %w", err)
	}
	return canonical, nil
}

// SignEnvelope returns an AIRC envelope as canonical JSON with its signature
// added. The envelope is anything that marshals to a JSON object.
func SignEnvelope(ctx context.Context, key federation.SigningKey, envelope any) ([]byte, error) {
	text, err := json.Marshal(envelope)
	if err != nil {
		return nil, fmt.Errorf("sign envelope: %w", err)
	}
	document, err := Envelope(text)
	if err != nil {
		return nil, fmt.Errorf("sign envelope: %w", err)
	}
	sig, err := key.Sign(ctx, document)
	if err != nil {
		return nil, fmt.Errorf("sign envelope: %w", err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(document, &members); err != nil {
		return nil, fmt.Errorf("sign envelope: %w", err)
	}
	members["signature"] = json.RawMessage(`"` + base64.RawURLEncoding.EncodeToString(sig) + `"`)
	text, err = json.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("sign envelope: %w", err)
	}
	signed, err := jcs.Transform(text)
	if err != nil {
		return nil, fmt.Errorf("sign envelope: %w", err)
	}
	return signed, nil
}

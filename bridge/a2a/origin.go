package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"baton/federation"
)

// evidence is the part of the evidence of an offer that says which message it was.
type evidence struct {
	Network  string `json:"network"`
	Document string `json:"document"`
}

// document is the request in the evidence of an offer.
type document struct {
	Body json.RawMessage `json:"body"`
}

// origin returns the message that an offer was read from, the zero origin for an offer of another
// network. The evidence is that of this gateway, which wrote it from what it had parsed.
func (l *Link) origin(ctx context.Context, offer federation.Event) (origin, error) {
	if offer.Evidence == nil {
		return origin{}, nil
	}
	text, err := l.deps.Record.Evidence(ctx, offer.Evidence.Digest)
	if errors.Is(err, federation.ErrNotFound) {
		return origin{}, nil
	}
	if err != nil {
		return origin{}, fmt.Errorf("read message of task %s: %w", offer.Handoff, err)
	}
	return originIn(text), nil
}

// originIn returns the message in the evidence of an offer, the zero origin where it has none.
func originIn(text []byte) origin {
	var e evidence
	var d document
	var m wire.Message
	if federation.DecodeJSON(text, &e) != nil || e.Network != network ||
		federation.DecodeJSON([]byte(e.Document), &d) != nil || federation.DecodeJSON(d.Body, &m) != nil {
		return origin{}
	}
	return origin{contextID: m.ContextID, message: &m}
}

// requestPath is the path that the evidence of an offer names.
func requestPath(agent federation.DID) string {
	if agent == "" {
		return gatewayPath
	}
	return agentPath + string(agent)
}

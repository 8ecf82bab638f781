package airc

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"baton/federation"
	"baton/federation/signing"
)

// getEvidence answers GET /evidence/{sha256}. What it serves never changes. Evidence of a
// private handoff needs the capability in its address, or a token of a party; without
// either it is not found, as evidence that is not there.
func (l *Link) getEvidence(c *call) (answer, error) {
	var digest [sha256.Size]byte
	name := c.PathValue("sha256")
	b, err := hex.DecodeString(name)
	if err != nil || copy(digest[:], b) != len(digest) || hex.EncodeToString(digest[:]) != name {
		return answer{}, refuse(codeNotFound, "evidence is named by a SHA-256 in 64 lower-case hex characters")
	}
	text, err := l.deps.Record.Evidence(c.Context(), digest)
	if errors.Is(err, federation.ErrNotFound) {
		return answer{}, errNoEvidence()
	}
	if err != nil {
		return answer{}, fmt.Errorf("read evidence: %w", err)
	}
	view, err := l.deps.Record.EvidenceOf(c.Context(), digest)
	if err != nil {
		return answer{}, fmt.Errorf("read evidence: %w", err)
	}
	if !federation.Private(view.Venue) {
		return answer{status: http.StatusOK, body: raw(text), keep: true}, nil
	}
	opens, err := signing.OpensEvidence(c.Context(), digest, c.URL.Query(), l.deps.Signer.Kept(signing.EvidenceSecret))
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("read evidence: %w", err)
	case !opens && !l.isParty(c, view):
		return answer{}, errNoEvidence()
	}
	return answer{status: http.StatusOK, body: raw(text)}, nil
}

func errNoEvidence() error { return refuse(codeNotFound, "no step here named this evidence") }

// isParty reports whether a call carries a token of a party of a handoff: of an agent, or
// of a DID that was proved over REST.
func (l *Link) isParty(c *call, v federation.View) bool {
	parties := v.Others("")
	if agent, err := c.caller(); err == nil {
		return slices.ContainsFunc(parties, agent.Is)
	}
	who, ok, err := l.deps.Authenticate(c.Request)
	return err == nil && ok && slices.Contains(parties, who.DID)
}

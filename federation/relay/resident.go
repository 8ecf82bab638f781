package relay

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"baton/federation"
)

var errOtherAnswer = errors.New("it answers something else")

// ResidentPath and a DID is the path of the answer whether the home has the mailbox of the DID.
const ResidentPath federation.URLPath = "/fed/v1/homes"

// resident says whether a home has the mailbox of a DID.
type resident struct {
	Type string            `json:"type"`
	V    int               `json:"v"`
	Home federation.HomeID `json:"home"`
	DID  federation.DID    `json:"did"`
	Here bool              `json:"here"`
}

// serveResident answers whether a DID has its mailbox here.
func (h *PeerHandler) serveResident(w http.ResponseWriter, r *http.Request) {
	did, err := federation.ParseDID(r.PathValue("did"))
	if err != nil {
		h.refuse(w, r, problem{status: http.StatusBadRequest, code: "malformed", err: err})
		return
	}
	here, err := h.Deps.Mailboxes.Here(r.Context(), did)
	if err != nil {
		h.refuse(w, r, problem{status: http.StatusServiceUnavailable, code: codeLater, err: err})
		return
	}
	h.serveSigned(w, r, resident{Type: typeResident, V: Version, Home: h.Deps.Home, DID: did, Here: here})
}

// serveSigned answers with a signed document of this home.
func (h *PeerHandler) serveSigned(w http.ResponseWriter, r *http.Request, document any) {
	answer, p := h.sign(r.Context(), document)
	if p != nil {
		h.refuse(w, r, *p)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(federation.SignatureHeader, answer.Signature)
	_, _ = w.Write(answer.Body) // the other home is gone
}

// Houses asks the other home whether a DID has its mailbox there. It blocks on the
// network.
func (p *Peer) Houses(ctx context.Context, did federation.DID) (bool, error) {
	if p.Mode() == Block {
		return false, nil
	}
	answer, err := p.read(ctx, ResidentPath.Join(string(did)))
	if err != nil {
		return false, p.unavailable(err)
	}
	if _, err := p.deps.Signer.Verify(ctx, p.cfg.Home, p.deps.Now(), answer.Body, answer.Signature); err != nil {
		return false, p.unavailable(fmt.Errorf("its answer is not signed by it: %w", err))
	}
	var found resident
	if err := parse(answer.Body, &found); err != nil {
		return false, p.unavailable(fmt.Errorf("its answer cannot be read: %w", err))
	}
	if found.Type != typeResident || found.V != Version || found.Home != p.cfg.Home || found.DID != did {
		return false, p.unavailable(errOtherAnswer)
	}
	return found.Here, nil
}

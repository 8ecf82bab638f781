package operatorapi

import (
	"context"
	"net/http"
	"time"

	"baton/bridge/operatorapi/contract"
)

// passport is the answer to a request for a passport: a signature covers each of its bytes.
type passport Document

// VisitGetPassportResponse implements [contract.GetPassportResponseObject].
func (p passport) VisitGetPassportResponse(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", p.MediaType)
	_, err := w.Write(p.Content)
	return err
}

// GetPassport implements [contract.StrictServerInterface].
func (o *Operator) GetPassport(ctx context.Context, req contract.GetPassportRequestObject) (contract.GetPassportResponseObject, error) {
	view, err := o.find(ctx, req.ID)
	if err != nil {
		return nil, err
	}
	document, err := o.deps.Passports.Passport(ctx, view, time.Now())
	return passport(document), err
}

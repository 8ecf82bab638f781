package operatorapi

import (
	"net/http"
	"time"
)

// getPassport answers GET handoffs/{id}/passport.
func (o *Operator) getPassport(w http.ResponseWriter, r *http.Request) {
	document, err := o.passport(r)
	if err != nil {
		o.tell(w, r, err)
		return
	}
	w.Header().Set("Content-Type", document.MediaType)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(document.Content) // the client is gone
}

func (o *Operator) passport(r *http.Request) (Document, error) {
	if err := known(r.URL.Query()); err != nil {
		return Document{}, err
	}
	view, err := o.find(r.Context(), r.PathValue("id"))
	if err != nil {
		return Document{}, err
	}
	return o.deps.Passports.Passport(r.Context(), view, time.Now())
}

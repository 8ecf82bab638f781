package page

import (
	"net/http"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/route"
)

// PairPath is the form for a pairing code, linked from the authorize page of agent hosts.
const PairPath = prefix + "pair"

type pairView struct{ DID, Reason, Command string }

func (p *Page) askPair(w http.ResponseWriter, r *http.Request, s session) {
	if !p.request(r.Context(), s.token, r.URL).may(admin.CreatePairingCode.Scope) {
		p.fail(w, r, &s, http.StatusForbidden, "A pairing code needs a token of the scope admin.")
		return
	}
	p.renderPair(w, r, s, http.StatusOK, "")
}

func (p *Page) renderPair(w http.ResponseWriter, r *http.Request, s session, status int, alert string) {
	form := &pairView{plain(r.FormValue("did")), plain(r.PostFormValue("reason")), "baton token pair --did DID --reason …"}
	p.render(w, r, status, &s, view{Title: "Pair a host", Alert: plain(alert), Pair: form})
}

// Only the next page of the session shows the code.
func (p *Page) pair(w http.ResponseWriter, r *http.Request, s session) {
	request := p.request(r.Context(), s.token, r.URL)
	ask := admin.PairAsk{DID: strings.TrimSpace(r.PostFormValue("did")), Reason: strings.TrimSpace(r.PostFormValue("reason"))}
	if ask.Reason == "" && request.may(admin.CreatePairingCode.Scope) {
		p.renderPair(w, r, s, http.StatusUnprocessableEntity, "A reason is required for the audit log.")
		return
	}
	made, err := call(request, admin.CreatePairingCode, route.JSON(ask))
	if status, detail := problem(err); err != nil && status == http.StatusBadRequest {
		p.renderPair(w, r, s, status, detail)
		return
	}
	if err != nil {
		p.failWith(w, r, &s, err)
		return
	}
	until := time.Time(made.ExpiresAt).UTC().Format("15:04 MST")
	p.sessions.notify(s.id, "The pairing code "+made.Code+" logs in one host as "+plain(string(made.DID))+", until "+until+". It is not shown again.")
	http.Redirect(w, r, PairPath, http.StatusSeeOther)
}

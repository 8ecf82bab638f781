package page

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

type action struct {
	back  string // page with its list, unless the form names another one
	noun  string
	needs federation.Scope
	// send requests the change from the API, and returns the number of changed items.
	send func(r request, f form, act admin.Act) (int, error)
	// choices are the values of the field beside the reason, if any.
	choices []string
	effect  string // description of the change to a name
	done    string // resulting state of the name
}

type form struct {
	verb, name   string
	link, peer   string
	older, cause string // age and cause of the filter
	rows         []string
	choice, back string
}

func actionOf(list, verb string) (action, bool) {
	a, ok := map[string]action{
		"links":    {back: "links", noun: "link", needs: admin.ChangeLink.Scope, send: changeLink},
		"feeds":    {back: "feeds", noun: "feed", needs: admin.ChangeFeed.Scope, send: changeFeed},
		"dead":     {back: "dead", noun: "dead", needs: admin.SettleDead.Scope, send: settleDead},
		"peers":    {back: "peers", noun: "peer", needs: admin.SetPeerMode.Scope, send: setMode, choices: []string{"allow", "limit", "hold", "block"}},
		"webhooks": {back: "webhooks", noun: "webhook", needs: admin.ChangeWebhook.Scope, send: changeWebhook},
		"blocks":   {back: "blocks", noun: "block", needs: admin.Unblock.Scope, send: unblock},
		"sessions": {back: "sessions", noun: "session", needs: admin.EndSessions.Scope, send: endSession},
		"held":     {back: "peers", noun: "airc", needs: admin.SettleHeld.Scope, send: settleHeld},
	}[list]
	texts, known := map[string][2]string{
		"links/dial": {
			"The link dials now instead of later. A link that is up stays as it is. A link that an operator disconnected is connected again.", "dials now",
		},
		"feeds/hold": {
			"No delivery is made to this destination until it is released. Its deliveries wait on disk. Its link stays connected.", "is held",
		},
		"feeds/release":      {"Deliveries to this destination go on, the oldest first.", "is released"},
		"feeds/retry":        {"Deliveries are tried now instead of later.", "is tried now"},
		"feeds/fail":         {"The deliveries become dead letters, and their senders get a notice.", "is given up"},
		"feeds/drop":         {"The deliveries are deleted permanently. Their senders get no notice, and there is no dead letter.", "is dropped"},
		"sessions/end":       {"The client of this session has to log in again. Its tokens, streams and leases end.", "has ended"},
		"dead/replay":        {"Deliveries are scheduled for now. Replaying twice is harmless.", "is replayed"},
		"dead/drop":          {"Dead letters are deleted permanently, and their signers get a notice.", "is dropped"},
		"peers/mode":         {"The mode limits the steps of this peer and the deliveries to it."},
		"webhooks/redeliver": {"The failed deliveries of this webhook are tried again now.", "is called again"},
		"webhooks/enable":    {"Its address is checked again, and the unread entries of the inbox are posted.", "is enabled"},
		"blocks/remove":      {"This source may send, log in and connect again.", "is not blocked any more"},
		"held/allow":         {"The message is delivered. Later messages of the same sender are held again.", "is delivered"},
		"held/drop":          {"The message is deleted permanently.", "is dropped"},
	}[list+"/"+verb]
	a.back, a.effect, a.done = prefix+a.back, texts[0], texts[1]
	return a, ok && known
}

func changeLink(r request, f form, act admin.Act) (int, error) {
	done, err := call(r, admin.ChangeLink, admin.LinkChange{Name: f.name, Verb: f.verb, Body: route.JSON(act)})
	return done.Changed, err
}

func changeWebhook(r request, f form, act admin.Act) (int, error) {
	done, err := call(r, admin.ChangeWebhook, admin.WebhookChange{ID: f.name, Verb: f.verb, Body: route.JSON(act)})
	return done.Changed, err
}

func unblock(r request, f form, act admin.Act) (int, error) {
	done, err := call(r, admin.Unblock, admin.Unblocking{What: f.name, Removal: admin.Removal(act)})
	return done.Changed, err
}

func settleHeld(r request, f form, act admin.Act) (int, error) {
	done, err := call(r, admin.SettleHeld, admin.IDChange{ID: f.name, Verb: f.verb, Body: route.JSON(act)})
	return done.Changed, err
}

func endSession(r request, f form, act admin.Act) (int, error) {
	done, err := call(r, admin.EndSessions, admin.SessionsEnd{DID: f.name, Body: route.JSON(act)})
	return done.Changed, err
}

// A dry run without a choice tries the strictest mode.
func setMode(r request, f form, act admin.Act) (int, error) {
	if f.choice == "" && act.DryRun {
		f.choice = "block"
	}
	_, err := call(r, admin.SetPeerMode, admin.PeerMode{Name: f.name, Body: route.JSON(admin.Mode{Act: act, Mode: f.choice})})
	return 1, err
}

type confirmView struct {
	Verb, Name, Effect, Command string
	Changes                     int
	Path, Back, Reason          string
	Link, Peer, Older, Cause    string
	Rows                        []string
	Choices                     []string
	Choice                      string
}

func formOf(r *http.Request, a action) form {
	f := form{
		verb: r.PathValue("verb"), name: r.PathValue("name"), link: r.FormValue("link"), peer: r.FormValue("peer"), choice: r.FormValue("mode"), back: a.back,
		older: r.FormValue("older"), cause: r.FormValue("reason"),
	}
	if r.Method == http.MethodPost {
		f.cause = r.PostFormValue("cause")
	}
	f.rows = r.Form["row"]
	if back := r.FormValue("back"); back != "" {
		f.back = below(back)
	}
	return f
}

func (p *Page) confirm(w http.ResponseWriter, r *http.Request, s session) {
	a, ok := actionOf(r.PathValue("list"), r.PathValue("verb"))
	if !ok {
		p.fail(w, r, &s, http.StatusNotFound, "There is no such action.")
		return
	}
	f := formOf(r, a)
	p.renderForm(w, r, s, a, f, http.StatusOK, "")
}

func (p *Page) renderForm(w http.ResponseWriter, r *http.Request, s session, a action, f form, status int, alert string) {
	shown, err := confirmation(p.request(r.Context(), s.token, r.URL), a, f)
	if err != nil {
		p.failWith(w, r, &s, err)
		return
	}
	shown.Path, shown.Reason = r.URL.EscapedPath(), r.PostFormValue("reason")
	p.render(w, r, status, &s, view{Title: shown.Verb + " " + shown.Name, Alert: plain(alert), Confirm: shown})
}

func confirmation(r request, a action, f form) (*confirmView, error) {
	changes, err := a.send(r, f, admin.Act{DryRun: true})
	if err != nil {
		return nil, err
	}
	var commands []string
	for _, words := range commandsOf(a, f) {
		commands = append(commands, render.Shell(append(words, "--reason", "…")...))
	}
	return &confirmView{
		Verb: strings.ToUpper(f.verb[:1]) + f.verb[1:], Name: f.subject(), Effect: a.effect, Changes: changes, Back: f.back, Link: f.link, Peer: f.peer, Older: f.older, Cause: f.cause, Rows: f.rows,
		Command: strings.Join(commands, " && "), Choices: a.choices, Choice: f.choice,
	}, nil
}

func (p *Page) act(w http.ResponseWriter, r *http.Request, s session) {
	a, ok := actionOf(r.PathValue("list"), r.PathValue("verb"))
	if !ok {
		p.fail(w, r, &s, http.StatusNotFound, "There is no such action.")
		return
	}
	f, reason := formOf(r, a), strings.TrimSpace(r.PostFormValue("reason"))
	request := p.request(r.Context(), s.token, r.URL)
	if !request.may(a.needs) { // before the form is read, so that the answer is the same for all
		_, err := a.send(request, f, admin.Act{DryRun: true})
		p.failWith(w, r, &s, err)
		return
	}
	switch {
	case reason == "":
		p.renderForm(w, r, s, a, f, http.StatusUnprocessableEntity, "A reason is required for the audit log.")
		return
	case a.choices != nil && !slices.Contains(a.choices, f.choice):
		p.renderForm(w, r, s, a, f, http.StatusUnprocessableEntity, "Choose a mode.")
		return
	}
	changed, err := a.send(request, f, admin.Act{Reason: reason})
	if err != nil {
		p.failWith(w, r, &s, err)
		return
	}
	p.sessions.notify(s.id, describeResult(a, f, changed))
	http.Redirect(w, r, f.back, http.StatusSeeOther)
}

func describeResult(a action, f form, changed int) string {
	switch {
	case a.choices != nil:
		return plain(f.name) + " has the mode " + plain(f.choice) + " now."
	case f.many():
		return fmt.Sprintf("%s: %d changed.", strings.ToUpper(f.verb[:1])+f.verb[1:], changed)
	case changed == 0:
		return "Nothing was changed: " + plain(f.name) + " was already in that state."
	}
	return plain(f.name) + " " + a.done + "."
}

package page

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"baton/bridge"
	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// states returns the states that a list may be narrowed to.
func states() []string {
	var all []string
	for _, s := range []federation.State{
		federation.Offered, federation.Open, federation.Assigned, federation.Completed, federation.Failed, federation.Declined, federation.Cancelled, federation.Expired,
	} {
		all = append(all, string(s))
	}
	return append(all, "awarded", "accepted", "forfeited")
}

// loadHandoffs shows handoffs, the newest movement first.
func loadHandoffs(r request) (view, error) {
	search, wanted := r.query.Get("search"), r.query.Get("state")
	page, err := call(r, contract.ListHandoffs, contract.HandoffQuery{Search: search, State: wanted, Watching: r.watching()})
	t := &table{
		Caption: "Handoffs", Columns: []string{"ID", "Kind", "State", "Title", "Channel", "Offerer", "With", "Moved"}, Empty: "There is no such handoff.",
		Older: r.older("handoffs", page.NextCursor),
	}
	if page.NextCursor != "" {
		t.Empty = "None so far: Older looks at older handoffs."
	}
	for _, h := range page.Items {
		with := h.Assignee
		if with == "" {
			with = h.Offeree
		}
		t.Rows = append(t.Rows, row{h.ID.String(), []cell{
			handoffCell(h.ID), words(h.Kind), stateOf(h), long(h.ShownTitle()), words(venueOf(h)), words(h.Offerer.Short()), words(with.Short()), at(h.Moved, r.now),
		}})
	}
	command := slices.Concat([]string{"handoff", "list"}, r.flag("search"), r.flag("state"))
	return view{
		Title: "Handoffs", Search: &searchView{Text: search, State: wanted, States: states()},
		Sections: []section{{ID: "handoffs", Table: t, Command: r.command(command...)}},
	}, err
}

// handoffCell returns a cell with the ID of a handoff that leads to its page.
func handoffCell(id federation.HandoffID) cell {
	if id.IsZero() {
		return cell{}
	}
	return linked(id.String(), prefix+"handoffs/"+id.String())
}

func stateOf(h contract.Handoff) cell {
	c := state(h.State)
	if h.Orphaned {
		c.Text += " (orphaned)"
	}
	return c
}

func venueOf(h contract.Handoff) string {
	if federation.Private(h.Venue) {
		return "private"
	}
	return h.Venue
}

// loadHandoff shows a handoff with its timeline.
func loadHandoff(r request, id string) (view, error) {
	h, err := call(r, contract.GetHandoff, contract.IDPage{ID: id, Paging: r.page()})
	if err != nil {
		return view{}, err
	}
	full := h.ID.String()
	details := []detail{
		about("ID", words(full)), about("Kind", words(h.Kind)), about("State", stateOf(h)), about("Home", words(h.Home)), about("Channel", words(venueOf(h))),
		about("Dialect", words(h.Dialect)), about("Offerer", long(string(h.Offerer))), about("Offeree", long(string(h.Offeree))), about("Assignee", long(string(h.Assignee))),
		about("Capabilities", words(strings.Join(h.Caps, ", "))), about("Deadline", at(h.Deadline, r.now)), about("Opened", at(h.Opened, r.now)), about("Moved", at(h.Moved, r.now)),
		about("Orphaned", long(h.OrphanReason)),
	}
	details = slices.DeleteFunc(details, func(d detail) bool { return d.Value.Text == "" && d.Value.At == nil })
	details = slices.Insert(details, 1, about("Title", long(h.ShownTitle())))
	steps := &timeline{}
	for _, s := range h.Steps {
		shown, err := shapeStep(r, s)
		if err != nil {
			return view{}, err
		}
		steps.Steps = append(steps.Steps, shown)
	}
	if h.NextCursor != "" {
		steps.Later = prefix + "handoffs/" + full + "?" + url.Values{"cursor": {h.NextCursor}}.Encode()
	}
	return view{
		Title: "Handoffs", About: full, Steps: steps,
		Sections: []section{{ID: "handoff", Details: details, Command: "baton handoff show " + full}},
		Links:    []link{{Verb: "Passport", Href: prefix + "handoffs/" + full + "/passport"}},
	}, nil
}

// shapeStep returns a step with what was signed.
func shapeStep(r request, s contract.Step) (step, error) {
	shown := step{
		Key: s.EventID.String(), Verb: plain(string(s.Verb)), DID: plain(string(s.From)), By: plain(s.Link + ": " + s.Name), Provenance: plain(string(s.Provenance)),
		Verdict: plain(s.Verdict), Note: plain(s.Note), At: momentOf(s.Time, r.now),
	}
	if s.For != "" {
		shown.DID = plain(string(s.For))
	}
	if s.Evidence != nil {
		shown.Evidence = s.Evidence.URL
	}
	for _, d := range s.Delivered {
		c := state(d.State)
		c.Text = plain(strings.Join(slices.DeleteFunc([]string{string(d.State), d.Via, d.To, d.Code}, func(s string) bool { return s == "" }), " "))
		c.At = momentOf(d.Time, r.now)
		shown.Deliveries = append(shown.Deliveries, c)
	}
	e, err := call(r, contract.ExplainEvent, contract.ByID{ID: shown.Key})
	if p, ok := errors.AsType[*bridge.ProblemError](err); ok && p.Status == http.StatusNotFound {
		return shown, nil // it was pruned since the handoff was read
	}
	if err != nil {
		return step{}, err
	}
	shown.Signed = []detail{
		about("Event", words(shown.Key)), about("Signed bytes", cell{Text: plain(e.Document), Class: "raw"}), about("Signature", cell{Text: plain(e.Signature), Class: "raw"}),
		about("Signed by", long(string(s.From))), about("Key", long(e.Key.KeyID+" "+e.Key.Public)), about("Key from", long(e.Key.Source)), about("Why it holds", long(e.Why)),
	}
	return shown, nil
}

// passport serves the passport of a handoff as a file.
func (p *Page) passport(w http.ResponseWriter, r *http.Request, s session) {
	id, ask := r.PathValue("id"), p.request(r.Context(), s.token, r.URL)
	text, err := ask.api.Passport(ask.ctx, id) //nolint:contextcheck // it is that of r
	if err != nil {
		p.failWith(w, r, &s, err)
		return
	}
	w.Header().Set("Content-Type", "application/vnd.baton.passport+json")
	w.Header().Set("Content-Disposition", `attachment; filename="passport.json"`)
	_, _ = w.Write(text) // the client is gone
}

package page

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"baton/bridge"
	"baton/bridge/admin/contract"
	"baton/bridge/admin/render"
	"baton/federation"
)

// view is what a page shows. Each text in it went through [plain].
type view struct {
	Title    string // the heading, and the first words of the title
	About    string // after the title, such as the name of a link
	Alert    string // an error
	Status   string // what an action did
	Login    *loginView
	Search   *searchView
	Sections []section
	Steps    *timeline
	Links    []link // to what belongs to the page, such as a passport
	Confirm  *confirmView
}

// loginView is the form of the login.
type loginView struct{ Next string }

// searchView is the form above a list.
type searchView struct {
	Text, State string
	States      []string
}

// section is a table, or details of one thing, and the command that prints the same.
type section struct {
	ID      string
	Table   *table
	Details []detail
	Command string
	Actions []link // that belong to no row
	Intro   string // before the actions
}

// table is a list.
type table struct {
	Caption string
	Columns []string
	Rows    []row
	Empty   string // said where there is no row
	Older   string // address of the next page, "" after the last
}

// row is one line of a table. Its key is that of the same row in a newer page.
type row struct {
	Key   string
	Cells []cell
}

// detail is one line about a thing.
type detail struct {
	Name  string
	Value cell
}

// cell is a value with its form.
type cell struct {
	Text  string
	Href  string
	Class string // for the style sheet: "num", "state", "heat2", "long"
	At    *moment
	Acts  []link
}

// moment is a time with its distance from now.
type moment struct{ Full, Short, Age string }

// link is a link whose accessible name is Verb and Name.
type link struct{ Verb, Name, Href string }

// timeline is the steps of a handoff.
type timeline struct {
	Steps []step
	Later string // address of the next steps, "" after the last
}

// step is one step of a timeline.
type step struct {
	Key, Verb, DID, By, Provenance, Verdict, Note string
	At                                            *moment
	Evidence                                      string // address
	Deliveries                                    []cell
	Signed                                        []detail
}

// plain returns a text in which a reader sees every character: control characters and
// characters that change the direction of text are written as U+ and their number.
func plain(s string) string {
	hidden := func(r rune) bool {
		return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co) && r != zeroWidthJoiner && r != zeroWidthNonJoiner
	}
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			fmt.Fprintf(&b, "U+%04X", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Scripts and emoji need these two, and neither moves other text.
const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

// words returns a cell of text.
func words[T ~string](s T) cell { return cell{Text: plain(string(s))} }

// long returns a cell of text that may take several lines.
func long(s string) cell { return cell{Text: plain(s), Class: "long"} }

// linked returns a cell of text that leads to another page.
func linked(s, href string) cell { return cell{Text: plain(s), Href: href} }

// number returns a cell of a count.
func number[T int | int64 | uint64](n T) cell { return cell{Text: fmt.Sprint(n), Class: "num"} }

// state returns a cell of a state, whose word the style sheet may colour.
func state[T ~string](s T) cell {
	return cell{Text: plain(string(s)), Class: "state s-" + classWord(string(s))}
}

// classWord returns a word as part of the name of a class.
func classWord(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r == '-' {
			return r
		}
		return -1
	}, strings.ToLower(s))
}

// acts returns a cell of actions.
func acts(all ...link) cell { return cell{Class: "acts", Acts: all} }

// at returns a cell of a time, empty for none.
func at(m contract.Moment, now time.Time) cell {
	return cell{At: momentOf(m, now), Class: "at"}
}

// momentOf returns a time with its distance from now, nil for none.
func momentOf(m contract.Moment, now time.Time) *moment {
	if m.IsZero() {
		return nil
	}
	t := time.Time(m).UTC()
	age := render.Age(m, now) + " ago"
	if t.After(now) {
		age = "in " + render.Until(m, now)
	}
	return &moment{Full: m.String(), Short: t.Format("2006-01-02 15:04:05"), Age: age}
}

// about returns a detail.
func about(name string, value cell) detail { return detail{Name: name, Value: value} }

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
	document, err := ask.api.Passport(ask.ctx, id) //nolint:contextcheck // it is that of r
	if err != nil {
		p.failWith(w, r, &s, err)
		return
	}
	w.Header().Set("Content-Type", "application/vnd.baton.passport+json")
	w.Header().Set("Content-Disposition", `attachment; filename="passport.json"`)
	_, _ = w.Write(document) // the client is gone
}

// loadPeers shows the other homes and registries.
func loadPeers(r request) (view, error) {
	changes := contract.SetPeerMode.Scope
	page, err := call(r, contract.ListPeers, r.page())
	if err != nil {
		return view{}, err
	}
	t := &table{
		Caption: "Peers", Columns: []string{"Name", "Network", "Mode", "State", "Path", "Heard", "Waiting", "Oldest", "Dead", "Clock ahead by", "Forks", "Doubts", "Last error"},
		Empty: "No other home or registry is known.", Older: r.older("peers", page.NextCursor),
	}
	r.addActions(t, changes)
	forks := &table{Caption: "Forks", Columns: []string{"Peer", "Handoff", "From step", "Found"}}
	doubts := &table{Caption: "Doubts", Columns: []string{"Peer", "Kind", "Times", "First", "Last", "Why"}}
	for _, p := range page.Items {
		mode := p.Mode
		if p.Held {
			mode += " (held)"
		}
		home := p.PeerHome
		if home == nil {
			home = &contract.PeerHome{}
		}
		cells := []cell{
			words(p.Name), words(p.Network), state(mode), state(home.State), words(home.Path), at(home.LastHeard, r.now), number(p.Waiting), at(p.Oldest, r.now), number(p.Dead),
			skew(p), number(len(home.Forks)), number(len(home.Doubts)), long(p.LastError),
		}
		t.Rows = append(t.Rows, row{p.Name + " " + p.Network, r.withActions(cells, changes, r.act("peers", p.Name, "mode"))})
		for _, f := range home.Forks {
			forks.Rows = append(forks.Rows, row{p.Name + f.Handoff.String(), []cell{words(p.Name), handoffCell(f.Handoff), number(uint64(f.Version)), at(f.Found, r.now)}})
		}
		for _, d := range home.Doubts {
			doubts.Rows = append(doubts.Rows, row{p.Name + string(d.Kind), []cell{words(p.Name), words(d.Kind), number(d.Times), at(d.First, r.now), at(d.Last, r.now), long(d.Why)}})
		}
	}
	v := view{Title: "Peers", Sections: []section{{ID: "peers", Table: t, Command: r.command("peer", "list")}}}
	for _, each := range []section{{ID: "forks", Table: forks}, {ID: "doubts", Table: doubts}} {
		if len(each.Table.Rows) > 0 {
			each.Command = "baton peer list --json"
			v.Sections = append(v.Sections, each)
		}
	}
	return v, nil
}

// skew returns a cell of how far our clock is ahead of the clock of a home.
func skew(p contract.Peer) cell {
	if p.PeerHome == nil {
		return cell{}
	}
	return cell{Text: strconv.FormatFloat(p.SkewSeconds, 'f', 1, 64) + " s", Class: "num"}
}

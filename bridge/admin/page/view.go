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

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/federation"
)

// view is the content of a page. Each text has passed through [plain].
type view struct {
	Title    string // heading, and the first words of the title
	About    string // rest of the title, such as the name of a link
	Alert    string
	Status   string
	Login    *loginView
	Search   *searchView
	Filter   *filterView
	Sections []section
	Steps    *timeline
	Links    []link // related documents, such as a passport
	Confirm  *confirmView
	Pair     *pairView
}

type loginView struct{ Next string }

type searchView struct {
	Text, State string
	States      []string
}

type filterView struct{ Fields []filterField }

type filterField struct{ Name, Label, Value string }

// The filters are pairs of a parameter and its label.
func (r request) filter(pairs ...string) *filterView {
	f := &filterView{}
	for i := 0; i+1 < len(pairs); i += 2 {
		f.Fields = append(f.Fields, filterField{pairs[i], pairs[i+1], plain(r.query.Get(pairs[i]))})
	}
	return f
}

type section struct {
	ID      string
	Title   string // heading of a section without a table
	Table   *table
	Details []detail
	Command string
	Charts  []chart
	Bulk    *bulk // actions on many rows; may be nil
	Actions []link
	Intro   string
}

type table struct {
	Caption string
	Columns []heading
	Rows    []row
	Empty   string
	Older   string // address of the next page, "" after the last
}

// heading is a column heading. A narrow window omits the class "wide".
type heading struct{ Text, Class string }

// row is one line of a table. Its key is stable across versions of the page.
type row struct {
	Key   string
	Pick  string // value of its checkbox; "" without bulk actions
	Cells []cell
}

type detail struct {
	Name  string
	Value cell
}

type cell struct {
	Text  string
	Href  string
	Class string // for the style sheet: "num", "state", "heat2", "long"
	At    *moment
	Acts  []link
}

type moment struct{ Full, Short, Age string }

type link struct{ Verb, Name, Href string }

type timeline struct {
	Steps []step
	Later string // address of the next steps, "" after the last
}

type step struct {
	Key, Verb, DID, By, Provenance, Verdict, Note string
	At                                            *moment
	Evidence                                      string
	Deliveries                                    []cell
	Signed                                        []detail
}

// plain writes control characters, and characters that change the direction of text, as U+ and
// their number.
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

// Scripts and emoji need these two, and neither reorders other text.
const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
)

func (r request) cell(v render.Value) cell {
	c := cell{Text: plain(v.Text), Class: v.Class, At: momentOf(v.At, r.now)}
	if v.Link != "" {
		c.Href = prefix + v.Link
	}
	return c
}

type list[T any] struct {
	render.Table[T]

	id   string
	page admin.Page[T]
	// cursor is the parameter with the position in the list; "" for a list of one page.
	cursor string
	flags  []string
	needs  federation.Scope
	acts   func(item T) []link // may be nil; shown if the session has the scope
	pick   func(item T) string // value of a row's checkbox; may be nil
}

func (l list[T]) section(r request) section {
	shown := &table{Caption: l.Caption, Empty: l.Empty, Older: r.older(l.cursor, l.page.NextCursor)}
	width := func(page string) string {
		if slices.Contains(l.Wide, page) {
			return "wide"
		}
		return ""
	}
	for _, c := range l.Columns {
		if c.Page != "" {
			class := width(c.Page)
			if len(l.page.Items) > 0 && slices.Contains(strings.Fields(c.Value(l.page.Items[0]).Class), "num") {
				class = strings.TrimSpace(class + " num")
			}
			shown.Columns = append(shown.Columns, heading{c.Page, class})
		}
	}
	mayAct := l.acts != nil && r.may(l.needs)
	if mayAct {
		shown.Columns = append(shown.Columns, heading{Text: "Actions"})
	}
	for _, item := range l.page.Items {
		one := row{Key: l.Key(item)}
		if l.pick != nil {
			one.Pick = l.pick(item)
		}
		for _, c := range l.Columns {
			if c.Page != "" {
				shown := r.cell(c.Value(item))
				shown.Class = strings.TrimSpace(shown.Class + " " + width(c.Page))
				one.Cells = append(one.Cells, shown)
			}
		}
		if mayAct {
			one.Cells = append(one.Cells, cell{Class: "acts", Acts: l.acts(item)})
		}
		shown.Rows = append(shown.Rows, one)
	}
	words := slices.Concat([]string{"baton"}, strings.Fields(l.Command), l.flags)
	if position := r.query.Get(l.cursor); l.cursor != "" && position != "" {
		words = append(words, "--cursor="+position)
	}
	return section{ID: l.id, Table: shown, Command: render.Shell(words...)}
}

func momentOf(m admin.Moment, now time.Time) *moment {
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

func (r request) about(name string, v render.Value) detail { return detail{name, r.cell(v)} }

func given(all ...detail) []detail {
	return slices.DeleteFunc(all, func(d detail) bool { return d.Value.Text == "" && d.Value.At == nil })
}

func states() []string {
	var all []string
	for _, s := range []federation.State{
		federation.Offered, federation.Open, federation.Assigned, federation.Completed, federation.Failed, federation.Declined, federation.Cancelled, federation.Expired,
	} {
		all = append(all, string(s))
	}
	return append(all, "awarded", "accepted", "forfeited")
}

func loadHandoffs(r request) (view, error) {
	search, wanted := r.query.Get("search"), r.query.Get("state")
	page, err := call(r, admin.ListHandoffs, admin.HandoffQuery{Search: search, State: wanted, Watching: r.watching()})
	l := list[admin.Handoff]{Table: render.Handoffs, id: "handoffs", page: page, cursor: "cursor", flags: slices.Concat(r.flag("search"), r.flag("state"))}
	if page.NextCursor != "" {
		l.Empty = "None so far: Older looks at older handoffs."
	}
	return view{Title: "Handoffs", Search: &searchView{Text: search, State: wanted, States: states()}, Sections: []section{l.section(r)}}, err
}

func loadHandoff(r request, id string) (view, error) {
	h, err := call(r, admin.GetHandoff, admin.IDPage{ID: id, Paging: r.page()})
	if err != nil {
		return view{}, err
	}
	full := h.ID.String()
	details := given(
		r.about("ID", render.Text(full)), r.about("Kind", render.Text(h.Kind)), r.about("State", render.HandoffState(h)), r.about("Home", render.Text(h.Home)),
		r.about("Channel", render.Text(render.Venue(h.Venue))), r.about("Dialect", render.Text(h.Dialect)),
		r.about("Offerer", render.Long(h.Offerer)), r.about("Offeree", render.Long(h.Offeree)), r.about("Assignee", render.Long(h.Assignee)),
		r.about("Capabilities", render.Text(strings.Join(h.Caps, ", "))), r.about("Deadline", render.Time(h.Deadline)),
		r.about("Opened", render.Time(h.Opened)), r.about("Moved", render.Time(h.Moved)), r.about("Orphaned", render.Long(h.OrphanReason)),
	)
	details = slices.Insert(details, 1, r.about("Title", render.Long(h.ShownTitle())))
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

func shapeStep(r request, s admin.Step) (step, error) {
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
		v := render.State(d.State)
		v.Text = strings.Join(slices.DeleteFunc([]string{string(d.State), d.Via, d.To, d.Code, holdText(d.Hold)}, func(s string) bool { return s == "" }), " ")
		v.At = d.Time
		shown.Deliveries = append(shown.Deliveries, r.cell(v))
	}
	e, err := call(r, admin.ExplainEvent, admin.ByID{ID: shown.Key})
	if p, ok := errors.AsType[*bridge.ProblemError](err); ok && p.Status == http.StatusNotFound {
		return shown, nil // it was pruned since the handoff was read
	}
	if err != nil {
		return step{}, err
	}
	shown.Signed = []detail{
		r.about("Event", render.Text(shown.Key)), r.about("Signed bytes", render.Raw(e.Document)), r.about("Signature", render.Raw(e.Signature)),
		r.about("Signed by", render.Long(s.From)), r.about("Key", render.Long(e.Key.KeyID+" "+e.Key.Public)), r.about("Key from", render.Long(e.Key.Source)),
		r.about("Why it holds", render.Long(e.Why)),
	}
	return shown, nil
}

func holdText(h admin.Hold) string {
	switch {
	case h.HeldSince.IsZero() && h.PeerMode != "":
		return "(held by the mode of the home)"
	case h.HeldSince.IsZero():
		return ""
	}
	return "(held by an operator since " + h.HeldSince.String() + ": " + h.HoldReason + ")"
}

func (p *Page) passport(w http.ResponseWriter, r *http.Request, s session) {
	id, ask := r.PathValue("id"), p.request(r.Context(), s.token, r.URL)
	document, err := ask.api.Passport(ask.ctx, id) //nolint:contextcheck // r has the context
	if err != nil {
		p.failWith(w, r, &s, err)
		return
	}
	w.Header().Set("Content-Type", "application/vnd.baton.passport+json")
	w.Header().Set("Content-Disposition", `attachment; filename="passport.json"`)
	_, _ = w.Write(document) // the client is gone
}

func loadPeers(r request) (view, error) {
	page, err := call(r, admin.ListPeers, r.page())
	if err != nil {
		return view{}, err
	}
	heldPage, err := call(r, admin.ListHeld, admin.HeldQuery{Watching: admin.Watching{Paging: admin.Paging{Cursor: r.query.Get("held")}}})
	if err != nil {
		return view{}, err
	}
	var forks admin.Page[render.PeerFork]
	var doubts admin.Page[render.PeerDoubt]
	for _, p := range page.Items {
		if p.PeerHome == nil {
			continue
		}
		for _, f := range p.Forks {
			forks.Items = append(forks.Items, render.PeerFork{Peer: p.Name, Fork: f})
		}
		for _, d := range p.Doubts {
			doubts.Items = append(doubts.Items, render.PeerDoubt{Peer: p.Name, Doubt: d})
		}
	}
	peers := list[admin.Peer]{
		Table: render.Peers, id: "peers", page: page, cursor: "cursor",
		needs: admin.SetPeerMode.Scope, acts: func(p admin.Peer) []link { return []link{r.act("peers", p.Name, "mode")} },
	}
	held := list[admin.Held]{
		Table: render.HeldRelays, id: "held", page: heldPage, cursor: "held", needs: admin.SettleHeld.Scope,
		acts: func(h admin.Held) []link {
			id := strconv.FormatInt(h.ID, 10)
			return []link{r.act("held", id, "allow"), r.act("held", id, "drop")}
		},
	}
	v := view{Title: "Peers", Sections: []section{peers.section(r), held.section(r)}}
	if len(forks.Items) > 0 {
		v.Sections = append(v.Sections, list[render.PeerFork]{Table: render.Forks, id: "forks", page: forks}.section(r))
	}
	if len(doubts.Items) > 0 {
		v.Sections = append(v.Sections, list[render.PeerDoubt]{Table: render.Doubts, id: "doubts", page: doubts}.section(r))
	}
	return v, nil
}

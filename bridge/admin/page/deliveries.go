package page

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"baton/bridge/admin/contract"
	"baton/federation"
)

// loadLinks shows the links.
func loadLinks(r request) (view, error) {
	page, err := readLinks(r)
	t := &table{
		Caption: "Links", Columns: []string{"Name", "Network", "State", "Heard", "Waiting", "Oldest", "Next dial", "Last error"},
		Empty: "The configuration has no link.", Older: r.older("links", page.NextCursor),
	}
	r.addActions(t, contract.ChangeLink.Scope)
	for _, l := range page.Items {
		cells := []cell{
			linked(l.Name, prefix+"links/"+url.PathEscape(l.Name)), words(l.Network), state(l.State), at(l.LastHeard, r.now), number(l.Waiting),
			at(l.Oldest, r.now), at(l.NextDial, r.now), long(l.LastError),
		}
		t.Rows = append(t.Rows, row{l.Name, r.withActions(cells, contract.ChangeLink.Scope, r.act("links", l.Name, "dial"))})
	}
	return view{Title: "Links", Sections: []section{{ID: "links", Table: t, Command: r.command("link", "list")}}}, err
}

func readLinks(r request) (contract.Page[contract.Link], error) {
	return call(r, contract.ListLinks, r.watching())
}

// loadLink shows what was negotiated on a link, its limits, and what it does not carry.
func loadLink(r request, name string) (view, error) {
	l, err := call(r, contract.GetLink, contract.ByName{Name: name})
	if err != nil {
		return view{}, err
	}
	d := []detail{
		about("Network", words(l.Network)), about("State", state(l.State)), about("Heard", at(l.LastHeard, r.now)),
		about("Waiting", number(l.Waiting)), about("Oldest", at(l.Oldest, r.now)), about("Next dial", at(l.NextDial, r.now)), about("Last error", long(l.LastError)),
	}
	if l.LinkDetail != nil {
		for _, key := range slices.Sorted(maps.Keys(l.Negotiated)) {
			d = append(d, about("Negotiated "+plain(key), long(l.Negotiated[key])))
		}
		d = append(d,
			about("Channels", long(strings.Join(l.Channels, " "))),
			about("Steps a minute of one user", limit(l.Limits.UserEventsPerMinute)), about("Steps a second", limit(l.Limits.LinkEventsPerSecond)),
			about("Clock ahead by", words(strconv.FormatFloat(l.SkewSeconds, 'f', 3, 64)+" s")),
			about("Not carried", long(orWord(strings.Join(l.NotCarried, "; "), "everything is carried"))))
		for _, what := range l.Obstacles {
			d = append(d, about("Obstacle", long(what)))
		}
	}
	v := view{Title: "Links", About: plain(name), Sections: []section{{ID: "link", Details: d, Command: shell("baton", "link", "show", name)}}}
	if r.may(contract.ChangeLink.Scope) {
		v.Sections[0].Actions = []link{r.act("links", name, "dial")}
	}
	return v, nil
}

// limit returns a cell of a limit, of which zero is none.
func limit(n int) cell {
	if n == 0 {
		return words("no limit")
	}
	return number(n)
}

func orWord(s, word string) string {
	if s == "" {
		return word
	}
	return s
}

// addActions adds the column of actions where the session may do them.
func (r request) addActions(t *table, needs federation.Scope) {
	if r.may(needs) {
		t.Columns = append(t.Columns, "Actions")
	}
}

// withActions adds the cell of actions where the session may do them.
func (r request) withActions(cells []cell, needs federation.Scope, all ...link) []cell {
	if r.may(needs) {
		return append(cells, acts(all...))
	}
	return cells
}

// act returns the link to the form of an action.
func (r request) act(list, name, verb string, query ...string) link {
	q := url.Values{}
	if r.address != prefix+list {
		q.Set("back", r.address)
	}
	for i := 0; i+1 < len(query); i += 2 {
		if query[i+1] != "" {
			q.Set(query[i], query[i+1])
		}
	}
	address := url.URL{Path: prefix + "act/" + list + "/" + name + "/" + verb, RawPath: prefix + "act/" + list + "/" + url.PathEscape(name) + "/" + verb, RawQuery: q.Encode()}
	return link{Verb: strings.ToUpper(verb[:1]) + verb[1:], Name: plain(name), Href: address.String()}
}

// loadFeeds shows the pending deliveries.
func loadFeeds(r request) (view, error) {
	shapes, err := call(r, contract.ListFeedShapes, contract.Paging{})
	if err != nil {
		return view{}, err
	}
	page, err := call(r, contract.ListFeeds, contract.FeedQuery{Watching: r.watching()})
	if err != nil {
		return view{}, err
	}
	byDestination := section{ID: "shape", Table: shapeTable(r, shapes.Items), Command: "baton feed shape"}
	if r.may(contract.ChangeFeed.Scope) {
		if byDestination.Actions, err = idleHolds(r, shapes.Items); err != nil {
			return view{}, err
		}
		byDestination.Intro = "Nothing waits for:"
	}
	return view{Title: "Feeds", Sections: []section{byDestination, {ID: "waiting", Table: waitingTable(r, page), Command: r.command("feed", "list")}}}, nil
}

// shapeTable is the table of destinations.
func shapeTable(r request, shapes []contract.Shape) *table {
	changes := contract.ChangeFeed.Scope
	t := &table{
		Caption: "By destination", Columns: []string{"To", "Rows", "<1m", "<5m", "<1h", "<24h", "Older", "Oldest", "Held"}, Empty: "Nothing waits.",
	}
	r.addActions(t, changes)
	for _, s := range shapes {
		to := s.Link + s.Peer
		cells := []cell{words(to), number(s.Rows)}
		for i, n := range s.Ages {
			each := number(n)
			if n > 0 {
				each.Class += " heat" + strconv.Itoa(i)
			}
			cells = append(cells, each)
		}
		held, verb := words("no"), "hold"
		if s.Held {
			held, verb = long(strings.TrimSpace("held: "+s.Reason)), "release"
		}
		cells = append(cells, at(s.Oldest, r.now), held)
		t.Rows = append(t.Rows, row{to, r.withActions(cells, changes, r.act("feeds", to, verb))})
	}
	return t
}

// maxIdle bounds how many destinations for which nothing waits a page offers to hold.
const maxIdle = 50

// idleHolds returns the actions that hold links for which nothing waits.
func idleHolds(r request, shapes []contract.Shape) ([]link, error) {
	r.query = nil
	links, err := readLinks(r)
	var all []link
	for _, l := range links.Items {
		if len(all) < maxIdle && !slices.ContainsFunc(shapes, func(s contract.Shape) bool { return s.Link == l.Name }) {
			all = append(all, r.act("feeds", l.Name, "hold"))
		}
	}
	return all, err
}

// waitingTable is the table of pending deliveries.
func waitingTable(r request, page contract.Page[contract.Waiting]) *table {
	changes := contract.ChangeFeed.Scope
	t := &table{
		Caption: "Waiting", Columns: []string{"ID", "Handoff", "Verb", "To", "Queued", "Attempt", "Next", "Last error"}, Empty: "Nothing waits.",
		Older: r.older("feeds", page.NextCursor),
	}
	r.addActions(t, changes)
	for _, w := range page.Items {
		next := at(w.Next, r.now)
		switch {
		case w.Held:
			next = words("held")
		case w.Behind:
			next = words("after another of its handoff")
		case w.Next.IsZero():
			next = words("now")
		}
		cells := []cell{words(w.ID), handoffCell(w.HandoffID), words(w.Verb), words(w.Link + w.Peer), at(w.Queued, r.now), number(w.Attempt), next, long(w.LastError)}
		retry := r.act("feeds", w.ID, "retry", "link", w.Link, "peer", w.Peer)
		t.Rows = append(t.Rows, row{w.ID + w.Link + w.Peer, r.withActions(cells, changes, retry)})
	}
	return t
}

// loadDead shows the dead letters.
func loadDead(r request) (view, error) {
	page, err := call(r, contract.ListDead, contract.DeadQuery{Watching: r.watching()})
	t := &table{
		Caption: "Dead letters", Columns: []string{"Number", "Died", "To", "Verb", "Handoff", "Attempts", "Reason", "Replayed", "Last error"}, Empty: "There is no dead letter.",
		Older: r.older("dead", page.NextCursor),
	}
	for _, d := range page.Items {
		id := strconv.FormatInt(d.ID, 10)
		t.Rows = append(t.Rows, row{id, []cell{
			linked(id, prefix+"dead/"+id), at(d.Died, r.now), words(d.Link + d.Peer), words(d.Verb), handoffCell(d.HandoffID),
			number(d.Attempt), state(d.Reason), at(d.Replayed, r.now), long(d.LastError),
		}})
	}
	return view{Title: "Dead letters", Sections: []section{{ID: "dead", Table: t, Command: r.command("dead", "list")}}}, err
}

// loadLetter shows a dead letter.
func loadLetter(r request, id string) (view, error) {
	d, err := call(r, contract.GetDead, contract.ByID{ID: id})
	if err != nil {
		return view{}, err
	}
	details := []detail{
		about("To", words(d.Link+d.Peer)), about("Reason", state(d.Reason)), about("Last error", long(d.LastError)), about("Verb", words(d.Verb)),
		about("Handoff", handoffCell(d.HandoffID)), about("Message", words(d.Message)), about("Queued", at(d.Queued, r.now)), about("Died", at(d.Died, r.now)),
		about("Replayed", at(d.Replayed, r.now)),
	}
	v := view{Title: "Dead letters", About: plain(id)}
	letter := section{ID: "letter", Command: shell("baton", "dead", "show", id)}
	if d.DeadDetail != nil {
		details = append(details, about("What to do", long(d.Fix)), about("Verdict", state(d.Verdict)), about("Damage", long(d.Broken)),
			about("Raw bytes", cell{Text: plain(d.Raw), Class: "raw"}), about("Signature", cell{Text: plain(d.Signature), Class: "raw"}))
	}
	letter.Details = slices.DeleteFunc(details, func(d detail) bool { return d.Value.Text == "" && d.Value.At == nil })
	if r.may(contract.SettleDead.Scope) {
		letter.Actions = []link{r.act("dead", id, "replay"), r.act("dead", id, "drop")}
	}
	v.Sections = []section{letter}
	if d.DeadDetail != nil {
		t := &table{Caption: "Attempts", Columns: []string{"Attempt", "Time", "Error"}, Empty: "No attempt is recorded."}
		for _, try := range d.Attempts {
			t.Rows = append(t.Rows, row{strconv.Itoa(try.Number), []cell{number(try.Number), at(try.Time, r.now), long(try.Error)}})
		}
		v.Sections = append(v.Sections, section{ID: "attempts", Table: t, Command: letter.Command})
	}
	return v, nil
}

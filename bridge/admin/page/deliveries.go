package page

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
)

func loadLinks(r request) (view, error) {
	page, err := readLinks(r)
	l := list[admin.Link]{
		Table: render.Links, id: "links", page: page, cursor: "cursor",
		needs: admin.ChangeLink.Scope, acts: func(l admin.Link) []link { return actsOnLink(r, l) },
	}
	v := view{Title: "Links", Sections: []section{l.section(r)}}
	agents := slices.DeleteFunc(slices.Clone(page.Items), func(l admin.Link) bool { return l.Agent == admin.LinkAgent{} })
	if len(agents) > 0 {
		v.Sections = append(v.Sections, list[admin.Link]{Table: render.Agents, id: "agents", page: admin.Page[admin.Link]{Items: agents}}.section(r))
	}
	return v, err
}

func readLinks(r request) (admin.Page[admin.Link], error) {
	return call(r, admin.ListLinks, r.watching())
}

func loadLink(r request, name string) (view, error) {
	l, err := call(r, admin.GetLink, admin.ByName{Name: name})
	if err != nil {
		return view{}, err
	}
	var d []detail
	for _, c := range render.Links.Columns[1:] { // the title has the name
		d = append(d, r.about(c.Page, c.Value(l)))
	}
	if l.LinkDetail != nil {
		for _, key := range slices.Sorted(maps.Keys(l.Negotiated)) {
			d = append(d, r.about("Negotiated "+plain(key), render.Long(l.Negotiated[key])))
		}
		d = append(d,
			r.about("Channels", render.Long(strings.Join(l.Channels, " "))),
			r.about("Steps a minute of one user", limit(l.Limits.UserEventsPerMinute)), r.about("Steps a second", limit(l.Limits.LinkEventsPerSecond)),
			r.about("Clock ahead by", render.Text(strconv.FormatFloat(l.SkewSeconds, 'f', 3, 64)+" s")),
			r.about("Not carried", render.Long(cmp.Or(strings.Join(l.NotCarried, "; "), "everything is carried"))))
		for _, what := range l.Obstacles {
			d = append(d, r.about("Obstacle", render.Long(what)))
		}
	}
	v := view{Title: "Links", About: plain(name), Sections: []section{{ID: "link", Details: given(d...), Command: render.Shell("baton", "link", "show", name)}}}
	if r.may(admin.ChangeLink.Scope) {
		v.Sections[0].Actions = actsOnLink(r, l)
	}
	return v, nil
}

func actsOnLink(r request, l admin.Link) []link {
	acts := []link{r.act("links", l.Name, "dial")}
	if !l.HeldSince.IsZero() {
		acts = append(acts, r.act("feeds", l.Name, "release"))
	}
	return acts
}

func limit(n int) render.Value {
	if n == 0 {
		return render.Text("no limit")
	}
	return render.Number(n)
}

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

func loadFeeds(r request) (view, error) {
	shapes, err := call(r, admin.ListFeedShapes, admin.Paging{})
	if err != nil {
		return view{}, err
	}
	page, err := call(r, admin.ListFeeds, admin.FeedQuery{Link: r.query.Get("link"), Peer: r.query.Get("peer"), Older: r.query.Get("older"), Watching: r.watching()})
	if err != nil {
		return view{}, err
	}
	changes := admin.ChangeFeed.Scope
	byDestination := list[admin.Shape]{
		Table: render.Shapes, id: "shape", page: shapes, needs: changes, acts: func(s admin.Shape) []link {
			if s.Held {
				return []link{r.act("feeds", s.Link+s.Peer, "release")}
			}
			return []link{r.act("feeds", s.Link+s.Peer, "hold")}
		},
	}.section(r)
	if r.may(changes) {
		if byDestination.Actions, err = idleHolds(r, shapes.Items); err != nil {
			return view{}, err
		}
		byDestination.Intro = "Nothing waits for:"
	}
	waiting := list[admin.Waiting]{
		Table: render.Deliveries, id: "waiting", page: page, cursor: "cursor", needs: changes,
		flags: slices.Concat(r.flag("link"), r.flag("peer"), r.flag("older")),
		acts: func(w admin.Waiting) []link {
			return []link{r.act("feeds", w.ID, "retry", "link", w.Link, "peer", w.Peer)}
		},
	}
	bulk := r.bulk("feeds", changes, len(page.Items) > 0, []string{"link", "peer", "older"}, "retry", "fail", "drop")
	if bulk != nil {
		waiting.pick = func(w admin.Waiting) string {
			return url.Values{"id": {w.ID}, "link": {w.Link}, "peer": {w.Peer}}.Encode()
		}
	}
	rows := waiting.section(r)
	rows.Bulk = bulk
	return view{Title: "Feeds", Filter: r.filter("link", "Link", "peer", "Peer", "older", "Older than"), Sections: []section{byDestination, rows}}, nil
}

const maxIdle = 50

func idleHolds(r request, shapes []admin.Shape) ([]link, error) {
	r.query = nil
	links, err := readLinks(r)
	var all []link
	for _, l := range links.Items {
		if len(all) < maxIdle && !slices.ContainsFunc(shapes, func(s admin.Shape) bool { return s.Link == l.Name }) {
			all = append(all, r.act("feeds", l.Name, "hold"))
		}
	}
	return all, err
}

func loadDead(r request) (view, error) {
	page, err := call(r, admin.ListDead, admin.DeadQuery{Reason: r.query.Get("reason"), Peer: r.query.Get("peer"), Watching: r.watching()})
	l := list[admin.DeadLetter]{Table: render.DeadLetters, id: "dead", page: page, cursor: "cursor", flags: slices.Concat(r.flag("reason"), r.flag("peer"))}
	bulk := r.bulk("dead", admin.SettleDead.Scope, len(page.Items) > 0, []string{"reason", "peer"}, "replay", "drop")
	if bulk != nil {
		l.pick = func(d admin.DeadLetter) string { return strconv.FormatInt(d.ID, 10) }
	}
	letters := l.section(r)
	letters.Bulk = bulk
	return view{Title: "Dead letters", Filter: r.filter("reason", "Why it died", "peer", "Peer"), Sections: []section{letters}}, err
}

func loadLetter(r request, id string) (view, error) {
	d, err := call(r, admin.GetDead, admin.ByID{ID: id})
	if err != nil {
		return view{}, err
	}
	details := []detail{
		r.about("To", render.Text(d.Link+d.Peer)), r.about("Reason", render.State(d.Reason)), r.about("Last error", render.Long(d.LastError)),
		r.about("Verb", render.Text(d.Verb)), r.about("Handoff", render.HandoffID(d.HandoffID)), r.about("Message", render.Text(d.Message)),
		r.about("Queued", render.Time(d.Queued)), r.about("Died", render.Time(d.Died)), r.about("Replayed", render.Time(d.Replayed)),
	}
	if d.DeadDetail != nil {
		details = append(details, r.about("What to do", render.Long(d.Fix)), r.about("Verdict", render.State(d.Verdict)), r.about("Damage", render.Long(d.Broken)),
			r.about("Raw bytes", render.Raw(d.Raw)), r.about("Signature", render.Raw(d.Signature)))
	}
	letter := section{ID: "letter", Details: given(details...), Command: render.Shell("baton", "dead", "show", id)}
	if r.may(admin.SettleDead.Scope) {
		letter.Actions = []link{r.act("dead", id, "replay"), r.act("dead", id, "drop")}
	}
	v := view{Title: "Dead letters", About: plain(id), Sections: []section{letter}}
	if d.DeadDetail != nil {
		attempts := list[admin.Attempt]{Table: render.Attempts, id: "attempts", page: admin.Page[admin.Attempt]{Items: d.Attempts}, flags: []string{id}}
		v.Sections = append(v.Sections, attempts.section(r))
	}
	return v, nil
}

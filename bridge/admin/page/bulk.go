package page

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
)

const (
	selectedRows = "selected" // the parameter "row" may be repeated
	allRows      = "all"      // all rows that match the filter
)

type bulk struct {
	Form     string
	Back     string
	Selected []link
	All      []link
}

// bulk returns the form for a list, or nil if there are no rows or the session lacks the scope. The
// filters are parameters of the page. Deliveries are changed together only if they match a filter.
func (r request) bulk(list string, needs federation.Scope, rows bool, filters []string, verbs ...string) *bulk {
	if !rows || !r.may(needs) {
		return nil
	}
	b := &bulk{Form: "bulk-" + list, Back: r.address}
	var filter []string
	for _, name := range filters {
		if value := r.query.Get(name); value != "" {
			filter = append(filter, name, value)
		}
	}
	for _, verb := range verbs {
		one := r.act(list, selectedRows, verb)
		one.Href, _, _ = strings.Cut(one.Href, "?")
		b.Selected = append(b.Selected, one)
		if list == "dead" || len(filter) > 0 {
			b.All = append(b.All, r.act(list, allRows, verb, filter...))
		}
	}
	return b
}

func (f form) many() bool {
	switch f.verb {
	case "retry", "fail", "drop", "replay":
		return f.name == selectedRows || f.name == allRows
	}
	return false
}

func (f form) feedChanges() ([]admin.FeedChange, error) {
	if f.name != selectedRows || !f.many() {
		return []admin.FeedChange{{ID: f.name, Verb: f.verb, Link: f.link, Peer: f.peer, Older: f.older}}, nil
	}
	var all []admin.FeedChange
	for _, text := range f.rows {
		one, err := url.ParseQuery(text)
		if err != nil || one.Get("id") == "" || one.Get("id") == allRows {
			return nil, bridge.UsageProblem("row: " + text)
		}
		all = append(all, admin.FeedChange{ID: one.Get("id"), Verb: f.verb, Link: one.Get("link"), Peer: one.Get("peer")})
	}
	if all == nil {
		return nil, errNoRow
	}
	return all, nil
}

func (f form) deadChanges() ([]admin.DeadChange, error) {
	if f.name != selectedRows {
		one := admin.DeadChange{ID: f.name, Verb: f.verb}
		if f.many() {
			one.Cause, one.Peer = f.cause, f.peer
		}
		return []admin.DeadChange{one}, nil
	}
	var all []admin.DeadChange
	for _, id := range f.rows {
		if id == allRows {
			return nil, bridge.UsageProblem("row: " + id)
		}
		all = append(all, admin.DeadChange{ID: id, Verb: f.verb})
	}
	if all == nil {
		return nil, errNoRow
	}
	return all, nil
}

var errNoRow = &bridge.ProblemError{Status: http.StatusUnprocessableEntity, Code: bridge.CodeUsage, Detail: "Select a row first."}

// If there are many rows, a missing row is not an error.
func sum[T any](changes []T, err error, one func(T) (int, error)) (int, error) {
	if err != nil {
		return 0, err
	}
	total := 0
	for _, change := range changes {
		n, err := one(change)
		if err != nil && (len(changes) == 1 || bridge.ProblemOf(err).Status != http.StatusNotFound) {
			return total, err
		}
		total += n
	}
	return total, nil
}

func changeFeed(r request, f form, act admin.Act) (int, error) {
	changes, err := f.feedChanges()
	return sum(changes, err, func(c admin.FeedChange) (int, error) {
		c.Body = route.JSON(act)
		done, err := call(r, admin.ChangeFeed, c)
		return done.Changed, err
	})
}

func settleDead(r request, f form, act admin.Act) (int, error) {
	changes, err := f.deadChanges()
	return sum(changes, err, func(c admin.DeadChange) (int, error) {
		c.Body = route.JSON(act)
		done, err := call(r, admin.SettleDead, c)
		return done.Changed, err
	})
}

func commandsOf(a action, f form) [][]string {
	start := []string{"baton", a.noun, f.verb}
	flags := func(pairs ...string) (all []string) {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i+1] != "" {
				all = append(all, pairs[i], pairs[i+1])
			}
		}
		return all
	}
	switch {
	case !f.many():
		words := append(slices.Clone(start), f.name)
		if a.choices != nil {
			words = append(words, cmp.Or(f.choice, "MODE"))
		}
		return [][]string{append(words, flags("--link", f.link, "--peer", f.peer)...)}
	case f.name == allRows:
		words := slices.Concat(start, flags("--link", f.link, "--peer", f.peer, "--older", f.older, "--cause", f.cause))
		if len(words) == len(start) {
			words = append(words, "--all")
		}
		return [][]string{words}
	case a.noun == "dead":
		return [][]string{slices.Concat(start, f.rows)}
	}
	var commands [][]string // one per destination
	changes, _ := f.feedChanges()
	for len(changes) > 0 {
		to := changes[0]
		words, rest := slices.Clone(start), changes[:0:0]
		for _, c := range changes {
			if c.Link == to.Link && c.Peer == to.Peer {
				words = append(words, c.ID)
			} else {
				rest = append(rest, c)
			}
		}
		commands = append(commands, append(words, flags("--link", to.Link, "--peer", to.Peer)...))
		changes = rest
	}
	return commands
}

func (f form) subject() string {
	switch {
	case !f.many():
		return plain(f.name)
	case f.name == allRows:
		return "all that match"
	}
	return fmt.Sprintf("%d selected", len(f.rows))
}

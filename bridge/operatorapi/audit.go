package operatorapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"baton/federation"
)

// Change is something that an operator did.
type Change struct {
	Time    Moment `json:"time"`
	Actor   string `json:"actor"`
	What    string `json:"what"`
	Subject string `json:"subject"`
	Reason  string `json:"reason"`
}

// audit is GET audit, the newest first.
func (o *Operator) audit(r *http.Request) (listing, error) {
	query := r.URL.Query()
	if err := known(query, "since", "actor"); err != nil {
		return listing{}, err
	}
	f := federation.ChangeFilter{Actor: query.Get("actor")}
	if text := query.Get("since"); text != "" {
		var err error
		if f.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return listing{}, usage("since is a time such as 2026-11-21T12:00:00Z")
		}
	}
	page := func(ctx context.Context, cursor string, limit int) (any, error) {
		before, err := parseNumber("cursor", cursor)
		if err != nil {
			return nil, err
		}
		found, err := o.deps.Audit.Changes(ctx, f, before, limit)
		p := Page[Change]{Items: []Change{}}
		for _, c := range found {
			p.Items = append(p.Items, Change{Time: Moment(c.At), Actor: c.Actor, What: c.What, Subject: c.Subject, Reason: c.Reason})
		}
		if len(found) == limit {
			p.NextCursor = strconv.FormatInt(found[limit-1].ID, 10)
		}
		return p, err
	}
	return listing{page, watchPage(page, func(c Change) Change { return c })}, nil
}

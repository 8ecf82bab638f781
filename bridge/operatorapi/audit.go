package operatorapi

import (
	"context"
	"strconv"
	"time"

	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// audit returns the list of changes, the newest first.
func (o *Operator) audit(_ context.Context, query contract.AuditQuery) (listing[Change], error) {
	f := federation.ChangeFilter{Actor: query.Actor}
	if text := query.Since; text != "" {
		var err error
		if f.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return listing[Change]{}, usage("since is a time such as 2026-11-21T12:00:00Z")
		}
	}
	page := func(ctx context.Context, cursor string, limit int) (Page[Change], error) {
		before, err := parseNumber("cursor", cursor)
		if err != nil {
			return Page[Change]{}, err
		}
		found, err := o.deps.Record.Changes(ctx, f, before, limit)
		p := Page[Change]{Items: []Change{}}
		for _, c := range found {
			p.Items = append(p.Items, Change{Time: Moment(c.At), Actor: c.Actor, What: c.What, Subject: c.Subject, Reason: c.Reason})
		}
		if len(found) == limit {
			p.NextCursor = strconv.FormatInt(found[limit-1].ID, 10)
		}
		return p, err
	}
	return listing[Change]{page, watchPage(page)}, nil
}

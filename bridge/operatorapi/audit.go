package operatorapi

import (
	"context"
	"strconv"
	"time"

	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// ListAudit implements [contract.StrictServerInterface].
func (o *Operator) ListAudit(ctx context.Context, req contract.ListAuditRequestObject) (contract.ListAuditResponseObject, error) {
	l, err := o.audit(req.Params)
	p := req.Params
	return o.list(ctx, l, err, p.Limit, p.Cursor, p.Watch)
}

// audit returns the list of changes, the newest first.
func (o *Operator) audit(query contract.ListAuditParams) (listing, error) {
	f := federation.ChangeFilter{Actor: query.Actor}
	if text := query.Since; text != "" {
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

package operatorapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// What senders are counted by.
const (
	ByDID     = "did"
	ByAddress = "address"
	ByLink    = "link"
)

// topSince is how far back senders are counted where nothing else is asked for, and
// maxTopSince how far they are remembered.
const (
	topSince    = 10 * time.Minute
	maxTopSince = time.Hour
)

// Sender is what came from one DID, address or link.
type Sender struct {
	Name    string `json:"name"`
	Steps   int    `json:"steps"`   // all that were judged
	Refused int    `json:"refused"` // of those
	Limited int    `json:"limited"` // refused because there were too many
	Blocked int    `json:"blocked"` // steps, logins and connections that an operator's block refused
	Bytes   int64  `json:"bytes"`   // of the documents and evidence of all steps
}

// top is GET top, those with the most steps first. There is no second page.
func (o *Operator) top(r *http.Request) (listing, error) {
	query := r.URL.Query()
	if err := known(query, "by", "since"); err != nil {
		return listing{}, err
	}
	by, since := ByDID, topSince
	if query.Has("by") {
		by = query.Get("by")
	}
	if !slices.Contains([]string{ByDID, ByAddress, ByLink}, by) {
		return listing{}, usage("by: want did, address or link, not " + strconv.Quote(by))
	}
	if query.Has("since") {
		var err error
		if since, err = time.ParseDuration(query.Get("since")); err != nil || since < time.Minute || since > maxTopSince {
			return listing{}, usage("since: want a duration from 1m to 1h")
		}
	}
	page := func(_ context.Context, _ string, limit int) (any, error) {
		return Page[Sender]{Items: append([]Sender{}, o.deps.Senders.Top(by, since, limit, time.Now())...)}, nil
	}
	return listing{page, watchPage(page, func(s Sender) Sender { return s })}, nil
}

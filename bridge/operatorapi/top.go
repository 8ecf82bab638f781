package operatorapi

import (
	"context"
	"slices"
	"strconv"
	"time"

	"baton/bridge/operatorapi/contract"
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

// top returns the list of senders, those with the most steps first. It has no second page.
func (o *Operator) top(_ context.Context, query contract.TopQuery) (listing[Sender], error) {
	by, since := ByDID, topSince
	if query.By != "" {
		by = query.By
	}
	if !slices.Contains([]string{ByDID, ByAddress, ByLink}, by) {
		return listing[Sender]{}, usage("by: want did, address or link, not " + strconv.Quote(by))
	}
	if query.Since != "" {
		var err error
		if since, err = time.ParseDuration(query.Since); err != nil || since < time.Minute || since > maxTopSince {
			return listing[Sender]{}, usage("since: want a duration from 1m to 1h")
		}
	}
	page := func(_ context.Context, _ string, limit int) (Page[Sender], error) {
		senders := []Sender{}
		for _, s := range o.deps.Gateway.TopSenders(by, since, limit, time.Now()) {
			senders = append(senders, Sender(s))
		}
		return Page[Sender]{Items: senders}, nil
	}
	return listing[Sender]{page, watchPage(page)}, nil
}

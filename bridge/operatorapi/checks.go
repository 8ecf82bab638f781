package operatorapi

import (
	"context"
	"net/http"
)

// Check is what was found out about one thing.
type Check struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warn or FAIL
	Detail string `json:"detail"`
}

// relay is GET relay: how the server stands that homes meet at. It has no second page.
func (o *Operator) relay(r *http.Request) (listing, error) {
	page := func(ctx context.Context, _ string, _ int) (any, error) {
		return Page[Check]{Items: o.deps.Peers.CheckRelay(ctx)}, nil
	}
	return listing{page: page}, known(r.URL.Query())
}

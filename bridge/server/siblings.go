package server

import (
	"context"
	"errors"
	"fmt"

	"baton/bridge"
	"baton/federation"
)

// endpointed is a link to a server that others of its network know by the id of an endpoint.
type endpointed interface {
	bridge.Homed
	Endpoint() string
}

// Endpoint returns the endpoint id of the server that is a home, where a link leads to it, else
// "".
func (g *Gateway) Endpoint(home federation.HomeID) string {
	for _, r := range g.links.current.Load().all {
		if link, ok := r.Link.(endpointed); ok && link.Home() == home {
			return link.Endpoint()
		}
	}
	return ""
}

// admitter is a link to a home that ignores some steps which the rules of this gateway allow.
type admitter interface {
	bridge.Homed
	// Admits returns a [*federation.RefusalError] for a step that the home would ignore.
	Admits(ctx context.Context, h federation.Pending) error
}

// admitted ends the wait of a step of this gateway's people that its home would ignore, and
// returns the refusal. What cannot be told now is left to the link, which tells the signer
// later.
func (g *Gateway) admitted(ctx context.Context, judged federation.Judgement) error {
	ev := judged.Entry.Event
	if ev.Arrival.Home != "" {
		return nil
	}
	for _, r := range g.links.current.Load().all {
		link, ok := r.Link.(admitter)
		if !ok || link.Home() != judged.View.Home {
			continue
		}
		err := link.Admits(ctx, federation.Pending{Event: ev, Home: judged.View.Home, Since: judged.Entry.Filed})
		if refused, isRefusal := errors.AsType[*federation.RefusalError](err); isRefusal {
			if err := g.home.Load().Drop(ctx, ev); err != nil {
				return fmt.Errorf("drop %s: %w", ev.ID, err)
			}
			return refused
		}
	}
	return nil
}

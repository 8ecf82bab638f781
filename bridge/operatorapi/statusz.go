package operatorapi

import (
	"context"

	"baton/bridge"
	"baton/bridge/operatorapi/contract"
)

// Standing is the answer of /statusz.
type Standing struct {
	contract.Readiness

	Links []LinkStanding `json:"links"` // the gateway's own
	Peers []LinkStanding `json:"peers"` // other homes
	Relay string         `json:"relay"` // "ok", or why it is not reached
	Hub   string         `json:"hub,omitempty"`
}

// LinkStanding is the state of one link.
type LinkStanding struct {
	Name      string           `json:"name"`
	Network   string           `json:"network"`
	State     bridge.LinkState `json:"state"`
	LastError string           `json:"last_error,omitempty"`
}

// NewStanding returns the state of all parts and links: the part "relay", the part "hub" where
// there is one, the links of the gateway, and those to other homes.
func NewStanding(ctx context.Context, ready contract.Readiness, parts []Part, links []bridge.LinkStatus) Standing {
	said := Standing{Readiness: ready, Links: []LinkStanding{}, Peers: []LinkStanding{}}
	for _, part := range parts {
		state := "ok"
		if err := part.Check(ctx); err != nil {
			state = err.Error()
		}
		switch part.Name {
		case "relay":
			said.Relay = state
		case "hub":
			said.Hub = state
		}
	}
	for _, s := range links {
		at := LinkStanding{Name: s.Link.Name(), Network: s.Link.Network(), State: s.Status.State, LastError: s.Status.LastError}
		if _, home := s.Link.(bridge.PeerHome); home {
			said.Peers = append(said.Peers, at)
		} else {
			said.Links = append(said.Links, at)
		}
	}
	return said
}

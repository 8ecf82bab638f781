package main

import (
	"encoding/json"
	"net/http"

	"baton/bridge"
	"baton/bridge/operatorapi/contract"
)

// withPeers adds the links to other homes to what the gateway cannot do now.
func (p *program) withPeers(ready contract.Readiness) contract.Readiness {
	for _, name := range p.gateway.Links().HomesDown() {
		ready.Reasons = append(ready.Reasons, "peer "+name+": down")
	}
	ready.Ready = len(ready.Reasons) == 0
	return ready
}

// standing is the answer of /statusz.
type standing struct {
	contract.Readiness

	Links []linkStanding `json:"links"` // the gateway's own
	Peers []linkStanding `json:"peers"` // other homes
	Relay string         `json:"relay"` // "ok", or why it is not reached
	Hub   string         `json:"hub,omitempty"`
}

// linkStanding is the state of one link.
type linkStanding struct {
	Name      string           `json:"name"`
	Network   string           `json:"network"`
	State     bridge.LinkState `json:"state"`
	LastError string           `json:"last_error,omitempty"`
}

// serveStatus tells operators and their tools how all links stand, those to other homes too.
func (p *program) serveStatus(w http.ResponseWriter, r *http.Request) {
	said := standing{Readiness: p.readiness(r.Context()), Links: []linkStanding{}, Peers: []linkStanding{}, Relay: reached(p.relay.Ready())}
	if p.hub != nil {
		said.Hub = reached(p.hub.Ready())
	}
	for _, s := range p.gateway.Links().Statuses() {
		at := linkStanding{Name: s.Link.Name(), Network: s.Link.Network(), State: s.Status.State, LastError: s.Status.LastError}
		if _, home := s.Link.(bridge.PeerHome); home {
			said.Peers = append(said.Peers, at)
		} else {
			said.Links = append(said.Links, at)
		}
	}
	status := http.StatusOK
	text, err := json.Marshal(said)
	if err != nil {
		status = http.StatusInternalServerError
	}
	answer(w, status, text)
}

func reached(err error) string {
	if err != nil {
		return err.Error()
	}
	return "ok"
}

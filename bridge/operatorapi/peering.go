package operatorapi

import (
	"net/http"

	"baton/federation"
)

// Peering is the body of a request to add another home.
type Peering struct {
	Act

	URL string `json:"url"` // where it is reached, without a path
	// AllowPrivate says that the operator knows that the address is a private one, or
	// without TLS.
	AllowPrivate bool `json:"allow_private,omitempty"`
}

// Peered is what was found out about another home, and what came of adding it.
type Peered struct {
	Peer   Peer    `json:"peer"`
	Checks []Check `json:"checks"`
	// Canary is what became of a handoff that was offered to it; nil where none was.
	Canary *Canary `json:"canary,omitempty"`
}

// Canary is a handoff from this home to another one, which that completes by itself.
type Canary struct {
	Handoff federation.HandoffID `json:"handoff"`
	Green   bool                 `json:"green"`
	Took    string               `json:"took"`             // a duration
	Reason  string               `json:"reason,omitempty"` // where it is not green
}

// postPeer answers POST peers: another home is looked at, kept, and offered a canary.
func (o *Operator) postPeer(r *http.Request) (answer, error) {
	var ask Peering
	if err := readBody(r, &ask); err != nil {
		return answer{}, err
	}
	done, err := o.deps.Peers.AddPeer(r.Context(), ask)
	if err != nil {
		return answer{}, err
	}
	if !ask.DryRun {
		o.act(r, "peer add", done.Peer.Name+" "+done.Peer.URL, ask.Reason)
	}
	return answer{body: done}, nil
}

// deletePeer answers DELETE peers/{name}: a home that an operator added.
func (o *Operator) deletePeer(r *http.Request) (answer, error) {
	query, name := r.URL.Query(), r.PathValue("name")
	if err := known(query, "reason", "dry_run"); err != nil {
		return answer{}, err
	}
	dry := query.Has("dry_run")
	gone, err := o.deps.Peers.RemovePeer(r.Context(), name, dry)
	if err != nil {
		return answer{}, err
	}
	if !dry {
		o.act(r, "peer remove", name, query.Get("reason"))
	}
	return answer{body: gone}, nil
}

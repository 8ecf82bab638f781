package rest

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"baton/federation"
)

// Peer is another registry.
type Peer struct {
	Name      string `json:"name"` // its domain
	Network   string `json:"network"`
	Mode      string `json:"mode"`   // allow, limit, hold or block
	Origin    string `json:"origin"` // of the mode
	URL       string `json:"url,omitempty"`
	Dialect   string `json:"dialect,omitempty"`
	Waiting   int    `json:"waiting"` // messages that it has not taken
	Oldest    Moment `json:"oldest,omitzero"`
	Dead      int    `json:"dead"`
	Held      bool   `json:"held"`
	LastError string `json:"last_error,omitempty"`
}

// Mode is the body of a change of mode.
type Mode struct {
	Act

	Mode string `json:"mode"`
}

// peerModes are the modes in which a registry is treated.
func peerModes() []string { return []string{"allow", "limit", "hold", "block"} }

// peer returns a registry that the configuration or an operator names, or that
// something is owed to.
func (o *Operator) peer(name string) (Peer, bool) {
	all := o.deps.Peers()
	i := slices.IndexFunc(all, func(p Peer) bool { return p.Name == name })
	if i < 0 {
		return Peer{}, false
	}
	return all[i], true
}

// peers is GET peers. There are as many as anybody named, and no second page.
func (o *Operator) peers(r *http.Request) (listing, error) {
	page := func(ctx context.Context, _ string, _ int) (any, error) {
		all, err := o.shapePeers(ctx)
		return Page[Peer]{Items: all}, err
	}
	return listing{page: page}, known(r.URL.Query())
}

// shapePeers returns the registries as they stand.
func (o *Operator) shapePeers(ctx context.Context) ([]Peer, error) {
	all := slices.Clone(o.deps.Peers())
	shapes, err := o.deps.Record.Shapes(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	held, err := o.held(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range shapes {
		if s.Peer == "" {
			continue
		}
		i := slices.IndexFunc(all, func(p Peer) bool { return p.Name == s.Peer })
		if i < 0 {
			i = len(all)
			all = append(all, Peer{Name: s.Peer, Network: federation.RegistryLink})
		}
		all[i].Waiting, all[i].Oldest = s.Rows, Moment(s.Oldest)
	}
	for i := range all {
		_, all[i].Held = held[all[i].Name]
		if all[i], err = o.peerTrouble(ctx, all[i]); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b Peer) int { return cmp.Compare(a.Name, b.Name) })
	if all == nil {
		all = []Peer{}
	}
	return all, nil
}

// peerTrouble adds what went wrong with a registry.
func (o *Operator) peerTrouble(ctx context.Context, p Peer) (Peer, error) {
	dead, err := o.deps.Record.DeadLetters(ctx, federation.DeadFilter{To: p.Name}, 0, MaxLimit)
	if err != nil {
		return p, err
	}
	p.Dead = len(dead)
	waiting, _, err := o.deps.Record.WaitingFor(ctx, federation.WaitingFilter{Peer: p.Name}, "", 1)
	if err == nil && len(waiting) > 0 {
		p.LastError = waiting[0].Reason
	}
	return p, err
}

// getPeer answers GET peers/{name}.
func (o *Operator) getPeer(r *http.Request) (answer, error) {
	if err := known(r.URL.Query()); err != nil {
		return answer{}, err
	}
	all, err := o.shapePeers(r.Context())
	if err != nil {
		return answer{}, err
	}
	name := r.PathValue("name")
	i := slices.IndexFunc(all, func(p Peer) bool { return p.Name == name })
	if i < 0 {
		return answer{}, errNone("peer " + name)
	}
	return answer{body: all[i]}, nil
}

// postMode answers POST peers/{name}/mode.
func (o *Operator) postMode(r *http.Request) (answer, error) {
	name := r.PathValue("name")
	var ask Mode
	if err := readBody(r, &ask); err != nil {
		return answer{}, err
	}
	if !slices.Contains(peerModes(), ask.Mode) {
		return answer{}, usage("mode: want one of allow, limit, hold, block, not " + strconv.Quote(ask.Mode))
	}
	err := o.deps.SetMode(r.Context(), federation.PeerMode{Domain: name, Mode: ask.Mode, Since: time.Now()}, ask.DryRun)
	if err != nil {
		return answer{}, err
	}
	if ask.DryRun {
		p, _ := o.peer(name)
		p.Name, p.Mode, p.Origin = name, ask.Mode, FromRecord
		return answer{body: p}, nil
	}
	o.act(r, "peer mode", name+" "+ask.Mode, ask.Reason)
	o.wake(name)
	p, _ := o.peer(name)
	return answer{body: p}, nil
}

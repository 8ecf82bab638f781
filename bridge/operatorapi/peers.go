package operatorapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"baton/bridge"
	"baton/federation"
)

// Peer is another registry, or another home.
type Peer struct {
	Name      string `json:"name"` // its domain, or its home.name
	Network   string `json:"network"`
	Mode      string `json:"mode"`   // allow, limit, hold or block
	Origin    string `json:"origin"` // of the mode
	URL       string `json:"url,omitempty"`
	Dialect   string `json:"dialect,omitempty"` // of a registry
	Waiting   int    `json:"waiting"`           // messages that it has not taken, or steps that it has not receipted
	Oldest    Moment `json:"oldest,omitzero"`
	Dead      int    `json:"dead"`
	Held      bool   `json:"held"`
	LastError string `json:"last_error,omitempty"`

	*PeerHome // of a home
}

// PeerHome is what is known of another home alone.
type PeerHome struct {
	State       string  `json:"state"` // of the link to it: up, dialling or down
	Path        string  `json:"path"`  // relay or https
	LastHeard   Moment  `json:"last_heard,omitzero"`
	SkewSeconds float64 `json:"skew_seconds"` // by which our clock is ahead of its clock
	Forks       []Fork  `json:"forks"`        // newest first
	Doubts      []Doubt `json:"doubts"`
}

// Doubt is what a home said and was not believed in.
type Doubt struct {
	Kind  federation.DoubtKind `json:"kind"` // voice, mailbox, ruling or step
	Times int                  `json:"times"`
	First Moment               `json:"first"`
	Last  Moment               `json:"last"`
	Why   string               `json:"why"` // the last time
}

// Fork is a handoff of which a home tells two histories. Both are kept.
type Fork struct {
	Handoff federation.HandoffID `json:"handoff"`
	Version federation.Version   `json:"version"` // at which they part
	Found   Moment               `json:"found"`
}

// Mode is the body of a change of mode.
type Mode struct {
	Act

	Mode string `json:"mode"`
}

// peerModes are the modes in which a peer is treated.
func peerModes() []string { return []string{"allow", "limit", "hold", "block"} }

// peer returns a registry or a home that the configuration or an operator names.
func (o *Operator) peer(name string) (Peer, bool) {
	all := o.deps.Peers.Peers()
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

// shapePeers returns the registries and homes as they stand.
func (o *Operator) shapePeers(ctx context.Context) ([]Peer, error) {
	all := slices.Clone(o.deps.Peers.Peers())
	shapes, err := o.deps.Feeds.Shapes(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	held, err := o.held(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range shapes {
		i := slices.IndexFunc(all, func(p Peer) bool { return p.owed(s) })
		switch {
		case i >= 0:
		case s.Peer == "":
			continue // of a link
		default:
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
	slices.SortFunc(all, func(a, b Peer) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Network, b.Network)) })
	if all == nil {
		all = []Peer{}
	}
	return all, nil
}

// owed reports whether it is what waits for a peer. A home and a registry may have one
// name: what a home is owed waits in the feed of a link.
func (p Peer) owed(s federation.Shape) bool {
	if p.PeerHome != nil {
		return p.Name == s.Link
	}
	return p.Name == s.Peer
}

// peerTrouble adds what went wrong with a peer.
func (o *Operator) peerTrouble(ctx context.Context, p Peer) (Peer, error) {
	dead, err := o.deps.DeadLetters.DeadLetters(ctx, federation.DeadFilter{To: p.Name}, 0, MaxLimit)
	if err != nil {
		return p, err
	}
	p.Dead = len(dead)
	which := federation.WaitingFilter{Peer: p.Name}
	if p.PeerHome != nil {
		which = federation.WaitingFilter{Link: p.Name}
	}
	waiting, _, err := o.deps.Feeds.WaitingFor(ctx, which, "", 1)
	if err == nil && len(waiting) > 0 {
		p.LastError = waiting[0].Reason
	}
	if err != nil || p.PeerHome == nil {
		return p, err
	}
	return o.homeTrouble(ctx, p)
}

// homeTrouble adds how the link to a home stands, the proofs against it, and the doubts.
func (o *Operator) homeTrouble(ctx context.Context, p Peer) (Peer, error) {
	home := *p.PeerHome
	for _, s := range o.deps.Links.Links() {
		if s.Link.Name() != p.Name {
			continue
		}
		home.State = string(s.Status.State)
		if s.Status.State != bridge.LinkUp {
			p.LastError = cmp.Or(s.Status.LastError, p.LastError)
		}
		if hearer, ok := s.Link.(bridge.Hearer); ok {
			home.LastHeard = Moment(hearer.Heard())
		}
	}
	forks, err := o.deps.Peers.Forks(ctx, federation.HomeID(p.Name), MaxLimit)
	home.Forks = make([]Fork, len(forks))
	for i, f := range forks {
		home.Forks[i] = Fork{Handoff: f.Handoff, Version: f.Version, Found: Moment(f.Found)}
	}
	if err != nil {
		return p, err
	}
	doubts, err := o.deps.Peers.Doubts(ctx, federation.HomeID(p.Name))
	home.Doubts = make([]Doubt, len(doubts))
	for i, d := range doubts {
		home.Doubts[i] = Doubt{Kind: d.Kind, Times: d.Times, First: Moment(d.First), Last: Moment(d.Last), Why: d.Why}
	}
	p.PeerHome = &home
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
	err := o.deps.Peers.SetMode(r.Context(), federation.PeerMode{Domain: name, Mode: ask.Mode, Since: time.Now()}, ask.DryRun)
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

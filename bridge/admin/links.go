package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
)

type linkList struct{ o *Operator }

func (o *Operator) links(context.Context, Watching) (listing[Link], error) {
	l := linkList{o}
	return listing[Link]{l.page, l.news}, nil
}

func (l linkList) page(ctx context.Context, _ string, _ int) (Page[Link], error) {
	links, err := l.read(ctx)
	return Page[Link]{Items: links}, err
}

func (l linkList) read(ctx context.Context) ([]Link, error) {
	held, err := l.o.holds(ctx)
	if err != nil {
		return nil, err
	}
	links := []Link{}
	for _, s := range l.o.deps.Links.Statuses() {
		shaped, err := l.o.shapeLink(ctx, s, held)
		if err != nil {
			return nil, err
		}
		links = append(links, shaped)
	}
	return links, nil
}

// A newer input time is not a change.
func (l linkList) news(ctx context.Context, _ string, _ int) func() ([]Link, error) {
	reported := map[string]Link{}
	return func() ([]Link, error) {
		links, err := l.read(ctx)
		if err != nil {
			return nil, err
		}
		var items []Link
		for _, link := range links {
			quiet := link
			quiet.LastHeard = Moment{}
			if before, ok := reported[link.Name]; !ok || before != quiet {
				items = append(items, link)
			}
			reported[link.Name] = quiet
		}
		return items, nil
	}
}

// countTroubles counts without reading rows.
func (o *Operator) countTroubles(ctx context.Context, _ route.None) (t Troubles, err error) {
	held, err := o.holds(ctx)
	if err != nil {
		return t, err
	}
	for _, s := range o.deps.Links.Statuses() {
		if _, isHeld := held[s.Link.Name()]; isHeld || !StandingOf(s).Works() {
			t.Links++
		}
	}
	if t.Waiting, err = o.deps.Record.CountWaiting(ctx); err != nil {
		return t, err
	}
	dead, err := o.deps.Record.CountDead(ctx)
	for _, n := range dead {
		t.Dead += n
	}
	return t, err
}

func (o *Operator) shapeLink(ctx context.Context, s bridge.LinkStatus, held map[string]Hold) (Link, error) {
	backlog, err := o.deps.Record.Backlog(ctx, s.Link.Name())
	if err != nil {
		return Link{}, fmt.Errorf("count deliveries to link %s: %w", s.Link.Name(), err)
	}
	shaped := Link{
		Name: s.Link.Name(), Network: s.Link.Network(), State: string(s.Status.State),
		Waiting: backlog.Rows, Oldest: Moment(backlog.Oldest), NextDial: Moment(s.Status.NextDial), LastError: s.Status.LastError,
		Hold: held[s.Link.Name()],
	}
	if hearer, ok := s.Link.(bridge.Hearer); ok {
		shaped.LastHeard = Moment(hearer.Heard())
	}
	if describer, ok := s.Link.(bridge.Describer); ok {
		shaped.Agent = shapeAgent(describer.Describe())
	}
	return shaped, nil
}

func shapeAgent(d bridge.Description) LinkAgent {
	a := d.Agent
	if a == nil {
		return LinkAgent{}
	}
	shaped := LinkAgent{
		DID: a.DID, Card: a.Card, Name: a.Name, Version: a.Version, Protocol: a.Protocol, Updates: a.Updates, Claims: strings.Join(a.Claims, " "), Tasks: a.Tasks,
	}
	if len(d.Obstacles) > 0 {
		shaped.Obstacle = d.Obstacles[0]
	}
	return shaped
}

func (o *Operator) getLink(ctx context.Context, in ByName) (Link, error) {
	name := in.Name
	held, err := o.holds(ctx)
	if err != nil {
		return Link{}, err
	}
	for _, s := range o.deps.Links.Statuses() {
		if s.Link.Name() != name {
			continue
		}
		shaped, err := o.shapeLink(ctx, s, held)
		if err != nil {
			return Link{}, err
		}
		detail := &LinkDetail{Negotiated: map[string]string{}, Channels: []string{}, NotCarried: []string{}}
		limits := o.deps.Limits.Current()
		detail.Limits = LinkLimits{UserEventsPerMinute: limits.UserEventsPerMinute, LinkEventsPerSecond: limits.LinkEventsPerSecond}
		if describer, ok := s.Link.(bridge.Describer); ok {
			d := describer.Describe()
			detail.SkewSeconds = d.Skew.Seconds()
			if d.Negotiated != nil {
				detail.Negotiated = d.Negotiated
			}
			detail.Channels = append(detail.Channels, d.Channels...)
			detail.NotCarried = append(detail.NotCarried, d.NotCarried...)
			detail.Obstacles = d.Obstacles
		}
		shaped.LinkDetail = detail
		return shaped, nil
	}
	return Link{}, errNone("link " + name)
}

func (o *Operator) changeLink(ctx context.Context, in LinkChange) (Acted, error) {
	act := map[string]func(name string) error{"dial": o.deps.Links.Dial, "down": o.deps.Links.Disconnect, "up": o.deps.Links.Connect}[in.Verb]
	if act == nil {
		return Acted{}, errNone("verb " + in.Verb + " of links")
	}
	ask, err := in.Body.Read()
	if err != nil {
		return Acted{}, err
	}
	state, ok := o.linkState(in.Name)
	if !ok {
		return Acted{}, errNone("link " + in.Name)
	}
	changed := 1
	if state == bridge.LinkUp && in.Verb != "down" || state == bridge.LinkDown && in.Verb == "down" {
		changed = 0
	}
	if !ask.DryRun && changed > 0 {
		err := act(in.Name)
		if isNotFound(err) { // a reload removed the link
			err = errNone("link " + in.Name)
		}
		if err != nil {
			return Acted{}, err
		}
	}
	return o.acted(ctx, "link "+in.Verb, in.Name, ask, changed), nil
}

func (o *Operator) linkState(name string) (bridge.LinkState, bool) {
	for _, s := range o.deps.Links.Statuses() {
		if s.Link.Name() == name {
			return s.Status.State, true
		}
	}
	return "", false
}

func (o *Operator) linked(name string) bool {
	for _, s := range o.deps.Links.Statuses() {
		if s.Link.Name() == name {
			return true
		}
	}
	return false
}

func peerModes() []string { return []string{"allow", "limit", "hold", "block"} }

func (o *Operator) peer(name string) (Peer, bool) {
	all := o.deps.Server.Peers()
	i := slices.IndexFunc(all, func(p Peer) bool { return p.Name == name })
	if i < 0 {
		return Peer{}, false
	}
	return all[i], true
}

func (o *Operator) peers(context.Context, Paging) (listing[Peer], error) {
	page := func(ctx context.Context, _ string, _ int) (Page[Peer], error) {
		all, err := o.shapePeers(ctx)
		return Page[Peer]{Items: all}, err
	}
	return listing[Peer]{page: page}, nil
}

func (o *Operator) shapePeers(ctx context.Context) ([]Peer, error) {
	all := slices.Clone(o.deps.Server.Peers())
	shapes, err := o.deps.Record.Shapes(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	held, err := o.held(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range shapes {
		i := slices.IndexFunc(all, func(p Peer) bool {
			if p.PeerHome != nil { // a home and a registry may share a name
				return p.Name == s.Link
			}
			return p.Name == s.Peer
		})
		switch {
		case i >= 0:
		case s.Peer == "":
			continue // the link already lists its peers
		default:
			i = len(all)
			all = append(all, Peer{Name: s.Peer, Network: agents.Link})
		}
		all[i].Waiting, all[i].Oldest = s.Rows, Moment(s.Oldest)
	}
	for i := range all {
		all[i].Hold = held[all[i].Name]
		all[i].Held = !all[i].HeldSince.IsZero()
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

func (o *Operator) peerTrouble(ctx context.Context, p Peer) (Peer, error) {
	dead, err := o.deps.Record.DeadLetters(ctx, federation.DeadFilter{To: p.Name}, 0, MaxLimit)
	if err != nil {
		return p, err
	}
	p.Dead = len(dead)
	which := federation.WaitingFilter{Peer: p.Name}
	if p.PeerHome != nil {
		which = federation.WaitingFilter{Link: p.Name}
	}
	waiting, _, err := o.deps.Record.WaitingFor(ctx, which, "", 1)
	if err == nil && len(waiting) > 0 {
		p.LastError = waiting[0].Reason
	}
	if err != nil || p.PeerHome == nil {
		return p, err
	}
	return o.homeTrouble(ctx, p)
}

// homeTrouble adds the state of the link to a home, the proofs against it, and the doubts.
func (o *Operator) homeTrouble(ctx context.Context, p Peer) (Peer, error) {
	home := *p.PeerHome
	for _, s := range o.deps.Links.Statuses() {
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
	forks, err := o.deps.Record.Forks(ctx, federation.HomeID(p.Name), MaxLimit)
	home.Forks = make([]Fork, len(forks))
	for i, f := range forks {
		home.Forks[i] = Fork{Handoff: f.Handoff, Version: f.Version, Found: Moment(f.Found)}
	}
	if err != nil {
		return p, err
	}
	doubts, err := o.deps.Record.Misbehaviors(ctx, federation.HomeID(p.Name))
	home.Doubts = make([]Doubt, len(doubts))
	for i, d := range doubts {
		home.Doubts[i] = Doubt{Kind: d.Kind, Times: d.Times, First: Moment(d.First), Last: Moment(d.Last), Why: d.Why}
	}
	p.PeerHome = &home
	return p, err
}

func (o *Operator) getPeer(ctx context.Context, in ByName) (Peer, error) {
	all, err := o.shapePeers(ctx)
	if err != nil {
		return Peer{}, err
	}
	name := in.Name
	i := slices.IndexFunc(all, func(p Peer) bool { return p.Name == name })
	if i < 0 {
		return Peer{}, errNone("peer " + name)
	}
	return all[i], nil
}

func (o *Operator) setPeerMode(ctx context.Context, in PeerMode) (Peer, error) {
	name := in.Name
	ask, err := in.Body.Read()
	if err != nil {
		return Peer{}, err
	}
	if !slices.Contains(peerModes(), ask.Mode) {
		return Peer{}, usage("mode: want one of allow, limit, hold, block, not " + strconv.Quote(ask.Mode))
	}
	mode := federation.PeerMode{Domain: name, Mode: ask.Mode, Since: time.Now()}
	if err := o.deps.Server.SetPeerMode(ctx, mode, true); err != nil {
		return Peer{}, err
	}
	if _, known := o.peer(name); !known && !ask.New {
		return Peer{}, errNone("peer " + name + "; --new sets the mode of a registry that is not known yet")
	}
	if ask.DryRun {
		p, err := o.shapedPeer(ctx, name)
		p.Name, p.Mode, p.Origin = name, ask.Mode, FromRecord
		return p, err
	}
	if err := o.deps.Server.SetPeerMode(ctx, mode, false); err != nil {
		return Peer{}, err
	}
	o.act(ctx, "peer mode", name+" "+ask.Mode, ask.Reason)
	o.wake(name)
	p, _ := o.peer(name)
	return p, nil
}

// shapedPeer returns a peer with its pending deliveries, or the zero Peer.
func (o *Operator) shapedPeer(ctx context.Context, name string) (Peer, error) {
	all, err := o.shapePeers(ctx)
	i := slices.IndexFunc(all, func(p Peer) bool { return p.Name == name })
	if i < 0 {
		return Peer{}, err
	}
	return all[i], err
}

const homeNetwork = "home"

func (o *Operator) addPeer(ctx context.Context, body route.Body[Peering]) (Peered, error) {
	ask, err := body.Read()
	if err != nil {
		return Peered{}, err
	}
	added, err := o.deps.Server.AddHome(ctx, ask.URL, ask.AllowPrivate, ask.DryRun)
	if err != nil {
		return Peered{}, err
	}
	done := Peered{
		Peer: Peer{
			Name: string(added.Home.Home), Network: homeNetwork, Mode: peerModes()[0], Origin: FromRecord, URL: added.Home.URL,
			PeerHome: &PeerHome{Path: added.Home.Path, Forks: []Fork{}},
		},
		Checks: shapeChecks(added.Findings),
	}
	if canary := added.Canary; canary != nil {
		done.Canary = &Canary{Handoff: canary.Handoff, Green: canary.Green, Took: canary.Took.String(), Reason: canary.Reason}
	}
	if !ask.DryRun {
		o.act(ctx, "peer add", done.Peer.Name+" "+done.Peer.URL, ask.Reason)
	}
	return done, nil
}

func (o *Operator) removePeer(ctx context.Context, in PeerRemoval) (Peer, error) {
	name := in.Name
	gone, err := o.deps.Server.RemoveHome(ctx, name, in.DryRun)
	if err != nil {
		return Peer{}, err
	}
	if !in.DryRun {
		o.act(ctx, "peer remove", name, in.Reason)
	}
	return Peer{Name: name, Network: homeNetwork, Origin: FromRecord, URL: gone.URL}, nil
}

func (o *Operator) comparePeer(ctx context.Context, in ActOnName) (Compared, error) {
	ask, err := in.Body.Read()
	if err != nil {
		return Compared{}, err
	}
	done, err := o.deps.Server.ComparePeer(ctx, federation.HomeID(in.Name), ask.DryRun)
	if err != nil {
		return Compared{}, err
	}
	if !ask.DryRun {
		o.act(ctx, "peer compare", in.Name, ask.Reason)
	}
	return done, nil
}

func (o *Operator) relay(context.Context, Paging) (listing[Check], error) {
	page := func(ctx context.Context, _ string, _ int) (Page[Check], error) {
		return Page[Check]{Items: shapeChecks(o.deps.Server.CheckRelay(ctx))}, nil
	}
	return listing[Check]{page: page}, nil
}

func shapeChecks(findings []federation.Finding) []Check {
	checks := []Check{}
	for _, f := range findings {
		checks = append(checks, Check{Check: f.What, State: string(f.State), Detail: f.Detail})
	}
	return checks
}

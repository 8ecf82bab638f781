package main

import (
	"context"
	"time"

	"baton/bridge"
	"baton/bridge/gateway"
	"baton/configs"
	"baton/federation"
	"baton/federation/relay"
)

// linkSource is what a link was opened from: a table of the configuration, or, for a home that
// an operator added, how that is reached.
type linkSource struct {
	table configs.Table
	url   string
	path  relay.Path
	peer  *relay.Peer // nil for a link to no home
}

// Same implements [gateway.Source].
func (s linkSource) Same(other gateway.Source) bool {
	o, ok := other.(linkSource)
	return ok && s.table.Equal(o.table) && s.url == o.url && s.path == o.path
}

// opened returns a link of the configuration with the table that it was opened from.
func opened(link bridge.Link, t configs.Table) gateway.Entry {
	return gateway.Entry{Link: link, Source: linkSource{table: t}}
}

// openedPeer returns the link to another home; the table is empty for one that an operator
// added.
func openedPeer(peer *relay.Peer, t configs.Table, added bool) gateway.Entry {
	return gateway.Entry{Link: peer, Source: linkSource{table: t, url: peer.URL(), path: peer.Path(), peer: peer}, Added: added}
}

var (
	_ bridge.PeerHome  = (*relay.Peer)(nil)
	_ bridge.Forgetful = (*relay.Peer)(nil)
)

// peerSet is the other homes that are linked at one moment. It does not change.
type peerSet struct {
	all   []*relay.Peer
	named map[federation.HomeID]*relay.Peer
}

func newPeerSet(links []gateway.Entry) *peerSet {
	s := &peerSet{all: peersOf(links), named: map[federation.HomeID]*relay.Peer{}}
	for _, peer := range s.all {
		s.named[peer.Home()] = peer
	}
	return s
}

// apply makes these links the ones that run.
func (p *program) apply(ctx context.Context, links []gateway.Entry) {
	p.homes.linked.Store(newPeerSet(links))
	p.mountServed(links)
	p.gateway.Links().Apply(ctx, links)
}

// recipients implements [gateway.Recipients].
type recipients struct{ p *program }

// Recipients implements [gateway.Recipients].
func (r recipients) Recipients(ctx context.Context, ev federation.Event, after federation.View) ([]string, error) {
	return r.p.homes.locator.Recipients(ctx, ev, after, time.Now())
}

// mountServed registers the routes of links that a reload may replace, each once.
func (p *program) mountServed(links []gateway.Entry) {
	for _, o := range links {
		served, ok := o.Link.(bridge.Served)
		if ok && !p.served[served.Pattern()] {
			p.served[served.Pattern()] = true
			p.publicMux.Handle(served.Pattern(), p.gateway.Links())
		}
	}
}

package main

import (
	"baton/bridge"
	"baton/federation"
	"baton/federation/relay"
)

// roll is the links that run at one moment, and what each step asks of them, so that a
// step costs no more where a thousand homes are known. It is not changed once it is made.
type roll struct {
	all     []*running // in the order of the configuration
	named   map[string]*running
	peers   []*relay.Peer   // the other homes among them
	placers []bridge.Placer // those on which offers can be written
	asked   bridge.Links    // those that say themselves what they carry: all but the homes
}

func newRoll(all []*running) *roll {
	r := &roll{all: all, named: make(map[string]*running, len(all))}
	for _, each := range all {
		r.named[each.link.Name()] = each
		if placer, ok := each.link.(bridge.Placer); ok {
			r.placers = append(r.placers, placer)
		}
		if peer, ok := each.link.(*relay.Peer); ok {
			r.peers = append(r.peers, peer)
		} else {
			r.asked = append(r.asked, each.link)
		}
	}
	return r
}

// peer returns another home, nil for one that nobody configured.
func (r *roll) peer(home federation.HomeID) *relay.Peer {
	each := r.named[string(home)]
	if each == nil {
		return nil
	}
	peer, _ := each.link.(*relay.Peer)
	return peer
}

package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"baton/bridge"
	"baton/federation"
	"baton/federation/agents"
)

// ModeRecord keeps the modes that operators set for peers. Its methods block on the record and
// return its errors.
type ModeRecord interface {
	// PeerModes returns all modes.
	PeerModes(ctx context.Context) ([]federation.PeerMode, error)
	// SetPeerMode keeps a mode in the place of an earlier one.
	SetPeerMode(ctx context.Context, m federation.PeerMode) error
	// Held reports whether an operator keeps deliveries to a peer back, and since when.
	Held(ctx context.Context, peer string) (federation.Withheld, bool, error)
}

// PeerModes is the modes that operators set for other registries and homes. They take
// precedence over the configuration. Its methods may be called concurrently.
type PeerModes struct {
	ModeRecord

	current atomic.Pointer[map[string]string]
}

// NewPeerModes returns modes that are empty until [PeerModes.Read].
func NewPeerModes(record ModeRecord) *PeerModes {
	m := &PeerModes{ModeRecord: record}
	m.current.Store(&map[string]string{})
	return m
}

// Read makes the modes on record the current ones. It blocks on the record, and returns its
// error.
func (m *PeerModes) Read(ctx context.Context) error {
	kept, err := m.PeerModes(ctx)
	if err != nil {
		return fmt.Errorf("read modes of peers: %w", err)
	}
	modes := map[string]string{}
	for _, each := range kept {
		modes[each.Domain] = each.Mode
	}
	m.current.Store(&modes)
	return nil
}

// Mode returns the mode of a peer, "" where no operator set one.
func (m *PeerModes) Mode(name string) string { return (*m.current.Load())[name] }

// LinkPeer is a peer of a [bridge.Peered] link as operators see it.
type LinkPeer struct {
	bridge.Peer

	Network string
	// Set says that an operator set the mode. The configuration may not name the peer then.
	Set bool
}

// LinkPeers returns the peers of links in the order of the configuration, and then the other peers for
// which an operator set a mode, by name. It leaves out peers of the latter kind for which skip is
// true.
func (m *PeerModes) LinkPeers(links *LinkSet, skip func(name string) bool) []LinkPeer {
	var all []LinkPeer
	network := agents.Link // of a peer that the configuration does not name
	for link := range able[bridge.Peered](links) {
		network = link.Network()
		for _, peer := range link.Peers() {
			all = append(all, LinkPeer{Peer: peer, Network: network})
		}
	}
	modes := *m.current.Load()
	for _, name := range slices.Sorted(maps.Keys(modes)) {
		i := slices.IndexFunc(all, func(known LinkPeer) bool { return known.Name == name })
		switch {
		case i < 0 && skip(name):
			continue
		case i < 0:
			i = len(all)
			all = append(all, LinkPeer{Peer: bridge.Peer{Name: name, URL: federation.BaseURL(name)}, Network: network})
		}
		all[i].Mode, all[i].Set = modes[name], true
	}
	return all
}

// CheckPeer returns why no link can have a peer of a name, nil for a name that a link accepts.
func (l *LinkSet) CheckPeer(name string) error {
	err := fmt.Errorf("a link that has peers, to know %s", name)
	for link := range able[bridge.Peered](l) {
		if err = link.CheckPeer(name); err == nil {
			return nil
		}
	}
	return err
}

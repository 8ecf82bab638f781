package server

import (
	"baton/bridge/operatorapi"
	"baton/configs"
	"baton/federation"
	"baton/federation/identity"
	"baton/federation/relay"
)

// peersTable is the name of the tables of other homes.
const peersTable = "peers"

// openPeer makes the link to another home.
func openPeer(t configs.Table, w Wiring) (Entry, error) {
	table := configs.Peer{Path: string(relay.ByRelay), Mode: string(relay.Allow)}
	t.Decode(&table)
	checkDID(t, table)
	deps := relay.Deps{Log: w.Ports.Log}
	if w.homes != nil {
		deps = w.homes.deps()
	}
	cfg := relay.PeerConfig{Home: federation.HomeID(table.Name), URL: table.URL, Path: relay.Path(table.Path), Mode: relay.Mode(table.Mode), Key: checkKey(t, table)}
	cfg.Check(w.Ports.Home, t.Mistake)
	if authorities := checkAuthorities(t, table); authorities != nil && w.homes != nil {
		poster, err := w.homes.posterOf(authorities)
		if err != nil {
			return Entry{}, err
		}
		deps.Poster = poster
	}
	peer := relay.NewPeer(cfg, deps)
	if w.mode != nil {
		peer.SetOperatorMode(relay.Mode(w.mode(peer.Name())))
	}
	return openedPeer(peer, t, false), nil
}

// shapes returns the other homes as operators see them.
func (h *homes) shapes() []operatorapi.Peer {
	var all []operatorapi.Peer
	for _, o := range h.Gateway.Links().Entries() {
		peer, source := peerOf(o), operatorapi.FromConfiguration
		if peer == nil {
			continue
		}
		if o.Added {
			source = operatorapi.FromRecord
		}
		origin := source
		if peer.OperatorMode() != "" {
			origin = operatorapi.FromRecord
		}
		all = append(all, operatorapi.Peer{
			Name: peer.Name(), Network: relay.Network, Mode: string(peer.Mode()), Origin: origin, Source: source, URL: peer.URL(),
			PeerHome: &operatorapi.PeerHome{Path: string(peer.Path()), SkewSeconds: peer.Skew().Seconds()},
		})
	}
	return all
}

// unrouted returns the link of steps for DIDs without a known home; one without homes is only
// checked, and never runs.
func (w Wiring) unrouted() Entry {
	if w.homes == nil {
		return Entry{Link: Unrouted{}}
	}
	return w.homes.OpenUnrouted()
}

// checkDID adds the mistakes of the DID of a home to the mistakes of the file.
func checkDID(t configs.Table, table configs.Peer) {
	switch did, err := federation.ParseDID(table.DID); {
	case table.DID == "":
		t.Mistake("did", "required: the DID that signs what it sends, such as did:web:b.example")
	case err != nil || did != federation.HomeID(table.Name).DID():
		t.Mistake("did", "want did:web: and its name")
	}
}

// checkKey returns the id of the key of a home, "" for none.
func checkKey(t configs.Table, table configs.Peer) string {
	if table.Key == "" {
		return ""
	}
	key, err := identity.ParseKeyDID(federation.DID(table.Key))
	if err != nil {
		t.Mistake("key", "want the did:key that baton keys show server prints at that home")
		return ""
	}
	return federation.KeyID(key)
}

// checkAuthorities returns the authorities that certify the HTTPS of a home beside the
// authorities of the system, nil for none.
func checkAuthorities(t configs.Table, table configs.Peer) []byte {
	if table.CAFile == "" {
		return nil
	}
	text, err := identity.ReadAuthorities(t.Path(table.CAFile))
	if err != nil {
		t.Mistake("ca_file", err.Error())
		return nil
	}
	return text
}

// peersOf returns the other homes among links.
func peersOf(links []Entry) []*relay.Peer {
	var peers []*relay.Peer
	for _, o := range links {
		if peer := peerOf(o); peer != nil {
			peers = append(peers, peer)
		}
	}
	return peers
}

// peerOf returns the other home that a link leads to, nil for any other link.
func peerOf(o Entry) *relay.Peer {
	source, _ := o.Source.(linkSource)
	return source.peer
}

// homeAddress returns the address of a known home. Its DID document and the documents of its
// agents are there.
func (s *Server) homeAddress(host string) (address string, ok bool) {
	if s.homes == nil {
		return "", false
	}
	peer := s.homes.peer(federation.HomeID(host))
	if peer == nil || peer.URL() == "" {
		return "", false
	}
	return peer.URL(), true
}

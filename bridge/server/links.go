package server

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/agents/rest"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/relay"
)

// Networks returns the networks of a program for a server, in the order of the reference file.
type Networks func(w Wiring) []bridge.Network

// OpenLinks opens all links of a configuration, and returns the mistakes in it. The zero wiring
// suffices to check a configuration.
func OpenLinks(file *configs.File, networks Networks, w Wiring) ([]Entry, error) {
	w.Ports = filePorts(file, w.Ports)
	links := &linkOpening{names: map[string]bool{}, whole: true}
	for _, network := range networks(w) {
		for _, t := range tablesOf(file, network) {
			link, err := network.Open(t, w.Ports)
			links.add(t, opened(link, t), err)
		}
	}
	for _, t := range file.Tables(peersTable) {
		entry, err := openPeer(t, w)
		links.add(t, entry, err)
	}
	if len(peersOf(links.all)) > 0 {
		links.all = append(links.all, w.unrouted())
	}
	names := links.names
	if !links.whole {
		names = nil // a link that could not be opened has no name
	}
	readMeeting(file)
	clientAuthorities(file)
	boundNames(file, names) // finds their mistakes
	homePolicy(file, names)
	return links.all, file.Err()
}

func filePorts(file *configs.File, p bridge.Ports) bridge.Ports {
	api := rest.DefaultConfig()
	file.Table(rest.Table).Decode(&api)
	p.Secrets, p.Home = file, federation.HomeID(file.Home.Name)
	p.HTTP = bridge.HTTP{
		Listen: file.HTTP.Listen, Origins: file.HTTP.CORSOrigins, Proxies: file.HTTP.TrustedProxies,
		MaxBodyBytes: file.HTTP.MaxBodyBytes, MaxWait: api.MaxWait, MaxStreams: api.MaxStreams,
		FetchPrivate: file.Fetch.AllowPrivate,
	}
	if !file.SpeaksTLS() {
		p.Certificate = nil
	} else if p.Certificate == nil { // without a running gateway
		p.Certificate = newCertificate(file)
	}
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	return p
}

// SkipLinks marks the tables of links as read without opening them. It returns the other mistakes
// in the configuration.
func SkipLinks(file *configs.File, networks Networks) error {
	for _, n := range networks(Wiring{}) {
		tablesOf(file, n)
	}
	file.Tables(peersTable)
	file.Tables("bindings")
	return file.Err()
}

func tablesOf(file *configs.File, n bridge.Network) []configs.Table {
	if n.Many {
		return file.Tables(n.Table)
	}
	return []configs.Table{file.Table(n.Table)}
}

type linkOpening struct {
	all   []Entry
	names map[string]bool
	whole bool // all links have opened so far
}

func (l *linkOpening) add(t configs.Table, entry Entry, err error) {
	switch {
	case errors.Is(err, bridge.ErrOff):
	case err != nil:
		addMistakes(t, err)
		l.whole = false
	case l.names[entry.Link.Name()]:
		t.Mistake("name", fmt.Sprintf("%q is the name of another link", entry.Link.Name()))
	default:
		l.names[entry.Link.Name()] = true
		l.all = append(l.all, entry)
	}
}

func namesOf(links []Entry) map[string]bool {
	names := map[string]bool{}
	for _, o := range links {
		names[o.Link.Name()] = true
	}
	return names
}

func addMistakes(t configs.Table, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, each := range joined.Unwrap() {
			addMistakes(t, each)
		}
		return
	}
	if mistake, ok := errors.AsType[*bridge.KeyError](err); ok {
		t.Mistake(mistake.Key, mistake.Why)
		return
	}
	t.Mistake("", err.Error())
}

const peersTable = "peers"

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

func (h *homes) shapes() []admin.Peer {
	var all []admin.Peer
	for _, o := range h.Gateway.Links().Entries() {
		peer, source := peerOf(o), admin.FromConfiguration
		if peer == nil {
			continue
		}
		if o.Added {
			source = admin.FromRecord
		}
		origin := source
		if peer.OperatorMode() != "" {
			origin = admin.FromRecord
		}
		all = append(all, admin.Peer{
			Name: peer.Name(), Network: relay.Network, Mode: string(peer.Mode()), Origin: origin, Source: source, URL: peer.URL(),
			PeerHome: &admin.PeerHome{Path: string(peer.Path()), SkewSeconds: peer.Skew().Seconds()},
		})
	}
	return all
}

// Without homes, the link is only checked, and never runs.
func (w Wiring) unrouted() Entry {
	if w.homes == nil {
		return Entry{Link: Unrouted{}}
	}
	return w.homes.openUnrouted()
}

func checkDID(t configs.Table, table configs.Peer) {
	switch did, err := federation.ParseDID(table.DID); {
	case table.DID == "":
		t.Mistake("did", "required: the DID that signs its messages, such as did:web:b.example")
	case err != nil || did != federation.HomeID(table.Name).DID():
		t.Mistake("did", "want did:web: and its name")
	}
}

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

func peersOf(links []Entry) []*relay.Peer {
	var peers []*relay.Peer
	for _, o := range links {
		if peer := peerOf(o); peer != nil {
			peers = append(peers, peer)
		}
	}
	return peers
}

func peerOf(o Entry) *relay.Peer {
	source, _ := o.Source.(linkSource)
	return source.peer
}

// homeAddress returns the address of a known home, which serves its own DID document and the
// documents of its agents.
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

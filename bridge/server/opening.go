package server

import (
	"errors"
	"fmt"
	"log/slog"

	"baton/bridge"
	"baton/bridge/agentapi"
	"baton/configs"
	"baton/federation"
)

// Networks returns the networks of a program, in the order of the reference file, wired to a server.
type Networks func(w Wiring) []bridge.Network

// OpenLinks opens all links of a configuration. It adds mistakes in their tables to the
// mistakes of the file, and returns them. The zero wiring is enough to check a configuration.
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
	boundNames(file, names) // for their mistakes
	homePolicy(file, names)
	return links.all, file.Err()
}

// filePorts adds to ports what a configuration alone determines.
func filePorts(file *configs.File, p bridge.Ports) bridge.Ports {
	rest := agentapi.DefaultConfig()
	file.Table(agentapi.Table).Decode(&rest)
	p.Secrets, p.Home = file, federation.HomeID(file.Home.Name)
	p.HTTP = bridge.HTTP{
		Listen: file.HTTP.Listen, Origins: file.HTTP.CORSOrigins, Proxies: file.HTTP.TrustedProxies,
		MaxBodyBytes: file.HTTP.MaxBodyBytes, MaxWait: rest.MaxWait, MaxStreams: rest.MaxStreams,
		FetchPrivate: file.Fetch.AllowPrivate,
	}
	if config := file.TLSConfig(); config != nil {
		p.Certificate = &config.Certificates[0]
	}
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	return p
}

// SkipLinks marks the tables of links as read without opening a link. It returns the mistakes in the
// rest of the configuration.
func SkipLinks(file *configs.File, networks Networks) error {
	for _, n := range networks(Wiring{}) {
		tablesOf(file, n)
	}
	file.Tables(peersTable)
	file.Tables("bindings")
	return file.Err()
}

// tablesOf returns the tables of a network.
func tablesOf(file *configs.File, n bridge.Network) []configs.Table {
	if n.Many {
		return file.Tables(n.Table)
	}
	return []configs.Table{file.Table(n.Table)}
}

// linkOpening is the links of a configuration while they are opened.
type linkOpening struct {
	all   []Entry
	names map[string]bool
	whole bool // no link has failed to open
}

// add adds the link of a table, unless the table turns it off, the link could not be opened, or
// another link has its name.
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

// namesOf returns the names of links.
func namesOf(links []Entry) map[string]bool {
	names := map[string]bool{}
	for _, o := range links {
		names[o.Link.Name()] = true
	}
	return names
}

// addMistakes adds the mistakes that a network found in its table to the mistakes of the file.
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

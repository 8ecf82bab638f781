package federation

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Source is the origin of a step, a login or a connection. A zero member is unknown, and no
// block matches it.
type Source struct {
	Network      string       // label of metrics, as in [Arrival]
	Address      netip.Prefix // as in [Arrival]
	DIDs         []DID        // each one that the source goes by
	Participants []string     // of participants of links here, and with @domain of peers
	Link         string       // by which a chat user is connected
	Name         string       // of a chat user
	User         string       // of a chat user
}

// mask is a block of chat users.
type mask struct{ nick, user, link string }

// cutMask splits NICK!USER@LINK.
func cutMask(text string) (mask, bool) {
	nick, rest, bang := strings.Cut(text, "!")
	i := strings.LastIndexByte(rest, '@')
	if !bang || i < 0 {
		return mask{}, false
	}
	m := mask{nick, rest[:i], rest[i+1:]}
	return m, m.nick != "" && m.user != "" && m.link != ""
}

// BlockedLink returns the name of the link that a block of chat users names, "" for every
// other block.
func BlockedLink(b Block) string {
	m, ok := cutMask(b.What)
	if !ok || b.Kind != BlockMask || m.link == anyLink {
		return ""
	}
	return m.link
}

func (m mask) fits(s Source) bool {
	return s.Name != "" && (m.link == anyLink || m.link == strings.ToLower(s.Link)) &&
		Glob(m.nick, strings.ToLower(s.Name)) && Glob(m.user, strings.ToLower(s.User))
}

// Blocks is a set of blocks that sources are compared with. The zero Blocks blocks
// nothing. It is not changed once it is made, and may be used concurrently.
type Blocks struct {
	exact    map[string]Block // DIDs and handles, which have no spelling in common
	hosts    map[string]Block
	networks []blockedNetwork
	masks    []blockedMask
}

type blockedNetwork struct {
	Block

	network netip.Prefix
}

type blockedMask struct {
	Block

	mask mask
}

// NewBlocks returns the set of some blocks. It leaves out what [ParseBlock] does not read.
func NewBlocks(all []Block) *Blocks {
	b := &Blocks{exact: map[string]Block{}, hosts: map[string]Block{}}
	for _, each := range all {
		switch each.Kind {
		case BlockDID, BlockParticipant:
			b.exact[each.What] = each
		case BlockHost:
			b.hosts[strings.TrimPrefix(each.What, hostPrefix)] = each
		case BlockNetwork:
			if network, err := netip.ParsePrefix(each.What); err == nil {
				b.networks = append(b.networks, blockedNetwork{each, network})
			}
		case BlockMask:
			if m, ok := cutMask(each.What); ok {
				b.masks = append(b.masks, blockedMask{each, m})
			}
		}
	}
	return b
}

// Empty reports whether there is no block.
func (b *Blocks) Empty() bool {
	return b == nil || len(b.exact)+len(b.hosts)+len(b.networks)+len(b.masks) == 0
}

// Named reports whether a block names a DID, a handle or a host: only then the other names
// of a source matter.
func (b *Blocks) Named() bool { return b != nil && len(b.exact)+len(b.hosts) > 0 }

// Match returns a block that fits a source and holds at a time; false for a source that
// none does.
func (b *Blocks) Match(s Source, now time.Time) (Block, bool) {
	if b.Empty() {
		return Block{}, false
	}
	for _, did := range s.DIDs {
		if found, ok := b.matchDID(did, now); ok {
			return found, true
		}
	}
	for _, handle := range s.Participants {
		if found, ok := b.exact[strings.ToLower(handle)]; ok && found.Good(now) {
			return found, true
		}
	}
	if i := slices.IndexFunc(b.networks, func(n blockedNetwork) bool {
		return s.Address.IsValid() && n.Good(now) && n.network.Overlaps(s.Address)
	}); i >= 0 {
		return b.networks[i].Block, true
	}
	if i := slices.IndexFunc(b.masks, func(m blockedMask) bool { return m.Good(now) && m.mask.fits(s) }); i >= 0 {
		return b.masks[i].Block, true
	}
	return Block{}, false
}

func (b *Blocks) matchDID(did DID, now time.Time) (Block, bool) {
	if found, ok := b.exact[string(did)]; ok && found.Good(now) {
		return found, true
	}
	for host := webHost(did); host != "" && len(b.hosts) > 0; _, host, _ = strings.Cut(host, ".") {
		if found, ok := b.hosts[host]; ok && found.Good(now) {
			return found, true
		}
	}
	return Block{}, false
}

// webHost returns the host of a did:web without its port, "" for any other DID.
func webHost(did DID) string {
	id, ok := strings.CutPrefix(string(did), "did:web:")
	if !ok {
		return ""
	}
	host, _, _ := strings.Cut(id, ":")
	host, err := url.PathUnescape(host) // a port is behind %3A
	if err != nil {
		return ""
	}
	if from, err := netip.ParseAddrPort(host); err == nil {
		return from.Addr().String()
	}
	host, _, _ = strings.Cut(host, ":")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

package federation

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// BlockKind is the kind of source that a [Block] names.
type BlockKind string

// The kinds of blocks.
const (
	BlockDID         BlockKind = "did"
	BlockNetwork     BlockKind = "network"
	BlockParticipant BlockKind = "handle" // participant of a local link, or of a peer with @domain
	BlockMask        BlockKind = "mask"   // chat users: NICK!USER@LINK
	BlockHost        BlockKind = "host"   // each did:web of a host or its subdomains
)

const (
	hostPrefix = "host:"
	anyLink    = "*"
)

const maxBlockBytes = MaxDIDBytes

// SubnetBits is the IPv6 prefix length that names one client: providers assign at least a /64. Recorded
// addresses have no longer prefix.
const SubnetBits = 64

const (
	siteBits4 = 24
	siteBits6 = 48
)

// Site returns the network that limits count as one site: the IPv4 /24 or the IPv6 /48 of an address or
// CIDR subnet. It returns "" for any other text.
func Site(subnet string) string {
	network, err := netip.ParsePrefix(subnet)
	if err != nil {
		return ""
	}
	bits := siteBits6
	if network.Addr().Is4() {
		bits = siteBits4
	}
	return netip.PrefixFrom(network.Addr(), min(bits, network.Bits())).Masked().String()
}

// Block is an operator's decision to accept nothing from a source.
type Block struct {
	What    string    `json:"what"` // canonical, see [ParseBlock]
	Kind    BlockKind `json:"kind"`
	Reason  string    `json:"reason"`
	Since   time.Time `json:"since"`
	Expires time.Time `json:"expires,omitzero"` // zero if permanent
}

// Good reports whether the block is in force at the given time.
func (b Block) Good(now time.Time) bool { return b.Expires.IsZero() || now.Before(b.Expires) }

// ParseBlock reads the subject of a block:
//
//	did:plc:aaaaaaaaaaaaaaaaaaaaaaaa   a DID
//	192.0.2.7, 2001:db8::/32           an IP address or network
//	mallory, mallory@peer.example      a handle
//	mallory*!*@lab                     chat users; * and ? in nick and user, * for every link
//	host:evil.example, evil.example    the did:webs of a host
//
// The error names the mistake in the text.
func ParseBlock(text string) (Block, error) {
	if len(text) > maxBlockBytes {
		return Block{}, fmt.Errorf("parse block: longer than %d bytes", maxBlockBytes)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Block{}, fmt.Errorf("parse block %q: want visible characters of ASCII", text)
	}
	host, isHost := strings.CutPrefix(text, hostPrefix)
	switch {
	case text == "":
		return Block{}, errors.New("parse block: it is empty")
	case strings.HasPrefix(text, "did:"):
		did, err := ParseDID(text)
		return Block{What: string(did), Kind: BlockDID}, err
	case strings.Contains(text, "!"):
		return parseMask(text)
	case isHost:
		return parseBlockedHost(host)
	}
	if network, ok, err := parseBlockedNetwork(text); ok || err != nil {
		return Block{What: network.String(), Kind: BlockNetwork}, err
	}
	if strings.Contains(text, ".") && !strings.Contains(text, "@") {
		return parseBlockedHost(text)
	}
	return parseBlockedHandle(text)
}

func parseBlockedNetwork(text string) (network netip.Prefix, ok bool, err error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.Unmap().WithZone("")
		network = netip.PrefixFrom(addr, addr.BitLen())
	} else if network, err = netip.ParsePrefix(text); err != nil {
		if strings.Contains(text, "/") {
			return network, false, fmt.Errorf("parse block %q: want an IP network such as 192.0.2.0/24", text)
		}
		return network, false, nil
	}
	switch {
	case network.Addr().Is4In6():
		return network, false, fmt.Errorf("parse block %q: write an IPv4 network as such", text)
	case network.Bits() == 0:
		return network, false, fmt.Errorf("parse block %q: that is every address", text)
	case network.Addr().Is6() && network.Bits() > SubnetBits:
		network = netip.PrefixFrom(network.Addr(), SubnetBits)
	}
	return network.Masked(), true, nil
}

func parseMask(text string) (Block, error) {
	m, ok := cutMask(strings.ToLower(text))
	if !ok {
		return Block{}, fmt.Errorf("parse block %q: want NICK!USER@LINK, LINK the name of a link", text)
	}
	if strings.Trim(m.nick+m.user, "*") == "" && m.link == anyLink {
		return Block{}, fmt.Errorf("parse block %q: that is every user of every link", text)
	}
	return Block{What: m.nick + "!" + m.user + "@" + m.link, Kind: BlockMask}, nil
}

func parseBlockedHost(text string) (Block, error) {
	host := strings.ToLower(strings.TrimSuffix(text, "."))
	_, err := netip.ParseAddr(host)
	if name := strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-") == ""; err != nil && (!name || !strings.Contains(strings.Trim(host, "."), ".") || strings.Contains(host, "..")) {
		return Block{}, fmt.Errorf("parse block %q: want host: and a host name with a dot, without a port", text)
	}
	return Block{What: hostPrefix + host, Kind: BlockHost}, nil
}

func parseBlockedHandle(text string) (Block, error) {
	text = strings.ToLower(text)
	handle, domain, remote := strings.Cut(text, "@")
	if handle == "" || strings.Trim(handle, "abcdefghijklmnopqrstuvwxyz0123456789_.-") != "" ||
		remote && (domain == "" || strings.Trim(domain, "abcdefghijklmnopqrstuvwxyz0123456789.-:") != "") {
		return Block{}, fmt.Errorf("parse block %q: want a DID, an IP network, a handle, NICK!USER@LINK or host:NAME", text)
	}
	return Block{What: text, Kind: BlockParticipant}, nil
}

// Source is the origin of a step, a login or a connection. No block matches an empty member.
type Source struct {
	Network      string
	Address      netip.Prefix
	DIDs         []DID
	Participants []string // of local links; of peers with @domain
	Link         string
	Name         string
	User         string
}

type mask struct{ nick, user, link string }

func cutMask(text string) (mask, bool) {
	nick, rest, bang := strings.Cut(text, "!")
	i := strings.LastIndexByte(rest, '@')
	if !bang || i < 0 {
		return mask{}, false
	}
	m := mask{nick, rest[:i], rest[i+1:]}
	return m, m.nick != "" && m.user != "" && m.link != ""
}

// BlockedLink returns the link of a [BlockMask], or "".
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

// Blocks is an immutable set of blocks, safe for concurrent use. The zero Blocks blocks nothing.
type Blocks struct {
	exact    map[string]Block // by DID or handle
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

// NewBlocks returns a set of blocks. It omits invalid blocks.
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

// Empty reports whether the set has no block.
func (b *Blocks) Empty() bool {
	return b == nil || len(b.exact)+len(b.hosts)+len(b.networks)+len(b.masks) == 0
}

// Named reports whether a block names a DID, a handle or a host. If not, the caller need not look up
// the other names of a source.
func (b *Blocks) Named() bool { return b != nil && len(b.exact)+len(b.hosts) > 0 }

// Match returns a block that matches a source at the given time, or false if none does.
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

func webHost(did DID) string {
	id, ok := strings.CutPrefix(string(did), "did:web:")
	if !ok {
		return ""
	}
	host, _, _ := strings.Cut(id, ":")
	host, err := url.PathUnescape(host) // a port follows %3A
	if err != nil {
		return ""
	}
	if from, err := netip.ParseAddrPort(host); err == nil {
		return from.Addr().String()
	}
	host, _, _ = strings.Cut(host, ":")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

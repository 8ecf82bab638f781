package airc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"baton/federation"
	"baton/federation/agents"
	"baton/federation/signing"
)

// contact is the owner of a handle: an agent, a DID of another network that signed a step,
// or a role, which has no DID.
type contact struct {
	handle  string             // the one that threads and consent are kept under
	agent   *agents.Agent      // nil for a DID of another network
	foreign federation.Binding // zero for an agent
	place   federation.Place   // of a user that was named by its nick on a link
}

// did returns the identity of a contact on other networks, "" for a role.
func (c contact) did() federation.DID {
	if c.agent != nil {
		return c.agent.DID
	}
	return c.foreign.DID
}

// is reports whether a contact is a DID.
func (c contact) is(did federation.DID) bool {
	if c.agent != nil {
		return c.agent.Is(did) || c.agent.Bound.DID == did
	}
	return c.foreign.DID == did
}

// isAny reports whether a contact is one of several DIDs.
func (c contact) isAny(dids []federation.DID) bool { return slices.ContainsFunc(dids, c.is) }

// find returns the contact of a handle of any scheme. Its error wraps
// [federation.ErrNotFound] for an unknown handle.
func (l *Link) find(ctx context.Context, handle string) (contact, error) {
	if strings.Contains(handle, "@") {
		if user, err := l.findUser(ctx, handle); !errors.Is(err, federation.ErrNotFound) {
			return user, err
		}
		return l.findRemote(ctx, handle)
	}
	if !wellFormed(handle) {
		return contact{}, fmt.Errorf("find handle: %w", federation.ErrNotFound)
	}
	// The DID takes precedence: an agent may have registered its alias before aliases were
	// reserved.
	did, hash := parseHandle(handle)
	if hash != "" {
		b, err := l.deps.Record.BindingByHash(ctx, hash)
		switch {
		case err == nil && (handle == Handle(b.DID) || handle == Alias(b.DID, b.First)):
			did = b.DID
		case err != nil && !errors.Is(err, federation.ErrNotFound):
			return contact{}, fmt.Errorf("look up hash of handle: %w", err)
		}
	}
	if did != "" {
		return l.findDID(ctx, did)
	}
	agent, err := l.deps.Record.Agent(ctx, handle)
	if err != nil {
		return contact{}, fmt.Errorf("look up agent: %w", err)
	}
	return contact{handle: handle, agent: &agent}, nil
}

// findUser returns the contact of NICK@LINK, a user of a chat network. Its error is as for find.
func (l *Link) findUser(ctx context.Context, address string) (contact, error) {
	if l.deps.Messages == nil {
		return contact{}, federation.ErrNotFound
	}
	user, err := l.deps.Messages.Addressee(ctx, strings.TrimPrefix(address, "@"))
	if err != nil {
		return contact{}, err
	}
	c, err := l.contactOf(ctx, user.DID, nil)
	if c.agent == nil {
		c.foreign.Name, c.foreign.First, c.place = user.Place.Venue, user.Place.Venue, user.Place
	}
	return c, err
}

// findRemote returns the contact of an address. An agent of another registry that messages
// are exchanged with may be unknown here: then it is not in the record, and only its own
// registry knows whether it exists.
func (l *Link) findRemote(ctx context.Context, text string) (contact, error) {
	if unverified, ok := strings.CutPrefix(strings.TrimPrefix(text, "@"), agents.Unverified); ok {
		if address, ok := parseAddress(unverified); ok {
			return contact{handle: agents.Unverified + address.String()}, nil // decided about, and never written to
		}
	}
	address, ok := parseAddress(text)
	if !ok {
		return contact{}, fmt.Errorf("find address: %w", federation.ErrNotFound)
	}
	if address.domain == l.domain {
		return l.find(ctx, address.handle)
	}
	agent, err := l.deps.Record.Agent(ctx, address.String())
	if errors.Is(err, federation.ErrNotFound) {
		if _, federated := l.peerConfig(address.domain); federated {
			agent, err = l.stranger(address.String(), time.Time{}), nil
		}
	}
	if err != nil {
		return contact{}, fmt.Errorf("look up agent: %w", err)
	}
	return contact{handle: agent.Handle, agent: &agent}, nil
}

// met reports whether a contact is one that the record knows.
func (c contact) met() bool { return c.agent == nil || !c.agent.Registered.IsZero() }

// findDID returns the contact of a DID, or of its owner if the gateway keeps that key. It returns
// the same errors as find.
func (l *Link) findDID(ctx context.Context, did federation.DID) (contact, error) {
	did, err := l.deps.Gateway.Owner(ctx, did)
	if err != nil {
		return contact{}, err
	}
	agent, err := l.deps.Record.AgentOf(ctx, did)
	switch {
	case err == nil:
		return contact{handle: agent.Handle, agent: &agent}, nil
	case !errors.Is(err, federation.ErrNotFound):
		return contact{}, fmt.Errorf("look up agent: %w", err)
	}
	b, err := l.deps.Record.Binding(ctx, did)
	if err != nil {
		return contact{}, fmt.Errorf("look up DID: %w", err)
	}
	return contact{handle: Handle(did), foreign: b}, nil
}

// known returns a contact like find, or the refusal that its sender is told.
func known(c contact, err error) (contact, error) {
	if errors.Is(err, federation.ErrNotFound) {
		return contact{}, refuse(codeIdentityNotFound, "no agent here has this handle")
	}
	return c, err
}

// identityAnswer is the answer of GET /identity/{handle}.
type identityAnswer struct {
	Handle       string           `json:"handle"`
	Aliases      []string         `json:"aliases"`
	Domain       string           `json:"domain"`
	DID          federation.DID   `json:"did"`
	AlsoKnownAs  []federation.DID `json:"alsoKnownAs"`
	Keys         []identityKey    `json:"keys"`
	PublicKey    *string          `json:"publicKey"`    // for clients that know of one; null where none is good
	RegisteredAt *int64           `json:"registeredAt"` // null for a DID of another network
	Capabilities json.RawMessage  `json:"capabilities"`
	Metadata     json.RawMessage  `json:"metadata"`
}

// identityKey is one key with which clients can verify messages. The key of a DID of another
// network is the one that verified last; it was never registered.
type identityKey struct {
	ID        string           `json:"kid"`
	Public    string           `json:"publicKey"`
	Status    agents.KeyStatus `json:"status"`
	CreatedAt *int64           `json:"createdAt"`
	ExpiresAt *int64           `json:"expiresAt"`
	RevokedAt *int64           `json:"revokedAt"`
}

// getIdentity answers GET /identity/{handle}, where the handle may be a DID.
//
// spec: airc-v0.1.1 §5.3
func (l *Link) getIdentity(c *call) (answer, error) {
	name := c.PathValue("handle")
	look := l.find
	if strings.HasPrefix(name, "did:") {
		look = func(ctx context.Context, did string) (contact, error) { return l.findDID(ctx, federation.DID(did)) }
	}
	who, err := known(look(c.Context(), name))
	if err == nil && (!who.met() || who.did() == "") {
		err = refuse(codeIdentityNotFound, "no agent of this address is known here")
	}
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: l.identify(who, time.Now())}, nil
}

func (l *Link) identify(c contact, now time.Time) identityAnswer {
	id := identityAnswer{
		Handle: c.handle, Aliases: []string{}, Domain: l.domain, DID: c.foreign.DID,
		AlsoKnownAs: []federation.DID{}, Keys: []identityKey{},
		Capabilities: json.RawMessage("{}"), Metadata: json.RawMessage("{}"),
	}
	if c.agent == nil {
		id.Aliases = append(id.Aliases, Alias(c.foreign.DID, c.foreign.First))
		if len(c.foreign.Key) > 0 {
			key := base64.RawURLEncoding.EncodeToString(c.foreign.Key)
			id.Keys = append(id.Keys, identityKey{ID: signing.AgentKeyID(c.foreign.Key), Public: key, Status: agents.KeyStatusActive})
			id.PublicKey = &key
		}
		return id
	}
	id.DID, id.AlsoKnownAs = c.agent.DID, append(id.AlsoKnownAs, c.agent.DIDs()[1:]...)
	if bound := c.agent.Bound.DID; bound != "" {
		id.AlsoKnownAs, id.Aliases = append(id.AlsoKnownAs, bound), append(id.Aliases, Handle(bound))
	}
	id.RegisteredAt = new(c.agent.Registered.Unix())
	primary := c.agent.Primary(now)
	for _, key := range c.agent.Keys {
		id.Keys = append(id.Keys, describeKey(key, now))
		if key.ID == primary.ID && key.Signs(now) {
			id.PublicKey = &id.Keys[len(id.Keys)-1].Public
		}
	}
	if c.agent.Capabilities != nil {
		id.Capabilities = c.agent.Capabilities
	}
	if c.agent.Metadata != nil {
		id.Metadata = c.agent.Metadata
	}
	return id
}

// describeKey returns a key as others see it at a time.
func describeKey(key agents.Key, now time.Time) identityKey {
	return identityKey{
		ID: key.ID, Public: base64.RawURLEncoding.EncodeToString(key.Public), Status: key.Status(now),
		CreatedAt: unixTime(key.Created), ExpiresAt: unixTime(key.Expires), RevokedAt: unixTime(key.Revoked),
	}
}

// unixTime returns unix seconds, nil for no time.
func unixTime(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.Unix())
}

// maxAddressChars is what deployed registries keep of an address.
const maxAddressChars = 100

// remote is a handle at another registry.
type remote struct{ handle, domain string }

func (r remote) String() string { return r.handle + "@" + r.domain }

// parseAddress reads "handle@domain", with or without an "@" before it. The domain must be
// a name: no IP address, no port, and no second "@", which would be a user in a URL.
//
//	amy@peer.example, @amy@peer.example
func parseAddress(text string) (remote, bool) {
	handle, domain, ok := strings.Cut(strings.TrimPrefix(text, "@"), "@")
	r := remote{handle, domain}
	return r, ok && len(text) <= maxAddressChars && wellFormed(handle) && ValidDomain(domain)
}

// lowerASCII lowers the letters A to Z of a name. Some other letters, such as the Kelvin sign, have
// an ASCII letter as their lower case: folding them would make different names equal.
func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// splitAddress is parseAddress for what was read as an address before.
func splitAddress(handle string) (domain string, isRemote bool) {
	_, domain, isRemote = strings.Cut(handle, "@")
	return domain, isRemote
}

// ValidDomain reports whether a text is a host name of two labels at least, in lower
// case. No top-level name is a number, so no address is one.
func ValidDomain(text string) bool {
	const letters, digits = "abcdefghijklmnopqrstuvwxyz", "0123456789"
	labels := strings.Split(text, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.Trim(label, letters+digits+"-") != "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
	}
	return len(text) <= 253 && len(labels) >= 2 && strings.ContainsAny(labels[len(labels)-1], letters)
}

// plcIDChars is the length of the part of a did:plc after the method, which fits
// a handle as it is.
const plcIDChars = 24

// aliasHashChars is how much of a hash an alias ends in: 50 bits, which two of
// 40 million names share with a chance of one half.
const aliasHashChars = 10

// maxSlugChars leaves room for the hash in 30 characters, which the strictest
// peers take.
const maxSlugChars = 19

// Handle returns the handle of a DID of another network: one stable string for each DID,
// which no agent can register. A did:plc is written out; any other DID is hashed.
//
//	did:plc:ewvi7nxzyoun6zhxrhs64oiz → plc_ewvi7nxzyoun6zhxrhs64oiz
//	did:web:freeq.at:bots:factory    → web_l57chsxpyrjlo673eggecfxicj
func Handle(did federation.DID) string {
	if id, ok := strings.CutPrefix(string(did), "did:plc:"); ok && isPLC(id) {
		return "plc_" + id
	}
	if did.Method() == "key" {
		return "key_" + did.Hash()
	}
	return "web_" + did.Hash()
}

// HandlesOf implements [bridge.Registrar].
func (*Link) HandlesOf(did federation.DID, first string) []string {
	return []string{Handle(did), Alias(did, first)}
}

// Alias returns the readable handle of a DID: the name that it had when it was
// first seen, and a part of its hash.
func Alias(did federation.DID, first string) string {
	return slug(first) + "_" + did.Hash()[:aliasHashChars]
}

// slug writes a name in the characters of handles.
func slug(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			b.WriteRune(r)
		case !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	s := strings.Trim(b.String(), "_")
	s = strings.TrimRight(s[:min(len(s), maxSlugChars)], "_")
	if s == "" {
		return "did"
	}
	return s
}

// parseHandle says what a handle of another network's DID holds: the DID itself,
// or the first characters of its hash. Both are empty for a handle that can only
// be an agent's.
func parseHandle(handle string) (did federation.DID, hash string) {
	prefix, rest, ok := cutLast(handle)
	switch {
	case !ok:
	case prefix == "plc" && isPLC(rest):
		return federation.DID("did:plc:" + rest), ""
	case isBase32(rest) && len(rest) == aliasHashChars,
		isBase32(rest) && len(rest) == len(federation.DID("").Hash()) && (prefix == "key" || prefix == "web"):
		return "", rest
	}
	return "", ""
}

func cutLast(handle string) (before, after string, ok bool) {
	i := strings.LastIndexByte(handle, '_')
	if i < 0 {
		return "", "", false
	}
	return handle[:i], handle[i+1:], true
}

func isPLC(id string) bool { return len(id) == plcIDChars && isBase32(id) }

func isBase32(s string) bool { return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567") == "" }

// checkHandle refuses a handle that no agent may register: a malformed one, a reserved
// prefix, the name of a role, or a name that hides a path.
//
// spec: airc-v0.1.1 §5.2
func checkHandle(handle string) error {
	if !wellFormed(handle) {
		return refuse(codeInvalidHandle, "a handle is 3 to 32 lower-case letters, digits and underscores")
	}
	if agents.ReservedName(network, handle) {
		return refuse(codeInvalidHandle, "handles that start with "+handle[:4]+" stand for DIDs of other networks")
	}
	if slices.Contains([]string{
		systemHandle, anyoneHandle, "rotate", "revoke", "verification", "capabilities", "inbox", "thread", "contacts", "public",
	}, handle) {
		return refuse(codeInvalidHandle, "this handle is reserved")
	}
	return nil
}

func wellFormed(handle string) bool {
	return len(handle) >= 3 && len(handle) <= 32 && strings.Trim(handle, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

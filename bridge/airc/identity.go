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

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/signing"
)

// contact is the owner of a handle: an agent, a DID of another network, or a role, which has no DID.
type contact struct {
	handle  string
	agent   *agents.Agent         // nil for a DID of another network
	foreign federation.Binding    // zero for an agent
	place   federation.ChannelRef // of a user known by its nick on a link
}

// did returns "" for a role.
func (c contact) did() federation.DID {
	if c.agent != nil {
		return c.agent.DID
	}
	return c.foreign.DID
}

func (c contact) is(did federation.DID) bool {
	if c.agent != nil {
		return c.agent.Is(did) || c.agent.Bound.DID == did
	}
	return c.foreign.DID == did
}

// find returns an error that wraps [federation.ErrNotFound] for an unknown handle.
func (l *Link) find(ctx context.Context, handle string) (contact, error) {
	if strings.Contains(handle, "@") {
		if user, err := l.findUser(ctx, handle); !errors.Is(err, federation.ErrNotFound) {
			return user, err
		}
		return l.findRemote(ctx, handle)
	}
	if !wire.WellFormed(handle) {
		return l.findNamed(ctx, handle)
	}
	// The DID takes precedence: an agent may have registered its alias before aliases were reserved.
	did, hash := wire.ParseHandle(handle)
	if hash != "" {
		b, err := l.deps.Record.BindingByHash(ctx, hash)
		switch {
		case err == nil && (handle == wire.Handle(b.DID) || handle == wire.Alias(b.DID, b.First)):
			did = b.DID
		case err != nil && !errors.Is(err, federation.ErrNotFound):
			return contact{}, fmt.Errorf("look up hash of handle: %w", err)
		}
	}
	if did != "" {
		return l.findDID(ctx, did)
	}
	agent, err := l.deps.Record.Agent(ctx, handle)
	if errors.Is(err, federation.ErrNotFound) {
		return l.findNamed(ctx, handle)
	}
	if err != nil {
		return contact{}, fmt.Errorf("look up agent: %w", err)
	}
	return contact{handle: handle, agent: &agent}, nil
}

func (l *Link) findNamed(ctx context.Context, name string) (contact, error) {
	did, err := l.deps.Record.NameHolder(ctx, name, time.Now())
	if err != nil {
		return contact{}, fmt.Errorf("look up name: %w", err)
	}
	c, err := l.findDID(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return contact{handle: wire.Handle(did), foreign: federation.Binding{DID: did, Name: name, First: name}}, nil
	}
	return c, err
}

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

// findRemote accepts an agent that is not in the record: only its own registry knows whether it exists.
func (l *Link) findRemote(ctx context.Context, text string) (contact, error) {
	if unverified, ok := strings.CutPrefix(strings.TrimPrefix(text, "@"), agents.Unverified); ok {
		if address, ok := wire.ParseAddress(unverified); ok {
			return contact{handle: agents.Unverified + address.String()}, nil // only for decisions, never as a recipient
		}
	}
	address, ok := wire.ParseAddress(text)
	if !ok {
		return contact{}, fmt.Errorf("find address: %w", federation.ErrNotFound)
	}
	if address.Domain == l.domain {
		return l.find(ctx, address.Handle)
	}
	agent, err := l.deps.Record.Agent(ctx, address.String())
	if errors.Is(err, federation.ErrNotFound) {
		if _, federated := l.peers.Exchanges(address.Domain); federated {
			agent, err = l.stranger(address.String(), time.Time{}), nil
		}
	}
	if err != nil {
		return contact{}, fmt.Errorf("look up agent: %w", err)
	}
	return contact{handle: agent.Handle, agent: &agent}, nil
}

func (c contact) met() bool { return c.agent == nil || !c.agent.Registered.IsZero() }

// findDID resolves a key kept by the gateway to its owner.
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
	return contact{handle: wire.Handle(did), foreign: b}, nil
}

func known(c contact, err error) (contact, error) {
	if errors.Is(err, federation.ErrNotFound) {
		return contact{}, wire.Refuse(wire.CodeIdentityNotFound, "no agent here has this handle")
	}
	return c, err
}

type identityAnswer struct {
	Handle       string           `json:"handle"`
	Aliases      []string         `json:"aliases"`
	Domain       string           `json:"domain"`
	DID          federation.DID   `json:"did"`
	AlsoKnownAs  []federation.DID `json:"alsoKnownAs"`
	Keys         []wire.Key       `json:"keys"`
	PublicKey    *string          `json:"publicKey"`    // for clients that support one key; null if none is valid
	RegisteredAt *int64           `json:"registeredAt"` // null for a DID of another network
	Capabilities json.RawMessage  `json:"capabilities"`
	Metadata     json.RawMessage  `json:"metadata"`
}

// spec: airc-v0.1.1 §5.3
func (l *Link) getIdentity(c *call) (answer, error) {
	name := c.PathValue("handle")
	look := l.find
	if strings.HasPrefix(name, "did:") {
		look = func(ctx context.Context, did string) (contact, error) { return l.findDID(ctx, federation.DID(did)) }
	}
	who, err := known(look(c.Context(), name))
	if err == nil && (!who.met() || who.did() == "") {
		err = wire.Refuse(wire.CodeIdentityNotFound, "no agent of this address is known here")
	}
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: l.identify(who, time.Now())}, nil
}

func (l *Link) identify(c contact, now time.Time) identityAnswer {
	id := identityAnswer{
		Handle: c.handle, Aliases: []string{}, Domain: l.domain, DID: c.foreign.DID,
		AlsoKnownAs: []federation.DID{}, Keys: []wire.Key{},
		Capabilities: json.RawMessage("{}"), Metadata: json.RawMessage("{}"),
	}
	if c.agent == nil {
		id.Aliases = append(id.Aliases, wire.Alias(c.foreign.DID, c.foreign.First))
		if len(c.foreign.Key) > 0 {
			key := base64.RawURLEncoding.EncodeToString(c.foreign.Key)
			id.Keys = append(id.Keys, wire.Key{ID: signing.AgentKeyID(c.foreign.Key), Public: key, Status: agents.KeyStatusActive})
			id.PublicKey = &key
		}
		return id
	}
	id.DID, id.AlsoKnownAs = c.agent.DID, append(id.AlsoKnownAs, c.agent.DIDs()[1:]...)
	if bound := c.agent.Bound.DID; bound != "" {
		id.AlsoKnownAs, id.Aliases = append(id.AlsoKnownAs, bound), append(id.Aliases, wire.Handle(bound))
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

func describeKey(key agents.Key, now time.Time) wire.Key {
	return wire.Key{
		ID: key.ID, Public: base64.RawURLEncoding.EncodeToString(key.Public), Status: key.Status(now),
		CreatedAt: wire.UnixTime(key.Created), ExpiresAt: wire.UnixTime(key.Expires), RevokedAt: wire.UnixTime(key.Revoked),
	}
}

// HandlesOf implements [bridge.Registrar].
func (*Link) HandlesOf(did federation.DID, first string) []string {
	return []string{wire.Handle(did), wire.Alias(did, first)}
}

// checkHandle also refuses a reserved prefix, the name of a role, and a name that hides a path.
//
// spec: airc-v0.1.1 §5.2
func checkHandle(handle string) error {
	if !wire.WellFormed(handle) {
		return wire.Refuse(wire.CodeInvalidHandle, "a handle is 3 to 32 lower-case letters, digits and underscores")
	}
	if agents.ReservedName(wire.Network, handle) {
		return wire.Refuse(wire.CodeInvalidHandle, "handles that start with "+handle[:4]+" stand for DIDs of other networks")
	}
	if slices.Contains([]string{
		systemHandle, anyoneHandle, "rotate", "revoke", "verification", "capabilities", "inbox", "thread", "contacts", "public",
	}, handle) {
		return wire.Refuse(wire.CodeInvalidHandle, "this handle is reserved")
	}
	return nil
}

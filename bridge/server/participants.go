package server

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/page"
	"github.com/baton-gateway/baton/bridge/agents/a2a"
	"github.com/baton-gateway/baton/bridge/agents/oauth"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/agents/rest"
	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// Participant is a person or an agent with a handle here.
type Participant struct {
	Handle string
	DIDs   []federation.DID // DIDs that it may act as
	// Bound is the DID bound to the handle by an operator, or "". The participant may act as it
	// only if DIDs also contains it.
	Bound federation.DID
}

// participants are the registered agents. An unknown one is the zero [Participant]; the errors are
// record errors.
type participants struct{ registry.Bound }

// WithHandle returns the participant with the given handle.
func (a participants) WithHandle(ctx context.Context, handle string) (Participant, error) {
	return participantOf(a.Agent(ctx, handle))
}

// WithDID returns the participant that has or had the given DID.
func (a participants) WithDID(ctx context.Context, did federation.DID) (Participant, error) {
	return participantOf(a.AgentOf(ctx, did))
}

func participantOf(agent agents.Agent, err error) (Participant, error) {
	if errors.Is(err, federation.ErrNotFound) {
		return Participant{}, nil
	}
	if err != nil {
		return Participant{}, fmt.Errorf("look up agent: %w", err)
	}
	all := []federation.DID{agent.DID, agent.OwnDID}
	if agent.Bound.Vouch {
		all = append(all, agent.Bound.DID)
	}
	for _, key := range agent.Keys {
		all = append(all, key.DID)
	}
	all = slices.DeleteFunc(all, func(did federation.DID) bool { return did == "" })
	return Participant{Handle: agent.Handle, DIDs: all, Bound: agent.Bound.DID}, nil
}

// Bindings implements [bridge.Bindings].
type Bindings struct {
	registry.BoundNames

	agents registry.Bound
}

// Seen implements [bridge.Bindings].
func (b Bindings) Seen(ctx context.Context, did federation.DID) (federation.Binding, error) {
	return b.Record.Binding(ctx, did)
}

// Participant implements [bridge.Bindings].
func (b Bindings) Participant(ctx context.Context, handle string) (federation.DID, error) {
	agent, err := b.agents.Agent(ctx, handle)
	if errors.Is(err, federation.ErrNotFound) {
		return b.agents.NameHolder(ctx, handle, time.Now())
	}
	return agent.DID, err
}

// boundNames returns the bindings of a configuration, and adds mistakes in their tables to the
// mistakes of the file. The keys of links are the names of the links; nil if some are unknown.
func boundNames(file *configs.File, links map[string]bool) []federation.BoundName {
	var bound []federation.BoundName
	taken := map[[2]string]bool{}
	for _, t := range file.Tables("bindings") {
		var table configs.Binding
		t.Decode(&table)
		did, err := federation.ParseDID(table.DID)
		if err != nil {
			t.Mistake("did", "want a DID, such as did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")
		} else if err := identity.CheckDID(did); err != nil {
			t.Mistake("did", "no party can prove it: "+err.Error())
		}
		if table.Name == "" {
			t.Mistake("name", "is required")
		}
		if agents.ReservedName(table.Network, table.Name) {
			t.Mistake("name", "names with plc_, web_ or key_ in front stand for DIDs by themselves")
		}
		if links != nil && !links[table.Network] {
			t.Mistake("network", fmt.Sprintf("want the name of a link: %s", strings.Join(slices.Sorted(maps.Keys(links)), ", ")))
		}
		key := [2]string{table.Network, table.Name}
		if taken[key] {
			t.Mistake("name", fmt.Sprintf("%q is bound above: a name stands for one DID", table.Name))
		}
		taken[key] = true
		bound = append(bound, federation.BoundName{Network: table.Network, Name: table.Name, DID: did, Vouch: table.Vouch})
	}
	return bound
}

func (s *Server) participantDeps(record registry.Bound) participant.Deps {
	return participant.Deps{
		Record: record, Inbox: record,
		Callers: callers{s.Gateway.Links(), admin.Bearers(s.Record.Operators)}, Venues: s.Gateway.Links(), Rates: s.Gateway.Rates(), Passports: s, Seen: s.Gateway.Seen,
		Streams: &s.streams, Logins: s.logins, Guesses: s.guesses, TokenKey: s.keyring.Token(),
	}
}

func (s *Server) openAccess(network string) *participant.Service {
	deps := s.participantDeps(s.bound())
	deps.Ports = filePorts(s.file, s.Wiring().Ports)
	return participant.Open(network, deps)
}

func (s *Server) oauthDeps() oauth.Deps {
	deps := oauth.Deps{Deps: s.participantDeps(s.bound())}
	deps.Ports = filePorts(s.file, s.Wiring().Ports)
	deps.Fetch = s.client.Fetch
	if at, err := netip.ParseAddrPort(s.file.Admin.Listen); err == nil && at.Addr().IsLoopback() {
		deps.OperatorPage = (&url.URL{Scheme: "http", Host: at.String(), Path: page.PairPath}).String()
	}
	if s.file.Agents.OpenRegistration {
		deps.Enrol = s.enrol
	}
	return deps
}

// enrol registers an agent with a free name, for which the gateway signs, and returns its DID.
func (s *Server) enrol(ctx context.Context, name string, from netip.Prefix) (federation.DID, error) {
	now, record := time.Now(), s.bound()
	agent, err := airc.KeptAgent(name, s.homeKeys(), now)
	if err != nil {
		return "", err
	}
	if wait := s.enrolments.Wait(from, now); wait > 0 {
		return "", &federation.RefusalError{Code: federation.RateLimited, RetryAfter: wait}
	}
	if err = s.admitNew(ctx, agent.DID, now); err == nil {
		err = record.AddAgent(ctx, agent)
	}
	if errors.Is(err, federation.ErrTaken) {
		err = participant.Conflict("the name " + name + " is taken; choose another one")
	}
	return agent.DID, err
}

func (s *Server) admitNew(ctx context.Context, did federation.DID, now time.Time) error {
	if err := s.Gateway.Admit(ctx, did, now); err != nil {
		return err
	}
	return s.Gateway.Meet(ctx, did, now)
}

func (s *Server) agentsDeps(record registry.Bound) rest.Deps {
	return rest.Deps{
		Deps: s.participantDeps(record), Hooks: s.agentHooks(),
	}
}

type callers struct {
	*LinkSet

	operators admin.Admission
}

// Operator implements [participant.Callers]: the token belongs to an operator
// with read access.
func (c callers) Operator(r *http.Request) (bool, error) {
	_, err := c.operators(r, federation.ReadScope)
	if _, denied := errors.AsType[*admin.ProblemError](err); denied {
		return false, nil
	}
	return err == nil, err
}

func (s *Server) agentHooks() bridge.Webhooks { //nolint:ireturn // a nil pointer in the interface would look like one
	if s.hooks == nil {
		return nil
	}
	return s.hooks
}

func (s *Server) a2aDeps(record registry.Bound) a2a.Deps {
	return a2a.Deps{
		Deps: s.participantDeps(record), Agents: residents{record, s}, Hooks: s.agentHooks(),
		PublicKeys: s.serverKeysAt, Version: s.options.Version,
	}
}

type residents struct {
	registry.Bound

	server *Server
}

// Here implements [a2a.Agents].
func (r residents) Here(ctx context.Context, did federation.DID) (bool, error) {
	return r.server.homes.locator.Here(ctx, did)
}

func (s *Server) serverKeysAt(now time.Time) []ed25519.PublicKey {
	var keys []ed25519.PublicKey
	for _, key := range s.keyring.ServerKeys(s.homeID(), now) {
		keys = append(keys, key.Public)
	}
	return keys
}

// SignsFor reports whether the gateway signs as a DID for an agent. It returns true if the record
// cannot be read, which gives no other party an advantage.
func SignsFor(ctx context.Context, record *registry.Record, did federation.DID) bool {
	agent, err := record.AgentOf(ctx, did)
	if errors.Is(err, federation.ErrNotFound) {
		return false
	}
	return err != nil || agent.DID == did
}

var _ bridge.Presence = (*Gateway)(nil)

// Left implements [bridge.Presence].
func (g *Gateway) Left(ctx context.Context, did federation.DID) bool {
	binding, err := g.participants.Binding(ctx, did)
	if err != nil {
		return false
	}
	placer, up := g.links.channelLinkUp(binding.Link)
	if !up || placer.Online(ctx, binding) {
		return false
	}
	if messenger, ok := placer.(bridge.Messenger); ok && did == g.Guest(binding.Link, binding.Name) { // a guest has no account
		if _, here := messenger.Here(ctx, bridge.Recipient{DID: did, Place: federation.ChannelRef{Link: binding.Link, Venue: binding.Name}}); here {
			return false
		}
	}
	elsewhere, err := g.loggedIn(ctx, did, binding.Link)
	return err == nil && !elsewhere
}

// Changed implements [bridge.Presence].
func (g *Gateway) Changed(ctx context.Context, c bridge.PresenceChange) {
	if c.Typing != "" && !g.typed.add(c.Message) {
		return // it comes back over another gateway that links the same networks
	}
	g.showChange(ctx, c)
	if g.deps.Publish == nil {
		return
	}
	if message, err := json.Marshal(replicaChange{g.replica, c}); err == nil { // it has only strings
		g.deps.Publish(presenceTopic, message)
	}
}

func (g *Gateway) showChange(ctx context.Context, c bridge.PresenceChange) {
	for link := range able[bridge.PresenceLink](g.links) {
		if link.Name() != c.Link {
			link.Follow(ctx, c)
		}
	}
}

const presenceTopic = "presence"

type replicaChange struct {
	Replica string
	Change  bridge.PresenceChange
}

// FollowPresence shows the changes of users at other replicas, until ctx ends. After a lost
// message, the next line of the user corrects its nick and away state.
func (g *Gateway) FollowPresence(ctx context.Context, receive func(ctx context.Context, topic string, take func(message []byte))) {
	receive(ctx, presenceTopic, func(message []byte) {
		var c replicaChange
		if err := federation.DecodeJSON(message, &c); err == nil && c.Replica != g.replica {
			g.showChange(ctx, c.Change)
		}
	})
}

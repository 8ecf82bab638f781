package airc

import (
	"context"
	"crypto/ed25519"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/bridge/credential"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/identity"
	"github.com/baton-gateway/baton/federation/signing"
)

// Which callers may register a taken handle again.
const (
	// ReregisterProof requires a token of the handle, a signature with its key, or the operator's
	// credential.
	ReregisterProof = "proof"
	// ReregisterKeyless gives the handle of an agent without a key to any caller.
	ReregisterKeyless = "keyless"
)

// Values of header_registration. X-AIRC-Signature names no registry, so another registry can replay it
// here.
const (
	// HeaderOwn accepts the header for handles first registered with it.
	HeaderOwn = "own"
	// HeaderDeny never accepts the header.
	HeaderDeny = "deny"
)

const mintHeader = "X-Agent-Mint"

type arrival struct {
	*wire.Object

	body   []byte
	handle string            // as sent; may be empty in a heartbeat
	public ed25519.PublicKey // nil if not sent
	// recovery is the key that may replace a lost key; nil for none.
	recovery ed25519.PublicKey
	now      time.Time
}

// registersByHeader requires the body, which the header covers, to name the action and the handle.
//
// spec: airc-shapes "Sessions and proofs"
func (l *Link) registersByHeader(c *call, a arrival, handle string, keys []ed25519.PublicKey) bool {
	signer := c.Header.Get("X-AIRC-Identity")
	return l.cfg.HeaderRegistration == HeaderOwn && a.First("action") == "register" && wire.PlainHandle(a.First("username")) == handle &&
		(signer == "" || wire.PlainHandle(signer) == handle) && findScheme(a.body, c.Header, keys) == schemeHeader
}

// postDeployedPresence serves registrations and heartbeats: deployed clients do not distinguish them.
func (l *Link) postDeployedPresence(c *call) (answer, error) {
	body, err := l.readBody(c)
	if err != nil {
		return answer{}, err
	}
	a := arrival{body: body, now: time.Now()}
	if a.Object, err = wire.ParseObject(body); err != nil {
		return answer{}, err
	}
	a.handle = wire.PlainHandle(a.First("username", "handle", "name"))
	if key := a.First("publicKey", "public_key"); key != "" {
		if a.public, err = wire.ParsePublicKey(key); err != nil {
			return answer{}, err
		}
	}
	if key := a.First("recoveryKey", "recovery_key"); key != "" {
		if a.recovery, err = wire.ParsePublicKey(key); err != nil {
			return answer{}, err
		}
	}
	var shown []federation.DID
	if a.public != nil {
		shown = append(shown, identity.KeyDID(a.public))
	}
	if err := l.checkBlocked(c.Context(), a.handle, shown...); err != nil {
		return answer{}, err
	}
	if c.denied == nil && (a.handle == "" || a.handle == c.agent.Handle) {
		session, err := l.prolong(c.Context(), c.session, a.now)
		if err != nil {
			return answer{}, err
		}
		return l.welcome(c.Context(), c.agent, a, session, false)
	}
	action := a.First("action")
	if c.denied != nil && (a.handle == "" || action == "heartbeat") {
		return answer{}, authenticationRequired(c.denied)
	}
	if c.denied == nil && action != "register" {
		return answer{}, wire.Refuse(wire.CodeNotYourHandle, "the token belongs to another handle")
	}
	existing, err := l.owner(c.Context(), a.handle)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return l.enrol(c, a)
	case err != nil:
		return answer{}, fmt.Errorf("look up agent: %w", err)
	}
	if err := l.login(c, a.now); err != nil {
		return answer{}, err
	}
	existing, began, err := l.reclaim(c, existing, a)
	if err != nil {
		return answer{}, err
	}
	session, err := l.begin(c.Context(), l.deployedSession(c, existing, began, a.now))
	if err != nil {
		return answer{}, err
	}
	return l.welcome(c.Context(), existing, a, session, false)
}

func (l *Link) deployedSession(c *call, agent agents.Agent, began federation.Began, now time.Time) federation.Session {
	session := newSession(c, agent.Handle, began, agent.Primary(now), now)
	session.Generation, session.Expires = 0, now.Add(deployedTokenLife).Truncate(time.Second)
	return session
}

func (l *Link) deployedToken(s federation.Session, now time.Time) (string, error) {
	return l.tokens.Issue(s.Participant, credential.Claims{Use: useAPI, Session: s.ID}, now, s.Expires)
}

// prolong writes at most once per 15 minutes.
func (l *Link) prolong(ctx context.Context, s federation.Session, now time.Time) (federation.Session, error) {
	if s.Generation > 0 || now.Sub(s.Used) < credential.AccessLife {
		return s, nil
	}
	s, err := l.deps.Record.ProlongSession(ctx, s.ID, now, now.Add(deployedTokenLife).Truncate(time.Second))
	if errors.Is(err, federation.ErrNotFound) {
		return s, errSessionEnded()
	}
	return s, err
}

// enrol makes the presence public, because the agent cannot set a visibility below /api.
func (l *Link) enrol(c *call, a arrival) (answer, error) {
	if err := l.checkFree(c.Context(), a.handle); err != nil {
		return answer{}, err
	}
	if !l.minted(c.Request) && !l.registrations.Take(credential.AddressOf(c.Request), a.now) {
		return answer{}, wire.TooMany(time.Hour)
	}
	kept := l.kept(a.handle)
	agent := agents.Agent{
		Handle: a.handle, DID: kept.DID, OwnDID: kept.DID, KeptKey: kept.Public, Registered: a.now,
		Shows: agents.Shows{Presence: agents.VisiblePublic, Context: agents.VisiblePublic},
		Began: federation.BeganKeyless, Recovery: a.recovery,
	}
	if a.public != nil {
		agent.Keys = []agents.Key{namedKey(a.public, a.now)}
		if l.registersByHeader(c, a, a.handle, []ed25519.PublicKey{a.public}) {
			agent.Began = federation.BeganHeader
		}
	}
	if human, _ := a.isHuman(); human {
		agent.Metadata = json.RawMessage(humanMetadata)
	}
	if a.Has("capabilities") && a.Members["capabilities"][0] == '{' && len(a.Members["capabilities"]) <= maxProfileBytes {
		if _, err := parseCapabilities(a.Members["capabilities"]); err == nil {
			_, agent.Capabilities, _ = splitWebhook(a.Members["capabilities"]) // empty if unreadable
		}
	}
	session := l.deployedSession(c, agent, agent.Began, a.now)
	if err := l.addAgent(c.Context(), agent, session, a.now); err != nil {
		return answer{}, fmt.Errorf("register %s: %w", agent.Handle, err)
	}
	return l.welcome(c.Context(), agent, a, session, true)
}

// namedKey returns a key sent without a proof, which has no DID.
func namedKey(public ed25519.PublicKey, now time.Time) agents.Key {
	return agents.Key{ID: signing.AgentKeyID(public), Public: public, Created: now}
}

func (l *Link) minted(r *http.Request) bool {
	given := r.Header.Get(mintHeader)
	return l.mint != "" && subtle.ConstantTimeCompare([]byte(given), []byte(l.mint)) == 1
}

// reclaim requires the same proof as at first registration, or the operator's credential. The operator
// can open handles without a key to any caller.
func (l *Link) reclaim(c *call, agent agents.Agent, a arrival) (agents.Agent, federation.Began, error) {
	primary := agent.Primary(a.now)
	fresh := a.public != nil && !primary.Public.Equal(a.public)
	switch {
	case l.minted(c.Request):
		if !fresh {
			return agent, federation.BeganKeyless, nil
		}
		after, err := l.deps.Record.RotateKey(c.Context(), agent.Handle, "", namedKey(a.public, a.now), a.now, a.now)
		if err != nil {
			return agent, "", l.keyRefusal(err, "replace the key of "+agent.Handle)
		}
		l.wakeEnded(agent)
		return after, federation.BeganKeyless, nil
	case agent.Began == federation.BeganHeader && !fresh && primary.Status(a.now) == agents.KeyStatusActive &&
		l.registersByHeader(c, a, agent.Handle, []ed25519.PublicKey{primary.Public}):
		return agent, federation.BeganHeader, nil
	case len(agent.Keys) == 0 && l.cfg.Reregister == ReregisterKeyless:
		return agent, federation.BeganKeyless, nil
	}
	return agent, "", federation.ErrTaken
}

func goodKeys(agent agents.Agent, now time.Time) []ed25519.PublicKey {
	var keys []ed25519.PublicKey
	for _, key := range agent.Keys {
		if key.Signs(now) {
			keys = append(keys, key.Public)
		}
	}
	return keys
}

func (l *Link) welcome(ctx context.Context, agent agents.Agent, a arrival, session federation.Session, isNew bool) (answer, error) {
	who := present{
		handle: agent.Handle, status: parseStatus(a.First("status")), shows: agent.Shows, beat: a.now,
		context: wire.Cut(a.First("workingOn", "working_on", "building", "context"), maxContextChars), mood: wire.Cut(a.First("mood"), maxMoodChars),
	}
	before := l.presences.of(agent.Handle, a.now)
	if who.context == "" {
		who.context = before.context // heartbeats need not repeat it
	}
	switch human, said := a.isHuman(); {
	case said:
		who.human = human
	case before.status != statusOffline:
		who.human = before.human
	default:
		who.human = isHuman(agent)
	}
	who, err := l.beat(ctx, agent, who)
	if err != nil {
		return answer{}, err
	}
	token, err := l.deployedToken(session, a.now)
	if err != nil {
		return answer{}, err
	}
	conversations, err := l.deps.Record.Conversations(ctx, agent.Handle, maxConversations)
	if err != nil {
		return answer{}, fmt.Errorf("read conversations: %w", err)
	}
	unread := 0
	for _, c := range conversations {
		unread += c.Unread
	}
	status, said := http.StatusOK, "heartbeat taken"
	if isNew {
		status, said = http.StatusCreated, "registered as "+agent.Handle
	}
	entry := l.describePresent(who, viewer{handle: agent.Handle}, a.now)
	return answer{status: status, body: wire.Members{
		"success": true, "registered": true, "isNew": isNew, "handle": agent.Handle, "did": agent.DID, "status": "active",
		"working_on": who.context, "token": token, "sessionId": "s_" + agent.Handle, "expires_at": wire.ISOTime(session.Expires),
		"recovery": agent.Recovery != nil,
		"registry": l.domain, "federated_id": l.federatedID(agent.Handle), "message": said,
		"presence": entry, "user": entry, "identity": entry, "unread": unread, "storage": "record", "authMethod": "token",
	}}, nil
}

func (a arrival) isHuman() (human, said bool) {
	var agent bool
	said = a.Has("isAgent") && federation.DecodeJSON(a.Members["isAgent"], &agent) == nil
	return said && !agent, said
}

const humanMetadata = `{"isAgent":false}`

func isHuman(agent agents.Agent) bool {
	var said struct {
		IsAgent *bool `json:"isAgent"`
	}
	_ = federation.DecodeJSON(agent.Metadata, &said) // metadata of another shape is ignored
	return said.IsAgent != nil && !*said.IsAgent
}

func kind(human bool) string {
	if human {
		return "human"
	}
	return "agent"
}

func (l *Link) describePresent(who present, v viewer, now time.Time) wire.Members {
	seen := who.describe(v)
	standing := "active"
	switch who.status {
	case statusAway:
		standing = "away"
	case statusOffline:
		standing = "offline"
	case statusOnline, statusDND:
	}
	return wire.Members{
		"handle": who.handle, "username": who.handle, "displayName": who.handle, "federated_id": l.federatedID(who.handle),
		"registry": l.domain, "status": standing, "workingOn": seen.Context, "working_on": seen.Context, "mood": seen.Mood,
		"ago": ago(now.Sub(who.beat)), "firstSeen": wire.ISOTime(who.first), "lastSeen": wire.ISOTime(who.beat), "last_seen": wire.ISOTime(who.beat),
		"isAgent": !who.human, "agentType": kind(who.human), "type": kind(who.human),
	}
}

func ago(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	return fmt.Sprintf("%dm", int(d.Minutes()))
}

func (l *Link) presentTo(c *call, now time.Time) ([]present, viewer, error) {
	v := viewer{}
	if c.denied == nil {
		var err error
		if v, err = l.viewer(c.Context(), c.agent.Handle); err != nil {
			return nil, v, err
		}
	}
	itself := present{
		handle: systemHandle, status: statusOnline, context: l.cfg.Name, beat: now, first: now,
		shows: agents.Shows{Presence: agents.VisiblePublic, Context: agents.VisiblePublic},
	}
	return append([]present{itself}, l.presences.list(now, v.seesPresence)...), v, nil
}

// getDeployedPresence needs no token.
func (l *Link) getDeployedPresence(c *call) (answer, error) {
	now := time.Now()
	here, v, err := l.presentTo(c, now)
	if err != nil {
		return answer{}, err
	}
	query := c.URL.Query()
	if query.Has("typing") {
		return answer{status: http.StatusOK, body: wire.Members{"success": true, "typingUsers": []string{}}}, nil
	}
	if user := wire.PlainHandle(query.Get("user")); user != "" {
		i := slices.IndexFunc(here, func(who present) bool { return who.handle == user })
		if i < 0 {
			return answer{}, wire.Refuse(wire.CodeIdentityNotFound, "no agent with this handle is present")
		}
		return answer{status: http.StatusOK, body: wire.Members{"success": true, "presence": l.describePresent(here[i], v, now)}}, nil
	}
	all, active, away := []wire.Members{}, []wire.Members{}, []wire.Members{}
	for _, who := range here {
		entry := l.describePresent(who, v, now)
		all = append(all, entry)
		if who.status == statusAway {
			away = append(away, entry)
		} else {
			active = append(active, entry)
		}
	}
	return answer{status: http.StatusOK, body: wire.Members{
		"success": true, "registry": l.domain, "active": active, "away": away, "offline": []wire.Members{}, "recent": []wire.Members{},
		"agents": all, "users": all, "yourMatches": []wire.Members{}, "count": len(all), "storage": "record",
		"counts": wire.Members{"active": len(active), "away": len(away), "total": len(all)},
	}}, nil
}

func (l *Link) getDeployedAgents(c *call) (answer, error) {
	now := time.Now()
	here, v, err := l.presentTo(c, now)
	if err != nil {
		return answer{}, err
	}
	query := c.URL.Query()
	limit, err := pageSize(query.Get("limit"))
	if err != nil {
		return answer{}, err
	}
	found := []wire.Members{}
	for _, who := range here[1:] {
		if who.human {
			continue
		}
		entry := l.describePresent(who, v, now)
		agent, err := l.deps.Record.Agent(c.Context(), who.handle)
		if err != nil {
			return answer{}, fmt.Errorf("look up agent: %w", err)
		}
		skills, _ := parseCapabilities(agent.Capabilities)
		entry["capabilities"], entry["model"] = skills.Skills, ""
		text := strings.ToLower(fmt.Sprint(who.handle, " ", entry["workingOn"]))
		able := query.Get("capability") == "" || slices.Contains(skills.Skills, query.Get("capability"))
		if able && strings.Contains(text, strings.ToLower(query.Get("q"))) && len(found) < limit {
			found = append(found, entry)
		}
	}
	return answer{status: http.StatusOK, body: wire.Members{"success": true, "agents": found, "total": len(found)}}, nil
}

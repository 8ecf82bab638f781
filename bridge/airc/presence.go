package airc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
)

// Agents send a heartbeat every 30 to 60 seconds.
//
// spec: airc-v0.1.1 §8.4
const presenceLife = 80 * time.Second

// A present agent takes about 700 bytes.
const maxPresent = 1 << 16

const maxListed = 1000

// Maximum lengths, in characters.
const (
	maxContextChars = 280
	maxMoodChars    = 64
)

// spec: airc-v0.1.1 §8.2
type availability string

const (
	statusOnline  availability = "online"
	statusAway    availability = "away"
	statusDND     availability = "dnd"
	statusOffline availability = "offline"
)

// parseStatus treats an unknown status as online.
func parseStatus(text string) availability {
	switch strings.ToLower(text) {
	case string(statusAway):
		return statusAway
	case string(statusDND), "busy":
		return statusDND
	case string(statusOffline):
		return statusOffline
	}
	return statusOnline
}

type present struct {
	handle  string
	status  availability
	context string
	mood    string
	shows   agents.Shows
	human   bool
	beat    time.Time
	first   time.Time // start of the uninterrupted presence
}

func (p present) ends() time.Time { return p.beat.Add(presenceLife) }

// presences holds the present agents. It is empty after a restart.
type presences struct {
	// The goroutine that receives the map owns it until it sends it back.
	all chan map[string]present
}

func newPresences() presences {
	p := presences{all: make(chan map[string]present, 1)}
	p.all <- map[string]present{}
	return p
}

// beat removes an agent that reports offline.
func (p presences) beat(who present) (present, error) {
	all := <-p.all
	defer func() { p.all <- all }()
	old, here := all[who.handle]
	who.first = who.beat
	if here && old.ends().After(who.beat) {
		who.first = old.first
	}
	if who.status == statusOffline {
		delete(all, who.handle)
		return who, nil
	}
	if !here && len(all) >= maxPresent {
		maps.DeleteFunc(all, func(_ string, old present) bool { return !old.ends().After(who.beat) })
	}
	if !here && len(all) >= maxPresent {
		return who, &federation.UnavailableError{What: "presence", RetryAfter: presenceLife, Err: errCrowded}
	}
	all[who.handle] = who
	return who, nil
}

var errCrowded = errors.New("airc: too many agents are here")

func (p presences) of(handle string, now time.Time) present {
	all := <-p.all
	defer func() { p.all <- all }()
	who, here := all[handle]
	if !here || !who.ends().After(now) {
		return present{handle: handle, status: statusOffline}
	}
	return who
}

// list starts with the most recently seen agents.
func (p presences) list(now time.Time, fits func(present) bool) []present {
	all := <-p.all
	var here []present
	for _, who := range all {
		if who.ends().After(now) && fits(who) {
			here = append(here, who)
		}
	}
	p.all <- all
	slices.SortFunc(here, func(a, b present) int { return cmp.Or(b.beat.Compare(a.beat), cmp.Compare(a.handle, b.handle)) })
	return here[:min(maxListed, len(here))]
}

type viewer struct {
	handle   string          // "" for a stranger
	contacts map[string]bool // consented in both directions
}

func (l *Link) viewer(ctx context.Context, handle string) (viewer, error) {
	contacts, err := l.deps.Record.Contacts(ctx, handle, maxPresent)
	if err != nil {
		return viewer{}, fmt.Errorf("look up contacts: %w", err)
	}
	v := viewer{handle: handle, contacts: map[string]bool{}}
	for _, contact := range contacts {
		v.contacts[contact] = true
	}
	return v, nil
}

func (v viewer) sees(handle string, level agents.Visibility) bool {
	switch {
	case v.handle == handle && handle != "", level == agents.VisiblePublic:
		return true
	case level == agents.VisibleContacts:
		return v.contacts[handle]
	}
	return false
}

// spec: airc-v0.1.1 §8.1
type presence struct {
	Handle            string            `json:"handle"`
	Status            availability      `json:"status"`
	Visibility        agents.Visibility `json:"visibility"`
	Context           string            `json:"context,omitempty"`
	ContextVisibility agents.Visibility `json:"contextVisibility"`
	Mood              string            `json:"mood,omitempty"`
	LastHeartbeat     int64             `json:"lastHeartbeat"`
	ExpiresAt         int64             `json:"expiresAt"`
}

// spec: airc-v0.1.1 §8.3
func levels(s agents.Shows) agents.Shows {
	return agents.Shows{
		Presence: cmp.Or(s.Presence, agents.VisibleContacts), Context: cmp.Or(s.Context, agents.VisibleNone),
	}
}

// describe shows moods only to contacts, because they cannot be published.
func (p present) describe(v viewer) presence {
	shows := levels(p.shows)
	seen := presence{
		Handle: p.handle, Status: p.status, Visibility: shows.Presence, ContextVisibility: shows.Context,
		LastHeartbeat: p.beat.Unix(), ExpiresAt: p.ends().Unix(),
	}
	if v.sees(p.handle, shows.Context) {
		seen.Context = p.context
	}
	if v.sees(p.handle, agents.VisibleContacts) {
		seen.Mood = p.mood
	}
	return seen
}

// postPresence stores only the levels of visibility; all other fields expire with the heartbeat.
//
// spec: airc-v0.1.1 §8.4
func (l *Link) postPresence(c *call) (answer, error) {
	agent, err := c.caller()
	if err != nil {
		return answer{}, err
	}
	o, err := l.readObject(c)
	if err != nil {
		return answer{}, err
	}
	who, err := parsePresence(o, agent, time.Now())
	if err != nil {
		return answer{}, err
	}
	if who, err = l.beat(c.Context(), agent, who); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: who.describe(viewer{handle: agent.Handle})}, nil
}

func parsePresence(o *wire.Object, agent agents.Agent, now time.Time) (present, error) {
	who := present{handle: agent.Handle, shows: agent.Shows, human: isHuman(agent), beat: now, status: parseStatus(o.Text("status"))}
	who.context, who.mood = shortText(o, "context", maxContextChars), shortText(o, "mood", maxMoodChars)
	visibility(o, "visibility", &who.shows.Presence)
	visibility(o, "contextVisibility", &who.shows.Context)
	return who, o.Err
}

func shortText(o *wire.Object, name string, maxChars int) string {
	if !o.Has(name) {
		return ""
	}
	var s string
	if federation.DecodeJSON(o.Members[name], &s) != nil || len([]rune(s)) > maxChars {
		o.Fail(fmt.Sprintf("%s is not a string of at most %d characters", name, maxChars))
	}
	return s
}

func visibility(o *wire.Object, name string, level *agents.Visibility) {
	if !o.Has(name) {
		return
	}
	got := agents.Visibility(o.Text(name))
	if !slices.Contains([]agents.Visibility{agents.VisiblePublic, agents.VisibleContacts, agents.VisibleNone}, got) {
		o.Fail(name + " is not public, contacts or none")
	}
	*level = got
}

func (l *Link) beat(ctx context.Context, agent agents.Agent, who present) (present, error) {
	if who.shows != agent.Shows {
		if err := l.deps.Record.SetShows(ctx, agent.Handle, who.shows); err != nil {
			return who, fmt.Errorf("store presence visibility of %s: %w", agent.Handle, err)
		}
	}
	return l.presences.beat(who)
}

func (l *Link) getPresence(c *call) (answer, error) {
	agent, err := c.caller()
	if err != nil {
		return answer{}, err
	}
	v, err := l.viewer(c.Context(), agent.Handle)
	if err != nil {
		return answer{}, err
	}
	seen := []presence{}
	for _, who := range l.presences.list(time.Now(), v.seesPresence) {
		seen = append(seen, who.describe(v))
	}
	return answer{status: http.StatusOK, body: struct {
		Presence []presence `json:"presence"`
	}{seen}}, nil
}

func (v viewer) seesPresence(who present) bool { return v.sees(who.handle, levels(who.shows).Presence) }

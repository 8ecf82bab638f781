package a2aclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"golang.org/x/sync/errgroup"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
)

// Link is one external agent.
type Link struct {
	cfg     Config
	secrets secrets
	deps    Deps
	ports   bridge.Ports
	steps   stepbuilder.Builder
	log     *slog.Logger
	http    *http.Client

	did  federation.DID
	kept func() federation.SigningKey

	card       atomic.Pointer[card]
	client     atomic.Pointer[a2aclient.Client]
	access     accessToken
	grpc       grpcConn
	unanswered atomic.Int32 // consecutive calls without a response
	lost       chan error   // receives the reason to end the session
	changed    atomic.Bool  // the key of the card differs from the pinned one
	confirmed  atomic.Bool  // by an operator

	mu      sync.Mutex
	begun   chan *task // of the current session: tasks to follow
	tasks   map[federation.HandoffID]*task
	open    federation.HandoffID            // at the agent; zero for none
	blocked map[federation.HandoffID]string // why a task waits for an operator
}

var (
	_ bridge.InboxReader = (*Link)(nil)
	_ bridge.Describer   = (*Link)(nil)
	_ bridge.Messenger   = (*Link)(nil)
	_ bridge.Pinned      = (*Link)(nil)
)

// Name implements [bridge.Link].
func (l *Link) Name() string { return l.cfg.Name }

// Network implements [bridge.Link].
func (*Link) Network() string { return network }

// ReadsInbox implements [bridge.InboxReader]: an offer to the agent needs no channel.
func (*Link) ReadsInbox() {}

// Unpin implements [bridge.Pinned]. The next session accepts a changed key of the card.
func (l *Link) Unpin() {
	if l.changed.Load() {
		l.confirmed.Store(true)
	}
}

func (l *Link) is(did federation.DID) bool { return did == l.did || did == l.kept().DID }

// Carries implements [bridge.Link].
func (l *Link) Carries(_ context.Context, ev federation.Event, after federation.View) (bool, error) {
	switch {
	case ev.Arrival.Link == l.cfg.Name || ev.Verb == federation.Confirm:
		return false, nil
	case ev.Verb == federation.Offer && after.State == federation.Open:
		return l.claims(after) && l.excludes(ev, after) == "", nil
	}
	return l.is(after.Offeree) || l.is(after.Assignee), nil
}

// claims returns false for an open offer without required capabilities.
func (l *Link) claims(offer federation.View) bool {
	return offer.Kind == federation.Handoff && len(offer.Caps) > 0 && len(offer.MissingCaps(l.cfg.Claims)) == 0
}

func (l *Link) claimedElsewhere(view federation.View) bool {
	return view.Offeree == "" && view.Assignee != "" && !l.is(view.Assignee)
}

// Describe implements [bridge.Describer].
func (l *Link) Describe() bridge.Description {
	d := bridge.Description{
		NotCarried: []string{"progress and notes of other parties: a task takes messages only as answers to its agent"},
		Agent:      &bridge.AgentDescription{DID: l.did, Card: l.cfg.Card, Claims: l.cfg.Claims},
	}
	if c := l.card.Load(); c != nil {
		at, _ := c.best() // cannot fail: the link was up
		d.Agent.Name, d.Agent.Version, d.Agent.Protocol = c.Name, c.Version, fmt.Sprintf("%s %s", at.ProtocolBinding, at.ProtocolVersion)
		d.Agent.Updates = updatesOf(c.Capabilities)
		d.Negotiated = map[string]string{
			"agent": c.Name, "version": c.Version, "url": at.URL, "binding": string(at.ProtocolBinding), "protocol": string(at.ProtocolVersion),
			"did": string(l.did), "skills": strings.Join(c.skills(), " "), "signed": "no",
		}
		if c.key != "" {
			d.Negotiated["signed"] = c.key[:16]
		}
		if why := c.obstacle(); why != "" {
			d.Obstacles = append(d.Obstacles, why)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	d.Agent.Tasks = len(l.tasks)
	var blocked []string
	for id, why := range l.blocked {
		blocked = append(blocked, "handoff "+id.String()+": "+why)
	}
	slices.Sort(blocked) // oldest first
	d.Obstacles = append(d.Obstacles, blocked[:min(len(blocked), maxObstacles)]...)
	return d
}

func updatesOf(c wire.AgentCapabilities) string {
	switch {
	case c.Streaming:
		return "streams"
	case c.PushNotifications:
		return "push notifications"
	}
	return "polling"
}

const (
	maxStreams    = 32
	maxTasks      = 4096
	tasksPage     = 256
	looksAtOnce   = 8
	maxObstacles  = 5
	maxUnanswered = 3 // before the link reconnects
	maxReopened   = 3 // before only the timer polls
)

// Run implements [bridge.Link]. It returns if the agent stops responding or the card cannot be reread.
func (l *Link) Run(ctx context.Context, up func()) error {
	begun := l.reset()
	l.unanswered.Store(0)
	select {
	case <-l.lost: //nolint:errcheck // the reason for the end of an earlier session
	default:
	}
	if err := l.readCard(ctx); err != nil {
		return err
	}
	l.deps.Hub.join(l)
	defer l.deps.Hub.leave(l)
	defer l.hangUp()
	group, ctx := errgroup.WithContext(ctx)
	s := &session{Link: l, looks: make(chan struct{}, looksAtOnce), streams: make(chan struct{}, maxStreams)}
	if err := l.resume(ctx); err != nil {
		return err
	}
	group.Go(fault.Func(func() error {
		for {
			select {
			case t := <-begun:
				group.Go(fault.Func(func() error { return s.follow(ctx, t) }))
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}))
	group.Go(fault.Func(func() error { return l.refresh(ctx) }))
	group.Go(fault.Func(func() error {
		select {
		case err := <-l.lost:
			return fmt.Errorf("the agent does not answer: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}))
	up()
	return group.Wait()
}

func (l *Link) resume(ctx context.Context) error {
	for after, found := "", 0; found < maxTasks; {
		names, err := l.deps.Journals.JournalNames(ctx, l.taskPrefix(), after, tasksPage)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			id, err := federation.ParseEventID(strings.TrimPrefix(name, l.taskPrefix()))
			if err != nil {
				return fmt.Errorf("read journal %s: %w", name, err)
			}
			t := l.taskOf(id)
			t.mu.Lock()
			err = l.load(ctx, t)
			l.start(t)
			t.mu.Unlock()
			if err != nil {
				return err
			}
			if t.open {
				l.reserve(id)
			}
		}
		after, found = names[len(names)-1], found+len(names)
	}
	return nil
}

// start requires the mutex of the task.
func (l *Link) start(t *task) {
	if t.followed {
		t.look()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.begun <- t:
		t.followed = true
	default: // queue full: the next session follows it
	}
}

// recordOutcome ends the session if the agent cannot be reached, or leaves maxUnanswered consecutive calls
// unanswered.
func (l *Link) recordOutcome(ctx context.Context, err error) {
	switch {
	case err == nil:
		l.unanswered.Store(0)
	case errors.Is(ctx.Err(), context.Canceled): // by the gateway
	case isDial(err) || l.unanswered.Add(1) >= maxUnanswered:
		select {
		case l.lost <- err:
		default:
		}
	}
}

func (l *Link) refresh(ctx context.Context) error {
	for {
		bridge.Sleep(ctx, time.Until(l.card.Load().until))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := l.readCard(ctx); err != nil {
			return err
		}
	}
}

func (l *Link) readCard(ctx context.Context) error {
	c, err := l.fetchCard(ctx)
	if err != nil {
		l.ports.Metrics.BadInput.WithLabelValues(network, l.cfg.Name, "card").Inc()
		return err
	}
	if err := l.pin(ctx, c); err != nil {
		return err
	}
	if err := l.declare(ctx, c); err != nil {
		return err
	}
	client, err := l.newClient(ctx, c)
	if err != nil {
		return fmt.Errorf("card %s: %w", l.cfg.Card, err)
	}
	l.card.Store(c)
	l.client.Store(client)
	return nil
}

// In characters.
const maxDescription = 1024

// declare also records the configured capabilities for open offers, because homes may require them of a
// claimant. If the agent's name is taken, it is found as NAME@LINK.
func (l *Link) declare(ctx context.Context, c *card) error {
	known, err := l.deps.Record.Declaration(ctx, l.did)
	if err != nil {
		return err
	}
	d := known
	d.DID, d.Name, d.Description = l.did, l.cfg.Name, c.Description
	d.Caps = slices.Compact(slices.Sorted(slices.Values(append(c.skills(), l.cfg.Claims...))))
	if runes := []rune(d.Description); len(runes) > maxDescription {
		d.Description = string(runes[:maxDescription])
	}
	if d.Name == known.Name && d.Description == known.Description && slices.Equal(d.Caps, known.Caps) {
		return nil
	}
	d.At = time.Now()
	err = l.deps.Record.Declare(ctx, d)
	if errors.Is(err, federation.ErrTaken) {
		d.Name = ""
		err = l.deps.Record.Declare(ctx, d)
	}
	return err
}

func (l *Link) newClient(ctx context.Context, c *card) (*a2aclient.Client, error) {
	at, err := c.best()
	if err != nil {
		return nil, err
	}
	one := *c.AgentCard
	one.SupportedInterfaces = []*wire.AgentInterface{at}
	return a2aclient.NewFromCard(ctx, &one, append(l.grpcTransports(),
		a2aclient.WithDefaultsDisabled(),
		a2aclient.WithConfig(a2aclient.Config{AcceptedOutputModes: []string{"text/plain", "application/json"}}),
		a2aclient.WithJSONRPCTransport(l.http), a2aclient.WithRESTTransport(l.http),
		a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{Client: l.http}), a2av0.WithRESTTransport(a2av0.RESTTransportConfig{Client: l.http}))...)
}

type changedKeyError struct{ name, was, is string }

func (e *changedKeyError) Error() string {
	is := "has no valid signature now"
	if e.is != "" {
		is = "is signed with another key, " + e.is[:16] + ", now"
	}
	return fmt.Sprintf("the card was signed with key %s and %s: compare the keys with the operator of the agent, and run baton a2a confirm %s", e.was[:16], is, e.name)
}

// pinned is an entry of the journal of card keys. The last entry counts.
type pinned struct {
	Key string `json:"key"` // "" pins the next key
}

func pinJournal(name string) string { return network + "-card/" + name }

// pin accepts a card without a valid signature if no card had one before. An outage of the key set does
// not change the key.
func (l *Link) pin(ctx context.Context, c *card) error {
	was, length, err := readPin(ctx, l.deps.Journals, l.cfg.Name)
	switch {
	case err != nil:
		return err
	case was == c.key:
		l.changed.Store(false)
		l.confirmed.Store(false)
		return nil
	case was != "" && isOutage(c.doubt):
		return c.doubt
	case was != "" && !l.confirmed.Swap(false):
		l.changed.Store(true)
		return &changedKeyError{l.cfg.Name, was, c.key}
	}
	l.changed.Store(false)
	return writePin(ctx, l.deps.Journals, l.cfg.Name, length, c.key)
}

// excludes explains why the configuration forbids an offer, or returns "".
func (l *Link) excludes(ev federation.Event, offer federation.View) string {
	if len(l.cfg.Accepts) > 0 && !slices.Contains(l.cfg.Accepts, string(ev.Kind)) {
		return l.cfg.Name + " takes no " + string(ev.Kind)
	}
	allowed := func(who string) bool {
		return who == anyone || who == string(offer.Offerer) || who == string(ev.From) || who == ev.Arrival.Link
	}
	if !slices.ContainsFunc(l.cfg.OfferFrom, allowed) {
		return l.cfg.Name + " takes no offers of " + string(offer.Offerer)
	}
	return ""
}

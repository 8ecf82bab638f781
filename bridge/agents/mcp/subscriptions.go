package mcp

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
)

// The client's token is checked after each poll of this duration.
const watchTime = 15 * time.Second

// The minimum time between two notifications for one resource.
const updatePause = time.Second

// Each watched resource of a client has its own stream.
const maxWatched = 32

const watchLimit = 100

type subscriptions struct {
	mu sync.Mutex
	of map[string]context.CancelFunc
}

// watch calls updated after each change, until ctx ends or the client loses access.
type watch func(ctx context.Context, updated func())

// subscribe returns an error if the client cannot see the resource. Later changes are reported.
func (s *server) subscribe(ctx context.Context, req *mcp.SubscribeRequest) error {
	uri := req.Params.URI
	run, err := s.watchOf(ctx, uri)
	if err != nil {
		return s.resourceError(ctx, uri, err)
	}
	s.subscriptions.mu.Lock()
	defer s.subscriptions.mu.Unlock()
	if s.subscriptions.of == nil {
		s.subscriptions.of = map[string]context.CancelFunc{}
	}
	if s.subscriptions.of[uri] != nil {
		return nil
	}
	if len(s.subscriptions.of) >= maxWatched {
		return s.resourceError(ctx, uri, &federation.UnavailableError{What: "one more subscription"})
	}
	watching, cancel := s.until(context.WithoutCancel(ctx)) // a legacy subscription outlives its request
	s.subscriptions.of[uri] = cancel
	updated := func() {
		_ = s.mcp.ResourceUpdated(watching, &mcp.ResourceUpdatedNotificationParams{URI: uri}) // never fails
	}
	go func() {
		defer cancel()
		if err := fault.Catch(func() error { run(watching, updated); return nil }); err != nil {
			s.onToolError(watching, "resources/subscribe", err)
		}
	}()
	return nil
}

// watchOf reports changes from now on.
func (s *server) watchOf(ctx context.Context, uri string) (watch, error) {
	if uri == inboxURI {
		from, err := s.endOfInbox(ctx)
		return func(ctx context.Context, updated func()) { s.watchInbox(ctx, from, updated) }, err
	}
	id, ok := idOf(uri)
	if !ok {
		return nil, errNoResource()
	}
	log, err := s.account.Handoff(ctx, id)
	return func(ctx context.Context, updated func()) { s.watchHandoff(ctx, id, log.View.Version, updated) }, err
}

func idOf(uri string) (id string, ok bool) {
	if id, ok = strings.CutPrefix(uri, handoffScheme); ok {
		return id, ok
	}
	return strings.CutPrefix(uri, passportScheme)
}

func (s *server) unsubscribe(_ context.Context, req *mcp.UnsubscribeRequest) error {
	s.subscriptions.mu.Lock()
	defer s.subscriptions.mu.Unlock()
	if cancel := s.subscriptions.of[req.Params.URI]; cancel != nil {
		cancel()
		delete(s.subscriptions.of, req.Params.URI)
	}
	return nil
}

func (s *server) endOfInbox(ctx context.Context) (federation.Cursor, error) {
	q := participant.InboxQuery{Device: s.deviceName(), Limit: watchLimit}
	for {
		page, err := s.account.Inbox(ctx, q)
		if err != nil || len(page.Items) < watchLimit {
			return page.Next, err
		}
		q.Cursor = page.Next
	}
}

func (s *server) watchInbox(ctx context.Context, after federation.Cursor, updated func()) {
	q := participant.InboxQuery{Cursor: after, Limit: watchLimit, Wait: watchTime}
	for s.goesOn(ctx) {
		page, err := s.account.Inbox(ctx, q)
		if err != nil {
			bridge.Sleep(ctx, watchTime)
			continue
		}
		q.Cursor = page.Next
		if len(page.Items) > 0 {
			updated()
			bridge.Sleep(ctx, updatePause)
		}
	}
}

// watchHandoff also ends when the client can no longer see the handoff.
func (s *server) watchHandoff(ctx context.Context, id string, known federation.Version, updated func()) {
	for s.goesOn(ctx) {
		version, err := s.account.Moved(ctx, id, known, watchTime)
		switch {
		case err == nil && version != known && ctx.Err() == nil:
			known = version
			updated()
			bridge.Sleep(ctx, updatePause)
		case err != nil && !participant.Retryable(participant.ProblemOf(err)):
			return
		case err != nil:
			bridge.Sleep(ctx, watchTime)
		}
	}
}

func (s *server) goesOn(ctx context.Context) bool {
	return ctx.Err() == nil && s.still(time.Now()) == nil
}

// The contract allows at most ten seconds between two notifications.
const beat = 5 * time.Second

// wait blocks until there is an entry, the time is over, the client leaves or cancels, or the gateway
// stops. It acknowledges nothing.
func (s *server) wait(ctx context.Context, req *mcp.CallToolRequest, q participant.InboxQuery) (participant.InboxPage, error) {
	waiting, cancel := s.until(ctx)
	defer cancel()
	type found struct {
		page participant.InboxPage
		err  error
	}
	done := make(chan found, 1)
	go func() {
		var f found
		f.err = fault.Catch(func() (err error) { f.page, err = s.account.Inbox(waiting, q); return err })
		done <- f
	}()
	began, tick := time.Now(), time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case f := <-done:
			fault.Again(f.err)
			if f.err != nil && waiting.Err() != nil && ctx.Err() == nil && s.still(time.Now()) == nil {
				return participant.InboxPage{Next: q.Cursor}, nil // ended early, without entries
			}
			if err := s.still(time.Now()); err != nil { // the session may have ended meanwhile
				return participant.InboxPage{}, err
			}
			return f.page, f.err
		case now := <-tick.C:
			if err := s.still(now); err != nil {
				cancel()
				<-done
				return participant.InboxPage{}, err
			}
			s.progress(ctx, req, now.Sub(began), q.Wait)
		}
	}
}

func (*server) progress(ctx context.Context, req *mcp.CallToolRequest, waited, total time.Duration) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return
	}
	_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ // the wait ends by itself if the client has left
		ProgressToken: token, Progress: waited.Round(time.Second).Seconds(), Total: total.Seconds(), Message: "waiting",
	})
}

package a2aclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate/a2atask"
)

// The polling interval doubles while nothing changes.
const (
	firstLook = 500 * time.Millisecond
	lastLook  = 30 * time.Second
	minLook   = 250 * time.Millisecond // also if the agent requests more
	streamEnd = time.Second            // delay before an ended stream is reopened
	lostAfter = time.Minute            // how long an agent may deny a task before its handoff fails
)

const (
	maxReports  = 500
	minReport   = 2 * time.Second // minimum interval between two progress steps
	progressKey = "progress "
	questionKey = "question "
)

var errOtherTask = errors.New("the agent answered with another task")

type session struct {
	*Link

	looks   chan struct{} // semaphore: one token per poll in progress
	streams chan struct{} // semaphore: one token per open stream
}

func (s *session) follow(ctx context.Context, t *task) error {
	wake, stop := s.ports.PubSub.Subscribe(bridge.HandoffTopic(t.handoff))
	defer stop()
	stopWatching := s.watch(ctx, t)
	defer stopWatching()
	wait := firstLook
	for ctx.Err() == nil {
		over, moved, err := s.lookAt(ctx, t)
		switch {
		case over:
			return nil
		case err != nil && ctx.Err() == nil:
			s.log.LogAttrs(ctx, slog.LevelInfo, "task not read", slog.String("handoff_id", t.handoff.String()), slog.Any("err", err))
		}
		if wait = min(2*wait, lastLook); moved {
			wait = firstLook
		}
		timer := time.NewTimer(wait - rand.N(wait/4)) //nolint:gosec // G404: spreads load, and keeps no secret
		select {
		case <-timer.C:
		case <-wake:
			bridge.Sleep(ctx, minLook)
		case <-t.poke:
			wait = firstLook
			bridge.Sleep(ctx, minLook)
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return context.Cause(ctx)
}

// watch treats streams and push notifications only as hints: the timer polls too.
func (s *session) watch(ctx context.Context, t *task) (stop func()) {
	t.mu.Lock()
	err := s.load(ctx, t)
	id := t.id
	t.mu.Unlock()
	card := s.card.Load()
	ctx, cancel := context.WithCancel(ctx)
	var hints fault.Group
	leave := func() {}
	switch {
	case err != nil || id == "": // the next poll returns the error
	case card.Capabilities.Streaming:
		hints.Go(func() { s.stream(ctx, t, id) })
	case card.Capabilities.PushNotifications:
		token, err := s.callbackToken(ctx, t.handoff)
		if err != nil {
			break
		}
		leave = s.deps.Hub.expect(token, t)
		hints.Go(func() { s.subscribe(ctx, id, token) })
	}
	return func() { cancel(); leave(); hints.Wait() }
}

// stream only triggers polls. It reopens the stream after its end.
func (s *session) stream(ctx context.Context, t *task, id wire.TaskID) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		return // the timer polls
	}
	for failed := 0; ctx.Err() == nil && failed < maxReopened; {
		failed++
		for _, err := range s.client.Load().SubscribeToTask(ctx, &wire.SubscribeToTaskRequest{ID: id}) {
			if err != nil {
				break
			}
			failed = 0
			t.look()
		}
		bridge.Sleep(ctx, streamEnd)
	}
}

func (s *session) subscribe(ctx context.Context, id wire.TaskID, token string) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := s.client.Load().CreateTaskPushConfig(ctx, &wire.PushConfig{TaskID: id, ID: "baton", URL: s.ports.PublicURL + callbackPath + token})
	if err != nil && ctx.Err() == nil {
		s.log.LogAttrs(ctx, slog.LevelInfo, "no push notifications", slog.String("task", string(id)), slog.Any("err", err))
	}
}

// lookAt returns whether nothing is left to follow, and whether a step was filed. It clears followed before
// a delivery can create a new task at the agent.
func (s *session) lookAt(ctx context.Context, t *task) (over, moved bool, err error) {
	select {
	case s.looks <- struct{}{}:
		defer func() { <-s.looks }()
	case <-ctx.Done():
		return false, false, ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	defer func() { t.followed = !over }()
	if err := s.load(ctx, t); err != nil {
		return false, false, err
	}
	view, err := s.ports.Gateway.View(ctx, t.handoff)
	switch {
	case err != nil:
		return false, false, fmt.Errorf("read handoff %s: %w", t.handoff, err)
	case !view.Exists(), view.Over, s.claimedElsewhere(view):
		return true, false, s.close(ctx, t, view)
	case t.id == "" && t.answer == nil:
		return true, false, nil // the outbox sends the message
	case t.ended:
		return false, false, nil // the handoff's home has not ruled yet
	}
	expected, err := s.ports.Gateway.Expected(ctx, t.handoff, cmp.Or(view.Offeree, s.did))
	if err != nil {
		return false, false, fmt.Errorf("read handoff %s: %w", t.handoff, err)
	}
	reading, document, terminal, err := s.read(ctx, t, expected.State)
	if err != nil {
		return false, false, err
	}
	if terminal && expected.State == federation.Open && len(reading.Steps) == 0 { // stays open for others
		s.log.LogAttrs(ctx, slog.LevelInfo, "open offer not claimed", slog.String("handoff_id", t.handoff.String()), slog.String("task", string(t.id)))
		err := s.remove(ctx, t)
		if err == nil {
			s.count(taskUnclaimed)
		}
		return true, false, err
	}
	s.report(ctx, t, reading.Losses)
	s.block(t.handoff, reading.Blocked)
	for _, step := range reading.Steps {
		filed, err := s.file(ctx, t, view, step, document)
		if moved = moved || filed; err != nil {
			return false, moved, err
		}
		if !filed {
			continue
		}
		if view, err = s.ports.Gateway.View(ctx, t.handoff); err != nil {
			return false, moved, fmt.Errorf("read handoff %s: %w", t.handoff, err)
		}
		if s.claimedElsewhere(view) {
			return true, true, s.close(ctx, t, view)
		}
	}
	t.read = true
	if t.asked = reading.Question != nil; t.asked {
		filed, err := s.ask(ctx, t, view, *reading.Question, document)
		return false, moved || filed, err
	}
	t.ended = terminal
	return false, moved, nil
}

// block records why a task waits for an operator. An empty reason clears it.
func (l *Link) block(id federation.HandoffID, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if delete(l.blocked, id); why != "" {
		l.blocked[id] = why
	}
}

// read also returns the agent's object behind the steps, and whether the task is over.
func (s *session) read(ctx context.Context, t *task, state federation.State) (r a2atask.Reading, document string, terminal bool, err error) {
	if t.answer != nil {
		text, err := encoded(t.answer)
		return a2atask.ReadMessage(t.answer, state), string(text), true, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	none := 0
	found, err := s.client.Load().GetTask(ctx, &wire.GetTaskRequest{ID: t.id, HistoryLength: &none})
	switch {
	case errors.Is(err, wire.ErrTaskNotFound):
		if t.lost.IsZero() {
			t.lost = time.Now()
		}
		if time.Since(t.lost) < lostAfter {
			return r, "", false, err
		}
		return s.gone(t, "the agent does not know its task any more", state)
	case errors.Is(err, errTooLarge):
		return s.gone(t, "the result is too large: "+errTooLarge.Error(), state)
	case err != nil:
		return r, "", false, err
	case found == nil || found.ID != t.id:
		s.ports.Metrics.BadInput.WithLabelValues(network, s.cfg.Name, "task").Inc()
		return r, "", false, errOtherTask
	}
	t.lost, found.History = time.Time{}, nil
	text, err := encoded(found)
	return a2atask.Read(found, state), string(text), found.Status.State.Terminal(), err
}

func (s *session) gone(t *task, why string, state federation.State) (a2atask.Reading, string, bool, error) {
	text, err := json.Marshal(map[string]string{"task": string(t.id), "error": why})
	return a2atask.Lost(why, state), string(text), true, err
}

// file files one step at most once, and reports whether it is new.
func (s *session) file(ctx context.Context, t *task, view federation.View, step a2atask.Step, document string) (filed bool, err error) {
	key := step.Key
	if step.Verb == federation.Progress {
		key = progressKey + key
		if _, known := t.steps[key]; !known && (t.reports >= maxReports || time.Since(t.reported) < minReport) {
			return false, nil
		}
	}
	if t.done[key] {
		return false, nil
	}
	draft := stepbuilder.Draft{
		From: s.did, Name: s.cfg.Name, Proved: true, Verb: step.Verb, Note: step.Note, Context: step.Context, Original: document,
	}
	known, err := s.submit(ctx, t, view, key, draft)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok && refused.Code == federation.InvalidContext && step.Context != "" {
		s.log.LogAttrs(ctx, slog.LevelWarn, "result not carried", slog.String("handoff_id", t.handoff.String()), slog.String("reason", refused.Error()))
		draft.Context, draft.Note = "", cmp.Or(step.Note, "the result is too large to be carried")
		known, err = s.submit(ctx, t, view, key, draft)
	}
	refused, ok := errors.AsType[*federation.RefusalError](err)
	switch {
	case ok && (refused.Code == federation.RateLimited || refused.Code == federation.InboxFull || refused.Code == federation.QuotaExceeded):
		return false, s.away(errors.New(refused.Error())) // not wrapped, so that it does not count as a refusal here
	case ok && !refused.Waits:
		s.log.LogAttrs(ctx, slog.LevelWarn, "step refused", slog.String("handoff_id", t.handoff.String()), slog.String("verb", string(step.Verb)), slog.String("reason", refused.Error()))
	case err != nil && !ok:
		return false, err
	}
	t.done[key] = true
	if step.Verb == federation.Progress {
		t.reported = time.Now()
	}
	ends := step.Verb == federation.Complete || step.Verb == federation.Fail || step.Verb == federation.Decline
	if ends && !known && (!ok || refused.Waits) { // a step refiled after a restart is already counted
		s.count(string(step.Verb))
	}
	return true, nil
}

// submit replaces an ID refused by the clock of the home. It reports whether the step was already on disk.
func (s *session) submit(ctx context.Context, t *task, view federation.View, key string, d stepbuilder.Draft) (known bool, err error) {
	at, err := s.stepOf(ctx, t, key)
	if err != nil {
		return false, err
	}
	known, err = s.vouch(ctx, t, view, at, d)
	refused, ok := errors.AsType[*federation.RefusalError](err)
	if !ok || refused.Code != federation.EventIDClockSkew {
		return known, err
	}
	if at, err = s.mint(ctx, t, key); err != nil {
		return false, err
	}
	return s.vouch(ctx, t, view, at, d)
}

func (s *session) vouch(ctx context.Context, t *task, view federation.View, as filed, d stepbuilder.Draft) (known bool, err error) {
	d.ID = as.id
	ev, losses, err := s.steps.Vouch(ctx, d, view, as.at)
	if problem, ok := errors.AsType[*bridge.ProblemError](err); ok {
		return false, &federation.RefusalError{Code: federation.InvalidTag, Event: d.ID, Handoff: t.handoff, Detail: problem.Detail}
	}
	if err != nil {
		return false, err
	}
	s.report(ctx, t, losses)
	judged, err := s.ports.Gateway.Submit(ctx, ev)
	return judged.Duplicate, err
}

// ask sends a private message to the offerer. If no link reaches the offerer, it files a progress step.
func (s *session) ask(ctx context.Context, t *task, view federation.View, q a2atask.Question, document string) (asked bool, err error) {
	key := questionKey + q.Key
	if t.done[key] {
		return false, nil
	}
	at, err := s.stepOf(ctx, t, key)
	if err != nil {
		return false, err
	}
	if s.ports.Messages == nil {
		return s.askInStep(ctx, t, view, q, document)
	}
	text := q.Text
	if runes := []rune(text); len(runes) > federation.MaxMessageChars {
		text = string(runes[:federation.MaxMessageChars])
	}
	_, err = s.ports.Messages.Say(ctx, federation.Text{
		ID: at.id, Author: s.did, To: view.Offerer, Body: text, About: t.handoff,
		Arrival: federation.Arrival{Network: network, Link: s.cfg.Name, Name: s.cfg.Name, Received: at.at},
	}, signing.Original{Network: network, Received: at.at, Document: document})
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	switch {
	case errors.Is(err, federation.ErrNotFound), isRefusal && refused.Code != federation.RateLimited:
		s.log.LogAttrs(ctx, slog.LevelInfo, "question becomes progress", slog.String("handoff_id", t.handoff.String()), slog.Any("err", err))
		return s.askInStep(ctx, t, view, q, document)
	case isRefusal:
		return false, s.away(errors.New(refused.Error()))
	case err != nil:
		return false, err
	}
	t.done[key] = true
	return true, nil
}

func (s *session) askInStep(ctx context.Context, t *task, view federation.View, q a2atask.Question, document string) (bool, error) {
	note := "input required: " + strings.Join(strings.Fields(q.Text), " ")
	filed, err := s.file(ctx, t, view, a2atask.Step{Verb: federation.Progress, Note: note, Key: questionKey + q.Key}, document)
	t.done[questionKey+q.Key] = err == nil
	return filed, err
}

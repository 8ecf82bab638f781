package macp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/historyv1"
	"github.com/baton-gateway/baton/translate/macpmode/taskv1"
)

// The session ID is stored before the session starts. The runtime reports repeated messages as
// duplicates. If it refuses the session, signals report the work.
func (m *mirror) openTask(ctx context.Context, id federation.HandoffID, offer *macpmode.Offer) error {
	view, err := m.ports.Gateway.View(ctx, id)
	if err != nil || view.Over {
		return err
	}
	w, err := m.readWork(ctx, id)
	if err != nil {
		return err
	}
	if w.session == "" {
		if w.session, err = newSessionID(); err != nil {
			return err
		}
		if err := m.writeWork(ctx, id, w, workEntry{Session: w.session, Task: id.String()}); err != nil {
			return err
		}
	}
	_, said, err := firstContext(ctx, m.deps.Journals, m.sessionJournal(m.id), 0, offer.ID)
	if err != nil {
		return err
	}
	names := macpmode.Parties{Owner: m.cfg.Participant, Target: offer.Target}
	carry := macpmode.CarryOf(view, m.cfg.Profile, href(m.ports, id))
	start, request, err := macpmode.OpenTask(view, names, m.s.Start.GetContextId(), said.GetContext(), carry, time.Now())
	if err != nil {
		return err
	}
	err = m.tellIn(ctx, macpmode.TaskMode, w.session, macpmode.TypeSessionStart, "start:"+id.String(), start)
	if err == nil {
		err = m.tellIn(ctx, macpmode.TaskMode, w.session, macpmode.TypeTaskRequest, "request:"+id.String(), request)
	}
	return m.orBySignal(ctx, id, err)
}

// orBySignal returns any error other than a refusal.
func (c *foreignConn) orBySignal(ctx context.Context, id federation.HandoffID, err error) error {
	refused, ok := errors.AsType[*federation.RefusalError](err)
	if !ok {
		return err
	}
	c.ports.Metrics.BadInput.WithLabelValues(network, c.cfg.Name, "task-refused").Inc()
	c.log.LogAttrs(ctx, slog.LevelWarn, "work is reported by signals", slog.String("handoff_id", id.String()), slog.String("reason", refused.Detail))
	return nil
}

// The runtime leaves a closed task unchanged.
func (c *foreignConn) endTask(ctx context.Context, view federation.View, reason string) error {
	if !c.tasks || c.sender(view.Offeree) == "" {
		return nil
	}
	w, err := c.readWork(ctx, view.ID)
	if err != nil || w.session == "" {
		return err
	}
	return c.cancel(ctx, w.session, reason)
}

// A step of our participant becomes a message of the task once the offerer has requested the task.
// Until then a signal reports the step, which is kept for the task.
func (c *foreignConn) report(ctx context.Context, d federation.Delivery, session string) error {
	if !c.tasks {
		return c.tellStep(ctx, d, session)
	}
	if c.sender(d.View.Offeree) != "" { // the assignee reports from elsewhere
		err := c.tellStep(ctx, d, session)
		if err == nil && d.View.Over {
			err = c.endTask(ctx, d.View, "the work has ended")
		}
		return err
	}
	step := keptStep(d.Entry.Event)
	for {
		w, err := c.readWork(ctx, d.View.ID)
		if err != nil {
			return err
		}
		if w.session != "" {
			told, err := c.tellTask(ctx, d.View.ID, w.session, w.task, step)
			if told || err != nil {
				return err
			}
		}
		if w.last != step.ID {
			err = c.writeWork(ctx, d.View.ID, w, workEntry{Kept: &step})
		}
		if errors.Is(err, federation.ErrStale) { // the task was requested in the meantime
			continue
		}
		if err != nil {
			return err
		}
		return c.tellStep(ctx, d, session)
	}
}

// tellTask returns false if the runtime refused the step.
func (c *foreignConn) tellTask(ctx context.Context, id federation.HandoffID, session, task string, step kept) (bool, error) {
	kind, payload, losses := macpmode.WriteReport(federation.Event{Verb: step.Verb, Note: step.Note, Context: step.Context, ContextHash: step.ContextHash}, task, c.cfg.Participant)
	for _, loss := range losses {
		c.log.LogAttrs(ctx, slog.LevelInfo, "member not carried", slog.String("session", session), slog.String("event_id", step.ID), slog.String("reason", loss.Field+": "+loss.Why))
	}
	err := c.tellIn(ctx, macpmode.TaskMode, session, kind, step.ID, payload)
	return err == nil, c.orBySignal(ctx, id, err)
}

// A request of our participant belongs to a handoff that it offered. A request to our participant
// belongs to a handoff that it accepted, so the request is accepted too.
func (m *mirror) fileRequest(ctx context.Context, step wireEntry) error {
	task := m.s.Task
	if task == nil || step.env.GetSender() != m.s.Initiator {
		return nil
	}
	if m.s.Initiator == m.cfg.Participant {
		return m.ownTask(ctx, task)
	}
	if task.Assignee != "" && task.Assignee != m.cfg.Participant {
		return nil
	}
	id, why, err := m.taskHandoff(ctx, task)
	if err != nil {
		return err
	}
	if why != "" {
		m.log.LogAttrs(ctx, slog.LevelWarn, "task rejected", slog.String("session", m.id), slog.String("reason", why))
		if task.Assignee == "" { // another participant may accept it
			return nil
		}
		return m.send(ctx, macpmode.TypeTaskReject, "reject:"+task.ID, &taskv1.TaskRejectPayload{TaskId: task.ID, Assignee: m.cfg.Participant, Reason: why})
	}
	if err := m.noteTask(ctx, task, id); err != nil {
		return err
	}
	accept := &taskv1.TaskAcceptPayload{TaskId: task.ID, Assignee: m.cfg.Participant, Reason: "the handoff was accepted"}
	if err := m.send(ctx, macpmode.TypeTaskAccept, "accept:"+task.ID, accept); err != nil {
		return err
	}
	for {
		w, err := m.readWork(ctx, id)
		if err != nil || w.session == m.id {
			return err
		}
		for _, step := range w.kept {
			if _, err := m.tellTask(ctx, id, m.id, task.ID, step); err != nil {
				return err
			}
		}
		err = m.writeWork(ctx, id, w, workEntry{Session: m.id, Task: task.ID})
		if !errors.Is(err, federation.ErrStale) { // another step was kept in the meantime
			return err
		}
	}
}

// If there is no handoff, taskHandoff returns the reason.
func (m *mirror) taskHandoff(ctx context.Context, task *macpmode.Task) (id federation.HandoffID, why string, err error) {
	found, err := lastIndex(ctx, m.deps.Journals, m.taskKeyJournal(m.s.Initiator, macpmode.TaskKey(m.s.Start.GetContextId(), task.ID)))
	if isNotFound(err) {
		return id, "no offer has the context_id of this session; a task follows an accepted handoff", nil
	}
	if err != nil {
		return id, "", err
	}
	if id, err = federation.ParseEventID(found.Handoff); err != nil {
		return id, "", fmt.Errorf("read the handoff of a task: %w", err)
	}
	view, err := m.ports.Gateway.View(ctx, id)
	if err != nil {
		return id, "", err
	}
	mine := false
	if view.Assignee != "" {
		if mine, err = m.ports.Gateway.Same(ctx, view.Assignee, m.did); err != nil {
			return id, "", err
		}
	}
	w, err := m.readWork(ctx, id)
	switch {
	case err != nil:
		return id, "", err
	case !mine:
		return id, "the handoff is " + string(view.State) + ", and was not accepted here", nil
	case view.Over && len(w.kept) == 0 && w.session != m.id:
		return id, "the handoff is " + string(view.State), nil
	}
	return id, "", nil
}

// ownTask ignores a task requested by another program with the same token.
func (m *mirror) ownTask(ctx context.Context, task *macpmode.Task) error {
	id, err := federation.ParseEventID(task.ID)
	if err != nil {
		return nil //nolint:nilerr // the task of another program has an ID of another form
	}
	w, err := m.readWork(ctx, id)
	if err != nil || w.session != m.id {
		return err
	}
	return m.noteTask(ctx, task, id)
}

func (m *mirror) noteTask(ctx context.Context, task *macpmode.Task, id federation.HandoffID) error {
	if task.Handoff != "" {
		return nil
	}
	return m.write(ctx, &historyv1.Entry{
		AtUnixMs: time.Now().UnixMilli(), Source: historyv1.Source_SOURCE_NOTE, Opened: &historyv1.Opened{Offer: task.ID, Handoff: id.String()},
	})
}

// The task is committed after its end.
func (m *mirror) fileReport(ctx context.Context, step wireEntry) error {
	task := m.s.Task
	if task == nil || task.Handoff == "" || m.s.Initiator != m.cfg.Participant || step.env.GetSender() != task.Assignee {
		return nil
	}
	r, err := macpmode.ReadReport(step.env)
	if err != nil || r.Task != task.ID {
		m.ports.Metrics.BadInput.WithLabelValues(network, m.cfg.Name, "envelope").Inc()
		m.log.LogAttrs(ctx, slog.LevelWarn, "report not read", slog.String("session", m.id), slog.Any("err", err))
		return nil
	}
	id, err := federation.ParseEventID(task.Handoff)
	if err != nil {
		return err
	}
	err = m.takeReport(ctx, step, id, r)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		m.log.LogAttrs(ctx, slog.LevelWarn, "report refused", slog.String("session", m.id), slog.String("handoff_id", id.String()), slog.Any("err", err))
		r.Note, err = refused.Code.Upper(), nil
		if r.Action != "" {
			r.Action = "task.failed"
		}
	}
	if err != nil || r.Action == "" || m.s.Over() {
		return err
	}
	return m.send(ctx, macpmode.TypeCommitment, "commit:"+task.ID, m.s.TaskCommitment(r.Action, r.Note))
}

// A handoff with the same end needs no report: the step was filed before a crash, or the assignee
// reported elsewhere.
func (m *mirror) takeReport(ctx context.Context, step wireEntry, id federation.HandoffID, r macpmode.Report) error {
	view, err := m.ports.Gateway.View(ctx, id)
	if err != nil || r.Verb == federation.Complete && view.State == "completed" || r.Verb == federation.Fail && view.State == "failed" {
		return err
	}
	document, err := original(step.env)
	if err != nil {
		return err
	}
	draft := stepbuilder.Draft{From: m.senderDID(step.env.GetSender()), Verb: r.Verb, Proved: true, Original: document, Note: r.Note, Context: r.Context}
	if len(r.Content) > 0 {
		if draft.Context, draft.ContextHash, err = m.steps().store(ctx, m.did, r.Content); err != nil {
			return err
		}
	}
	return m.vouchPlanned(ctx, step, draft, view)
}

// The ID of the entry is stable, so that the step is filed once despite a crash. An entry too old
// for this gets another ID, which is on disk before the step is filed.
func (m *mirror) vouchPlanned(ctx context.Context, step wireEntry, draft stepbuilder.Draft, view federation.View) error {
	var at time.Time
	draft.ID, at = step.id(time.UnixMilli(step.entry.GetAtUnixMs()))
	if planned, err := federation.ParseEventID(m.s.Planned); err == nil && m.s.Filed == step.number-1 {
		draft.ID, at = planned, planned.Time()
	}
	err := m.steps().vouch(ctx, draft, view, at)
	if refused, ok := errors.AsType[*federation.RefusalError](err); !ok || refused.Code != federation.EventIDClockSkew {
		return err
	}
	at = time.Now().Truncate(time.Millisecond)
	draft.ID = stepID(at, "entry", step.session, fmt.Sprint(step.number))
	plan := &historyv1.Entry{AtUnixMs: at.UnixMilli(), Source: historyv1.Source_SOURCE_NOTE, Event: draft.ID.String(), Filed: step.number - 1}
	if err := m.write(ctx, plan); err != nil {
		return err
	}
	return m.steps().vouch(ctx, draft, view, at)
}

func (m *mirror) writeTaskKey(ctx context.Context, offer *macpmode.Offer, id federation.HandoffID) (federation.JournalWrite, error) {
	name := m.taskKeyJournal(m.s.Initiator, macpmode.TaskKey(m.s.Start.GetContextId(), offer.ID))
	length, err := m.deps.Journals.JournalLength(ctx, name)
	if err != nil && !isNotFound(err) {
		return federation.JournalWrite{}, err
	}
	text, err := json.Marshal(indexed{Session: m.id, Offer: offer.ID, Handoff: id.String()})
	return federation.JournalWrite{Name: name, Length: length, Entries: [][]byte{text}}, err
}

package a2a

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

func (l *Link) find(ctx context.Context, req request, id wire.TaskID) (federation.View, error) {
	if _, err := federation.ParseEventID(string(id)); err != nil {
		return federation.View{}, errNoTask()
	}
	view, err := l.access.Find(ctx, req.caller, string(id))
	if isNoHandoff(err) {
		return federation.View{}, errNoTask()
	}
	if err != nil {
		return federation.View{}, err
	}
	offered, err := l.offeredAt(ctx, req, view)
	if err == nil && !offered {
		err = errNoTask()
	}
	if err != nil {
		return federation.View{}, err
	}
	return view, nil
}

func (l *Link) offeredAt(ctx context.Context, req request, v federation.View) (bool, error) {
	own, err := l.deps.Gateway.Same(ctx, req.caller.DID, v.Offerer)
	if err != nil || !own || req.agent == "" {
		return own, err
	}
	if v.Offeree == "" {
		return false, nil
	}
	return l.deps.Gateway.Same(ctx, req.agent, v.Offeree)
}

func (l *Link) fold(ctx context.Context, v federation.View) (*fold, error) {
	for first, err := range l.access.Log(ctx, v.ID, 0) {
		if err != nil {
			return nil, fmt.Errorf("read log: %w", err)
		}
		from, err := l.origin(ctx, first.Event)
		return scene{l.deps.PublicURL}.newFold(v, from), err
	}
	return nil, errNoTask() // pruned a moment ago
}

// read covers each step after the last one read, up to the version of the view.
func (l *Link) read(ctx context.Context, f *fold, show func(update) error) error {
	for entry, err := range l.access.Log(ctx, f.view.ID, f.last.Version) {
		if err != nil || entry.Version > f.view.Version {
			return err
		}
		for _, u := range f.add(entry) {
			if err := show(u); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Link) readTask(ctx context.Context, v federation.View) (*fold, error) {
	f, err := l.fold(ctx, v)
	if err != nil {
		return nil, err
	}
	if err := l.read(ctx, f, unshown); err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	return f, nil
}

type sent struct {
	Task *task `json:"task"`
}

// sendMessage returns when the offer is on disk, or, for a blocking call, at the end of the task or after
// the longest wait.
func (l *Link) sendMessage(ctx context.Context, req request) (any, error) {
	f, config, err := l.send(ctx, req)
	if err != nil {
		return nil, err
	}
	if !config.ReturnImmediately {
		attended, leave := l.access.Attend(ctx, req.caller)
		defer leave()
		waiting, cancel := context.WithTimeout(attended, l.deps.HTTP.MaxWait)
		defer cancel()
		if err := l.follow(waiting, f, unshown, func() error { return nil }); err != nil {
			return nil, err
		}
		if err := l.access.CheckSession(ctx, req.caller); err != nil {
			return nil, err
		}
	}
	shown := f.task()
	shown.trim(config.HistoryLength)
	return sent{shown}, nil
}

func (l *Link) getTask(ctx context.Context, req request) (any, error) {
	p, err := params[wire.GetTaskRequest](req)
	if err == nil {
		err = checkLength(p.HistoryLength)
	}
	if err != nil {
		return nil, err
	}
	view, err := l.find(ctx, req, p.ID)
	if err != nil {
		return nil, err
	}
	f, err := l.readTask(ctx, view)
	if err != nil {
		return nil, err
	}
	shown := f.task()
	shown.trim(p.HistoryLength)
	return shown, nil
}

func checkLength(length *int) error {
	if length != nil && *length < 0 {
		return badParams("historyLength: want 0 or more")
	}
	return nil
}

func (l *Link) cancelTask(ctx context.Context, req request) (any, error) {
	p, err := params[wire.CancelTaskRequest](req)
	if err != nil {
		return nil, err
	}
	view, err := l.find(ctx, req, p.ID)
	if err != nil {
		return nil, err
	}
	if view.Over {
		return nil, errNotCancelable(view)
	}
	reason, _ := p.Metadata["reason"].(string)
	if _, err := l.access.Take(ctx, req.caller, string(p.ID), federation.Cancel, participant.StepRequest{Note: reason}, participant.Request{}); err != nil {
		return nil, cancelError(err, view)
	}
	if view, err = l.deps.Gateway.View(ctx, view.ID); err != nil {
		return nil, fmt.Errorf("read handoff %s: %w", p.ID, err)
	}
	f, err := l.readTask(ctx, view)
	if err != nil {
		return nil, err
	}
	return f.task(), nil
}

const (
	defaultPage = 50
	maxPage     = 100
)

// maxCounted bounds the tasks counted for one page; maxRead bounds the tasks read at a time.
const (
	maxCounted = 10000
	maxRead    = 500
)

// A nil number is absent.
type listRequest struct {
	ContextID            string         `json:"contextId"`
	Status               wire.TaskState `json:"status"`
	PageSize             *int           `json:"pageSize"`
	PageToken            string         `json:"pageToken"`
	HistoryLength        *int           `json:"historyLength"`
	StatusTimestampAfter time.Time      `json:"statusTimestampAfter"`
	IncludeArtifacts     bool           `json:"includeArtifacts"`
}

func (p listRequest) check() error {
	if p.PageSize != nil && (*p.PageSize < 1 || *p.PageSize > maxPage) {
		return badParams(fmt.Sprintf("pageSize: want 1 to %d", maxPage))
	}
	switch p.Status {
	case wire.TaskStateUnspecified, wire.TaskStateSubmitted, wire.TaskStateWorking, wire.TaskStateCompleted, wire.TaskStateFailed,
		wire.TaskStateCanceled, wire.TaskStateRejected, wire.TaskStateInputRequired, wire.TaskStateAuthRequired:
		return checkLength(p.HistoryLength)
	}
	return badParams("status: there is no state " + string(p.Status))
}

type taskList struct {
	Tasks         []*task `json:"tasks"`
	NextPageToken string  `json:"nextPageToken"`
	PageSize      int     `json:"pageSize"`
	TotalSize     int     `json:"totalSize"`

	artifacts bool
}

func (l *Link) listTasks(ctx context.Context, req request) (any, error) {
	p, err := params[listRequest](req)
	if err == nil {
		err = p.check()
	}
	if err != nil {
		return nil, err
	}
	size := defaultPage
	if p.PageSize != nil {
		size = *p.PageSize
	}
	list := taskList{Tasks: []*task{}, PageSize: size, artifacts: p.IncludeArtifacts}
	views, next, err := l.listed(ctx, req, p, federation.Cursor(p.PageToken), size)
	if err != nil {
		return nil, err
	}
	for _, view := range views {
		f, err := l.readTask(ctx, view)
		if err != nil {
			return nil, err
		}
		shown := f.task()
		shown.trim(p.HistoryLength)
		if !p.IncludeArtifacts {
			shown.Artifacts = nil
		}
		list.Tasks = append(list.Tasks, shown)
	}
	list.NextPageToken = string(next)
	if list.TotalSize = len(views); p.PageToken != "" || next != "" {
		list.TotalSize, err = l.count(ctx, req, p)
	}
	return list, err
}

// listed also returns the next cursor.
func (l *Link) listed(ctx context.Context, req request, p listRequest, after federation.Cursor, limit int) ([]federation.View, federation.Cursor, error) {
	dids, err := l.deps.Gateway.DIDs(ctx, req.caller.DID)
	if err != nil {
		return nil, "", err
	}
	var found []federation.View
	filter := federation.Filter{DIDs: dids, Since: p.StatusTimestampAfter}
	for {
		page, next, err := l.access.Page(ctx, req.caller, filter, false, after, limit-len(found))
		if err != nil {
			return nil, "", err
		}
		for _, view := range page {
			asked, err := l.asksFor(ctx, req, p, view)
			if err != nil {
				return nil, "", err
			}
			if asked {
				found = append(found, view)
			}
		}
		if after = next; next == "" || len(found) == limit {
			return found, next, nil
		}
	}
}

func (l *Link) asksFor(ctx context.Context, req request, p listRequest, v federation.View) (bool, error) {
	if p.Status != "" && stateOf(v.State, v.Over) != p.Status {
		return false, nil
	}
	if offered, err := l.offeredAt(ctx, req, v); err != nil || !offered {
		return false, err
	}
	if p.ContextID == "" {
		return true, nil
	}
	f, err := l.fold(ctx, v)
	if err != nil {
		return false, err
	}
	return f.info.ContextID == p.ContextID, nil
}

// count stops at maxCounted.
func (l *Link) count(ctx context.Context, req request, p listRequest) (int, error) {
	total, after := 0, federation.Cursor("")
	for total < maxCounted {
		views, next, err := l.listed(ctx, req, p, after, min(maxRead, maxCounted-total))
		if err != nil {
			return 0, err
		}
		total += len(views)
		if after = next; next == "" {
			break
		}
	}
	return total, nil
}

// noteRead marks shown steps as read, because A2A clients acknowledge nothing and a full inbox is refused.
// After a failure, the next read of the task repeats it.
func (l *Link) noteRead(ctx context.Context, client federation.DID, steps ...federation.EventID) {
	if len(steps) == 0 {
		return
	}
	if err := l.deps.Record.Read(context.WithoutCancel(ctx), client, steps, time.Now()); err != nil { // the client may disconnect after the response
		l.deps.Log.LogAttrs(ctx, slog.LevelWarn, "steps stay unread", slog.String("network", network), slog.String("link", network),
			slog.String("did", string(client)), slog.Any("err", err))
	}
}

// stepsIn omits the result of a listed task without its artifact.
func stepsIn(answer any) []federation.EventID {
	switch a := answer.(type) {
	case *task:
		return a.steps
	case sent:
		return a.Task.steps
	case taskList:
		var steps []federation.EventID
		for _, t := range a.Tasks {
			if a.artifacts || t.Status.State != wire.TaskStateCompleted {
				steps = append(steps, t.steps...)
			}
		}
		return steps
	}
	return nil
}

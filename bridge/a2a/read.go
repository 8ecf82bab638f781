package a2a

import (
	"context"
	"log/slog"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"baton/federation"
)

// noteRead ends the waiting of steps in the inbox of a client that was told them. A client of A2A
// reads tasks and acknowledges nothing: its inbox would fill, and the gateway would refuse progress
// of its agents and offers to it. Steps that cannot be noted now are noted when the client reads
// the task again. The end of a push notes its step by itself.
func (l *Link) noteRead(ctx context.Context, client federation.DID, steps ...federation.EventID) {
	if len(steps) == 0 {
		return
	}
	if err := l.deps.Record.Read(context.WithoutCancel(ctx), client, steps, time.Now()); err != nil { // the client may leave with its answer
		l.deps.Log.LogAttrs(ctx, slog.LevelWarn, "steps stay unread", slog.String("network", network), slog.String("link", network),
			slog.String("did", string(client)), slog.Any("err", err))
	}
}

// stepsIn returns the steps that an answer tells. A task of a list may lack its artifact, and then
// its result was not told.
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

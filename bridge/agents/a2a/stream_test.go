package a2a_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
)

// eventLine tells one event of a stream.
func eventLine(event wire.Event) string {
	switch e := event.(type) {
	case *wire.Task:
		return "task " + string(e.Status.State)
	case *wire.TaskStatusUpdateEvent:
		if e.Status.Message != nil {
			return string(e.Status.State) + " " + e.Status.Message.Parts[0].Text()
		}
		return string(e.Status.State)
	case *wire.TaskArtifactUpdateEvent:
		return "artifact " + e.Artifact.Name + " " + e.Artifact.Parts[0].Text()
	}
	return fmt.Sprintf("%T", event)
}

// read reads a stream to its end. It calls after with the number of each event.
func read(t *testing.T, events iter.Seq2[wire.Event, error], after func(n int, e wire.Event)) []string {
	t.Helper()
	var got []string
	for event, err := range events {
		if err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		got = append(got, eventLine(event))
		after(len(got), event)
	}
	return got
}

func TestStreamHasEachStepOfItsTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	events := ada.client(t, bob.path()).SendStreamingMessage(t.Context(), &wire.SendMessageRequest{Message: words("Cite three")})
	var id wire.TaskID
	got := read(t, events, func(n int, e wire.Event) {
		switch n {
		case 1:
			id = e.TaskInfo().TaskID
			bob.takes(t, id, federation.Accept, participant.StepRequest{})
		case 2:
			bob.takes(t, id, federation.Progress, participant.StepRequest{Note: "one"})
			bob.takes(t, id, federation.Progress, participant.StepRequest{Note: "two"})
		case 4:
			bob.takes(t, id, federation.Complete, participant.StepRequest{Note: "here"})
		}
	})
	want := []string{
		"task TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_WORKING one", "TASK_STATE_WORKING two", "artifact result here", "TASK_STATE_COMPLETED",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the events (-want +got):\n%s", diff)
	}
}

func TestStreamIsResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	client := ada.client(t, bob.path())
	ctx, cut := context.WithCancel(t.Context())
	defer cut()
	var id wire.TaskID
	for event, err := range client.SendStreamingMessage(ctx, &wire.SendMessageRequest{Message: words("Cite three")}) {
		if err != nil {
			break
		}
		id = event.TaskInfo().TaskID
		cut()
	}
	bob.takes(t, id, federation.Accept, participant.StepRequest{})
	bob.takes(t, id, federation.Progress, participant.StepRequest{Note: "while it was cut"})
	got := read(t, client.SubscribeToTask(t.Context(), &wire.SubscribeToTaskRequest{ID: id}), func(n int, e wire.Event) {
		if n > 1 {
			return
		}
		if task, _ := e.(*wire.Task); task.Status.Message.Parts[0].Text() != "while it was cut" {
			t.Errorf("the task is %+v", task)
		}
		bob.takes(t, id, federation.Fail, participant.StepRequest{Note: "no sources"})
	})
	if diff := cmp.Diff([]string{"task TASK_STATE_WORKING", "TASK_STATE_FAILED no sources"}, got); diff != "" {
		t.Errorf("the events (-want +got):\n%s", diff)
	}
	for _, err := range client.SubscribeToTask(t.Context(), &wire.SubscribeToTaskRequest{ID: id}) {
		if !errors.Is(err, wire.ErrUnsupportedOperation) {
			t.Errorf("a finished task: %v", err)
		}
	}
}

func TestStreamHasTheOfferersOwnSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	task := send(t, ada, bob.path(), words("Cite three"))
	got := read(t, ada.client(t, bob.path()).SubscribeToTask(t.Context(), &wire.SubscribeToTaskRequest{ID: task.ID}), func(n int, _ wire.Event) {
		if n == 1 {
			ada.takes(t, task.ID, federation.Cancel, participant.StepRequest{Note: "by REST"})
		}
	})
	if diff := cmp.Diff([]string{"task TASK_STATE_SUBMITTED", "TASK_STATE_CANCELED by REST"}, got); diff != "" {
		t.Errorf("the events (-want +got):\n%s", diff)
	}
}

func TestStreamsEndWithTheGateway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.run(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	got := read(t, ada.client(t, bob.path()).SendStreamingMessage(t.Context(), &wire.SendMessageRequest{Message: words("Cite three")}), func(int, wire.Event) { stop() })
	if diff := cmp.Diff([]string{"task TASK_STATE_SUBMITTED"}, got); diff != "" {
		t.Errorf("the events (-want +got):\n%s", diff)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(d *deps) { d.HTTP.MaxStreams = 1 })
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	client := ada.client(t, bob.path())
	var refused answer
	var id wire.TaskID
	read(t, client.SendStreamingMessage(t.Context(), &wire.SendMessageRequest{Message: words("Cite three")}), func(n int, e wire.Event) {
		if n == 1 {
			id = e.TaskInfo().TaskID
			refused = ada.call(t, bob.path(), "SubscribeToTask", fmt.Sprintf(`{"id":%q}`, id))
			bob.takes(t, id, federation.Decline, participant.StepRequest{})
		}
	})
	if diff := cmp.Diff([]string{"-32603", "UNAVAILABLE gw.example"}, faultOf(refused)); diff != "" {
		t.Errorf("a second stream (-want +got):\n%s", diff)
	}
	next := send(t, ada, bob.path(), words("Another"))
	read(t, client.SubscribeToTask(t.Context(), &wire.SubscribeToTaskRequest{ID: next.ID}), func(int, wire.Event) {
		if view, err := w.record.View(t.Context(), federationID(t, next.ID)); err == nil && !view.Over {
			bob.takes(t, next.ID, federation.Decline, participant.StepRequest{})
		}
	})
}

// lines is the body of an answer, line by line, as the handler writes it.
type lines struct {
	header http.Header
	got    chan string
}

func (l *lines) Header() http.Header { return l.header }
func (*lines) WriteHeader(int)       {}
func (*lines) Flush()                {}
func (l *lines) Write(text []byte) (int, error) {
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			l.got <- line
		}
	}
	return len(text), nil
}

// follows subscribes ada to a task of a world without a listener, and returns the handler's
// output until ctx ends.
func follows(ctx context.Context, t *testing.T) *lines {
	t.Helper()
	w := openWorld(t, "https://gw.example", http.NewServeMux())          //nolint:contextcheck // it ends with the test
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite") //nolint:contextcheck // it ends with the test
	filed, err := w.access.Offer(ctx, ada.caller, participant.Offer{To: string(bob.did), Title: "Cite three"}, participant.Request{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, bob.path(), strings.NewReader(
		fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"SubscribeToTask","params":{"id":%q}}`, filed.ID)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("A2A-Version", "1.0")
	r.Header.Set("Authorization", "Bearer "+ada.token)
	out := &lines{header: http.Header{}, got: make(chan string)}
	go func() {
		defer close(out.got)
		w.mux.ServeHTTP(out, r)
	}()
	return out
}

func TestStreamSendsKeepAlives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		out := follows(ctx, t)
		first := <-out.got
		var answer struct {
			ID     int
			Result struct {
				Task struct{ Status struct{ State string } }
			}
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(first, "data: ")), &answer); err != nil || answer.ID != 7 || answer.Result.Task.Status.State != "TASK_STATE_SUBMITTED" {
			t.Errorf("the first line is %s, %v", first, err)
		}
		for range 3 {
			started := time.Now()
			if line := <-out.got; line != ": here" || time.Since(started) != 15*time.Second {
				t.Errorf("after %v: %s", time.Since(started), line)
			}
		}
		if got := out.header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("the type is %q", got)
		}
		cancel()
		for range out.got {
		}
	})
}

func TestStreamEndsWithItsToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started, last := time.Now(), ""
		for last = range follows(t.Context(), t).got {
		}
		if !strings.Contains(last, `"code":-32004`) || !strings.Contains(last, "UNAUTHORIZED") || time.Since(started) < 14*time.Minute {
			t.Errorf("after %v the stream ends with %s", time.Since(started), last)
		}
	})
}

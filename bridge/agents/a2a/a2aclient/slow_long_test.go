//go:build long

package a2aclient_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/baton-gateway/baton/federation"
)

// An answer that never ends costs one call: the next one reads the task.
func TestLinkEndsSlowAnswers(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	agent := liar(t, nil, func(w http.ResponseWriter, method string, id any) {
		switch {
		case method == "SendMessage":
			result(w, id, map[string]any{"task": taskOf("t1", wire.TaskStateSubmitted)})
		case method != "GetTask":
			failure(w, id, -32601, "no such method")
		case calls.Add(1) > 1:
			result(w, id, taskOf("t1", wire.TaskStateCompleted))
		default:
			for {
				if _, err := io.WriteString(w, " "); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush() // the link may be gone
				time.Sleep(100 * time.Millisecond)
			}
		}
	})
	w := newWorld(t, agent.URL)
	w.run(t)
	d := w.offer(t, "x")
	if err := w.link.Deliver(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); calls.Load() < 2; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the task is not read again")
		}
	}
	w.awaitState(t, d.View.ID, federation.Completed)
}

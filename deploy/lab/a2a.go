package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/baton-gateway/baton/deploy/agent"
	"github.com/baton-gateway/baton/federation"
)

// a2aWorker is an A2A agent called by a gateway. It creates a task for each message without looking
// for an existing one, so that a repeated message becomes two tasks.
type a2aWorker struct {
	did     federation.DID
	address string // at which the gateway calls it
	seen    arrivals

	mu    sync.Mutex
	tasks []a2aTask
	steps []step
}

type a2aTask struct {
	ID        string    `json:"id"`
	ContextID string    `json:"contextId"`
	Status    a2aStatus `json:"status"`
}

type a2aStatus struct {
	State string    `json:"state"`
	Time  time.Time `json:"timestamp"`
}

func (w *a2aWorker) name() string             { return "a2a" }
func (w *a2aWorker) identity() federation.DID { return w.did }
func (w *a2aWorker) arrivals() *arrivals      { return &w.seen }

// Handoff returns an empty handoff, because an A2A agent cannot read the log.
func (w *a2aWorker) Handoff(context.Context, string) (agent.Handoff, error) {
	return agent.Handoff{}, nil
}

// The gateway's configuration names the agent.
func (w *a2aWorker) join(context.Context) error { return nil }

// Each task is completed when it is created.
func (w *a2aWorker) work(ctx context.Context) { <-ctx.Done() }

func (w *a2aWorker) received(context.Context) ([]step, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.steps, nil
}

// serve returns once it listens, and serves until ctx ends.
func (w *a2aWorker) serve(ctx context.Context, listen string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/agent-card.json", func(response http.ResponseWriter, _ *http.Request) {
		w.write(response, map[string]any{
			"name": "worker", "description": "completes each task", "version": "1", "capabilities": map[string]any{}, "skills": []any{},
			"defaultInputModes": []string{"text/plain"}, "defaultOutputModes": []string{"text/plain"},
			"supportedInterfaces": []any{map[string]any{"url": w.address + "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}},
		})
	})
	mux.HandleFunc("POST /rpc", w.answer)
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: agent.AskTime}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }() // it ends with ctx
	return nil
}

func (w *a2aWorker) answer(response http.ResponseWriter, request *http.Request) {
	var call struct {
		ID     any    `json:"id"`
		Method string `json:"method"`
		Params struct {
			ID        string `json:"id"`
			ContextID string `json:"contextId"`
			Message   struct {
				ContextID string                  `json:"contextId"`
				Parts     []struct{ Text string } `json:"parts"`
			} `json:"message"`
		} `json:"params"`
	}
	if err := json.NewDecoder(request.Body).Decode(&call); err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	answer := map[string]any{"jsonrpc": "2.0", "id": call.ID}
	switch call.Method {
	case "SendMessage":
		m := call.Params.Message
		task := a2aTask{strconv.Itoa(len(w.tasks)), m.ContextID, a2aStatus{"TASK_STATE_COMPLETED", time.Now().UTC()}}
		arrived := step{handoff: m.ContextID, verb: "offer"}
		if len(m.Parts) > 0 {
			arrived.title = m.Parts[0].Text
		}
		w.seen.record(arrived)
		w.tasks, w.steps = append(w.tasks, task), append(w.steps, arrived)
		answer["result"] = map[string]any{"task": task}
	case "ListTasks":
		found := []a2aTask{}
		for _, task := range w.tasks {
			if task.ContextID == call.Params.ContextID {
				found = append(found, task)
			}
		}
		answer["result"] = map[string]any{"tasks": found, "totalSize": len(found), "pageSize": len(found), "nextPageToken": ""}
	case "GetTask":
		answer["error"] = map[string]any{"code": -32001, "message": "unknown task"}
		for _, task := range w.tasks {
			if task.ID == call.Params.ID {
				delete(answer, "error")
				answer["result"] = task
			}
		}
	default:
		answer["error"] = map[string]any{"code": -32601, "message": "unknown method"}
	}
	w.write(response, answer)
}

func (w *a2aWorker) write(response http.ResponseWriter, value any) {
	response.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(response).Encode(value) // the gateway may be gone, and will retry
}

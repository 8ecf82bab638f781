package bridgetest

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/baton-gateway/baton/federation"
)

const maxListed = 500

func reply(w http.ResponseWriter, body map[string]any) {
	if err := json.NewEncoder(w).Encode(body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (f *Freeq) serveActions(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	tasks, seen := []map[string]any{}, map[string]bool{}
	for _, row := range slices.Backward(f.log) {
		task := f.tasks[row.task]
		if seen[row.task] || task == nil || federation.Private(task.venue) || task.over() || len(tasks) == maxListed {
			continue
		}
		seen[row.task] = true
		origin := task.home
		if origin == f.id {
			origin = ""
		}
		tasks = append(tasks, map[string]any{
			"act_id": task.id, "kind": task.kind, "venue": task.venue, "state": task.state, "origin": origin, "updated": row.at,
		})
	}
	reply(w, map[string]any{"tasks": tasks})
}

func (t *freeqTask) over() bool {
	return !slices.Contains([]string{"offered", "open", "assigned", "under_review"}, t.state)
}

func (f *Freeq) serveKey(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	key := f.keys[keyName(r.PathValue("did"), r.PathValue("kid"))]
	f.mu.Unlock()
	if key == nil {
		http.Error(w, "{}", http.StatusNotFound)
		return
	}
	reply(w, map[string]any{"public_key": base64.RawURLEncoding.EncodeToString(key), "algorithm": "ed25519"})
}

func (f *Freeq) serveAction(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	task := f.tasks[r.PathValue("id")]
	switch {
	case task == nil:
		http.Error(w, "{}", http.StatusNotFound)
		return
	case federation.Private(task.venue): // there is no bearer token here
		http.Error(w, "{}", http.StatusForbidden)
		return
	}
	events := []map[string]any{}
	for _, row := range f.log {
		if row.task == task.id {
			events = append(events, map[string]any{
				"event_id": row.id, "canonical": row.canonical, "signature": row.signature, "actor_did": row.actor, "venue": row.venue,
				"confirm_state": row.state, "timestamp": row.at,
			})
		}
	}
	reply(w, map[string]any{"act_id": task.id, "venue": task.venue, "events": events})
}

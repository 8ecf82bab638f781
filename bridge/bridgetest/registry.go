package bridgetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

const relaysPerMinute = 10

// Relayed is one message accepted by a [Registry].
type Relayed struct {
	From, To, Body, MessageID string
	Payload                   json.RawMessage
}

// Registry is a deployed AIRC registry with its undocumented behaviour. It marks the ID of a
// message as seen before it judges the message, so that a refused ID is never delivered. It accepts
// ten messages per minute from each registry. It refuses and drops messages sent before its agent
// consented. Its methods may be called concurrently.
type Registry struct {
	// Agents are the registered handles.
	Agents []string

	mu        sync.Mutex
	down      bool
	garbled   int      // number of answers that are not JSON
	lost      int      // number of messages accepted without an answer
	consented []string // "from@registry to"
	seen      map[string]bool
	taken     []Relayed
	asked     int
	minute    []time.Time
}

// SetDown starts or stops ignoring all requests.
func (r *Registry) SetDown(down bool) { r.mu.Lock(); r.down = down; r.mu.Unlock() }

// Garble makes the next answers invalid JSON, without accepting the messages.
func (r *Registry) Garble(answers int) { r.mu.Lock(); r.garbled = answers; r.mu.Unlock() }

// Lose makes the registry accept the next messages without an answer.
func (r *Registry) Lose(answers int) { r.mu.Lock(); r.lost = answers; r.mu.Unlock() }

// Consent lets a handle write to an agent.
func (r *Registry) Consent(from, to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.consented = append(r.consented, from+" "+to)
}

// Taken returns the delivered messages, in order.
func (r *Registry) Taken() []Relayed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.taken)
}

// Asked returns the number of received relays, accepted or not.
func (r *Registry) Asked() int { r.mu.Lock(); defer r.mu.Unlock(); return r.asked }

// RoundTrip implements [http.RoundTripper] without a socket.
func (r *Registry) RoundTrip(request *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return nil, io.ErrUnexpectedEOF
	}
	recorder := httptest.NewRecorder()
	lost := false
	switch {
	case r.garbled > 0:
		r.garbled--
		recorder.WriteHeader(http.StatusBadGateway)
		fmt.Fprint(recorder, "<html>Bad gateway</html>")
	case request.URL.Path == "/.well-known/airc":
		r.answer(recorder, http.StatusOK, map[string]any{
			"protocol": "AIRC", "protocol_version": "0.1.0",
			"federation": map[string]any{"enabled": true, "discovery_endpoint": "/api/federation/identity"},
			"endpoints":  map[string]any{"messages": "/api/messages"},
		})
	case request.URL.Path == "/api/federation/relay" && request.Method == http.MethodPost:
		lost = r.relay(recorder, request)
	case request.URL.Path == "/api/federation/identity":
		r.identify(recorder, request.URL.Query().Get("handle"))
	case request.URL.Path == "/api/presence":
		agents := []map[string]any{}
		for _, handle := range r.Agents {
			agents = append(agents, map[string]any{"handle": handle, "status": "online"})
		}
		r.answer(recorder, http.StatusOK, map[string]any{"success": true, "count": len(agents), "agents": agents})
	default:
		r.refuse(recorder, http.StatusNotFound, "Not found")
	}
	if lost {
		return nil, io.ErrUnexpectedEOF
	}
	return recorder.Result(), nil
}

func (*Registry) answer(w http.ResponseWriter, status int, body map[string]any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // texts and maps cannot fail
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // a recorder never fails
}

func (r *Registry) refuse(w http.ResponseWriter, status int, code string) {
	r.answer(w, status, map[string]any{"success": false, "error": code})
}

func (r *Registry) identify(w http.ResponseWriter, handle string) {
	if !slices.Contains(r.Agents, handle) {
		r.refuse(w, http.StatusNotFound, "REMOTE_IDENTITY_NOT_FOUND")
		return
	}
	r.answer(w, http.StatusOK, map[string]any{"success": true, "identity": map[string]any{
		"handle": handle, "public_key": nil, "status": "online", "working_on": "",
	}})
}

// relay judges one message, with the checks in the order of deployed registries. It reports whether
// the answer is lost.
func (r *Registry) relay(w http.ResponseWriter, request *http.Request) (lost bool) {
	r.asked++
	var m struct {
		Origin    string          `json:"origin_registry"`
		From      string          `json:"from"`
		To        string          `json:"to"`
		Body      string          `json:"body"`
		MessageID string          `json:"message_id"`
		Payload   json.RawMessage `json:"payload"`
	}
	handle := regexp.MustCompile(`^[a-z0-9_]{3,32}$`)
	switch err := json.NewDecoder(request.Body).Decode(&m); {
	case err != nil, m.Origin == "", strings.TrimSpace(m.Body) == "", len([]rune(m.Body)) > 4000:
		r.refuse(w, http.StatusBadRequest, "Missing origin_registry")
		return false
	case !handle.MatchString(m.From), !handle.MatchString(m.To):
		r.refuse(w, http.StatusBadRequest, "Invalid handle format")
		return false
	case !r.paced(time.Now()):
		w.Header().Set("Retry-After", "10")
		r.refuse(w, http.StatusTooManyRequests, "RATE_LIMITED")
		return false
	case r.seen[m.MessageID]:
		r.answer(w, http.StatusOK, map[string]any{"success": true, "deduplicated": true})
		return false
	}
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	r.seen[m.MessageID] = true // before it is judged
	switch {
	case !slices.Contains(r.Agents, m.To):
		r.refuse(w, http.StatusNotFound, "REMOTE_IDENTITY_NOT_FOUND")
		return false
	case !slices.Contains(r.consented, m.From+"@"+m.Origin+" "+m.To):
		r.answer(w, http.StatusForbidden, map[string]any{"success": false, "error": "REMOTE_CONSENT_REQUIRED", "consent_status": "pending"})
		return false
	}
	r.taken = append(r.taken, Relayed{From: m.From, To: m.To, Body: m.Body, MessageID: m.MessageID, Payload: m.Payload})
	if r.lost > 0 {
		r.lost--
		return true
	}
	r.answer(w, http.StatusCreated, map[string]any{"success": true, "message": map[string]any{"id": m.MessageID}})
	return false
}

func (r *Registry) paced(now time.Time) bool {
	r.minute = slices.DeleteFunc(r.minute, func(at time.Time) bool { return now.Sub(at) >= time.Minute })
	if len(r.minute) >= relaysPerMinute {
		return false
	}
	r.minute = append(r.minute, now)
	return true
}

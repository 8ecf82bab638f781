package a2aclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"sync"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

// spec: did:web "Read"
const (
	documentPath = "/a2a/{name}/did.json"
	callbackPath = "/a2a/callback/"
)

// Hub serves the DID documents of the agents, and receives their push notifications. The zero Hub has
// no agents. It is safe for concurrent use.
type Hub struct {
	mu        sync.Mutex
	links     map[string]*Link
	callbacks map[string]*task // by token
}

// Mount registers the routes.
func (h *Hub) Mount(mux *http.ServeMux) {
	mux.HandleFunc("GET "+documentPath, h.serveDocument)
	mux.HandleFunc("POST "+callbackPath+"{token}", h.serveCallback)
}

func (h *Hub) join(l *Link) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.links == nil {
		h.links, h.callbacks = map[string]*Link{}, map[string]*task{}
	}
	h.links[l.cfg.Name] = l
}

func (h *Hub) leave(l *Link) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.links[l.cfg.Name] == l {
		delete(h.links, l.cfg.Name)
	}
}

// expect polls a task at each notification with a token, until stop is called.
func (h *Hub) expect(token string, t *task) (stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.callbacks[token] = t
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.callbacks[token] == t {
			delete(h.callbacks, token)
		}
	}
}

func (h *Hub) serveDocument(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	l := h.links[r.PathValue("name")]
	h.mu.Unlock()
	if l == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(identity.AgentDocument(l.did, l.kept().Public, l.ports.PublicURL, l.kept().DID)) // the client may be gone
}

// serveCallback does not read the body: only GetTask is authoritative.
//
// spec: a2a-1.0 §4.3
func (h *Hub) serveCallback(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	t := h.callbacks[r.PathValue("token")]
	h.mu.Unlock()
	if t == nil {
		http.NotFound(w, r)
		return
	}
	t.look()
	w.WriteHeader(http.StatusNoContent)
}

// callbackToken returns a stable secret for the push notifications of a task.
func (l *Link) callbackToken(ctx context.Context, id federation.HandoffID) (string, error) {
	signature, err := l.kept().Sign(ctx, []byte("a2a callback "+id.String()))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(signature)
	return hex.EncodeToString(sum[:]), nil
}

package files

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/voicefile"
)

// The paths of the hub, shared with the agent API. The hub serves "start" and "poll"; the agent API
// serves all paths with a ULID as ID.
const (
	agentsPrefix = "/api/v1/"
	hubPrefix    = agentsPrefix + "handoffs/"
)

// Hub serves the HTTP interface of the voice protocol for all voice directories with hub tokens. The
// zero Hub serves no directory. It is safe for concurrent use.
type Hub struct {
	links atomic.Pointer[[]*VoiceLink]
	mux   *http.ServeMux
}

// Mount registers the routes of the hub. All other requests go to the agent API on the same mux.
func (h *Hub) Mount(mux *http.ServeMux) {
	h.mux = mux
	mux.HandleFunc("POST "+hubPrefix+"start", h.serve(h.start))
	mux.HandleFunc("GET "+hubPrefix+"poll", h.serve(h.poll))
	mux.HandleFunc("POST "+hubPrefix+"{id}/{verb}", h.serve(h.step))
}

func (h *Hub) leave(l *VoiceLink) {
	if h != nil {
		h.change(func(links []*VoiceLink) []*VoiceLink {
			return slices.DeleteFunc(links, func(each *VoiceLink) bool { return each == l })
		})
	}
}

func (h *Hub) change(do func([]*VoiceLink) []*VoiceLink) {
	for {
		old := h.links.Load()
		var links []*VoiceLink
		if old != nil {
			links = slices.Clone(*old)
		}
		links = do(links)
		if h.links.CompareAndSwap(old, &links) {
			return
		}
	}
}

type hubCaller struct {
	link  *VoiceLink
	agent string
}

// caller compares all tokens, so that the timing reveals nothing.
func (h *Hub) caller(r *http.Request) (c hubCaller, ok bool) {
	links := h.links.Load()
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if links == nil || !strings.EqualFold(scheme, "Bearer") {
		return hubCaller{}, false
	}
	given := sha256.Sum256([]byte(token))
	for _, l := range *links {
		for agent, want := range l.secrets.hub {
			wanted := sha256.Sum256([]byte(want))
			if subtle.ConstantTimeCompare(given[:], wanted[:]) == 1 {
				c, ok = hubCaller{l, agent}, true
			}
		}
	}
	return c, ok
}

func (h *Hub) serve(route func(ctx context.Context, c hubCaller, r *http.Request) hubAnswer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		links := h.links.Load()
		_, notULID := federation.ParseEventID(r.PathValue("id"))
		if links == nil || len(*links) == 0 || r.PathValue("id") != "" && notULID == nil {
			// The agent API answers, with 404 if it is disabled.
			agents := &http.Request{Method: r.Method, Host: r.Host, URL: &url.URL{Path: agentsPrefix}}
			handler, _ := h.mux.Handler(agents)
			handler.ServeHTTP(w, r)
			return
		}
		c, ok := h.caller(r)
		if !ok {
			w.Header().Set("WWW-Authenticate", "Bearer")
			hubAnswer{Error: "the token does not belong to an agent of this hub", code: http.StatusUnauthorized}.write(w)
			return
		}
		route(r.Context(), c, r).write(w)
	}
}

func (a hubAnswer) write(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	if a.code == http.StatusNoContent {
		w.WriteHeader(a.code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	text := a.file
	if text == nil {
		var err error
		if text, err = json.Marshal(a); err != nil { // text always encodes as JSON
			panic("files: " + err.Error())
		}
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(a.code)
	_, _ = w.Write(text) // the client may be gone
}

func (*Hub) start(ctx context.Context, c hubCaller, r *http.Request) hubAnswer {
	limit := min(c.link.ports.HTTP.MaxBodyBytes, voicefile.MaxBytes)
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	switch {
	case err != nil:
		return hubAnswer{Error: "the body ended too early", code: http.StatusBadRequest}
	case int64(len(body)) > limit:
		return hubAnswer{Error: fmt.Sprintf("a handoff has at most %d bytes here", limit), code: http.StatusRequestEntityTooLarge}
	}
	sealed, err := voicefile.Read(body)
	if err != nil {
		return hubAnswer{Status: hubRejected, Reason: "the body is not a handoff", code: http.StatusUnprocessableEntity}
	}
	if sealed.From != c.agent {
		return hubAnswer{Error: "the token does not belong to from_agent", code: http.StatusForbidden}
	}
	var answer hubAnswer
	err = c.link.ask(ctx, func(ctx context.Context) error {
		answer, err = c.link.start(ctx, body, sealed)
		return err
	})
	if err != nil {
		return hubError("", err)
	}
	return answer
}

func (*Hub) poll(ctx context.Context, c hubCaller, r *http.Request) hubAnswer {
	query := r.URL.Query()
	if agent := query.Get("agent"); agent != "" && agent != c.agent {
		return hubAnswer{Error: "the token belongs to another agent", code: http.StatusForbidden}
	}
	wait, err := readWait(query.Get("wait"), c.link.ports.HTTP.MaxWait)
	if err != nil {
		return hubAnswer{Error: err.Error(), code: http.StatusBadRequest}
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for {
		var file []byte
		var moved <-chan struct{}
		err := c.link.ask(ctx, func(ctx context.Context) error {
			var found waiting
			now := time.Now()
			err := c.link.each(c.agent, func(w waiting) (bool, error) {
				waits, err := c.link.waits(ctx, w)
				if err == nil && waits && !w.file.Expires.Before(now) && (found.content == nil || w.file.Initiated.Before(found.file.Initiated)) {
					found = w
				}
				return true, err
			})
			file, moved = found.content, c.link.moved
			return err
		})
		switch {
		case err != nil:
			return hubError("", err)
		case file != nil:
			return hubAnswer{code: http.StatusOK, file: file}
		}
		select {
		case <-moved:
		case <-timeout.C:
			return hubAnswer{code: http.StatusNoContent}
		case <-ctx.Done():
			return hubAnswer{code: http.StatusNoContent}
		}
	}
}

// The text is seconds, or a duration.
func readWait(text string, most time.Duration) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	wait, err := time.ParseDuration(text)
	if seconds, notNumber := strconv.Atoi(text); notNumber == nil {
		wait, err = time.Duration(min(seconds, 3600))*time.Second, nil
	}
	if err != nil || wait < 0 {
		return 0, errors.New("wait: want seconds, or a duration such as 30s")
	}
	return min(wait, most), nil
}

func (*Hub) step(ctx context.Context, c hubCaller, r *http.Request) hubAnswer {
	id, verb := r.PathValue("id"), r.PathValue("verb")
	if verb != "accept" && verb != "complete" && verb != "reject" {
		return hubAnswer{Error: "the hub has accept, complete and reject", code: http.StatusNotFound}
	}
	var said struct {
		Reason string `json:"reason"`
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, c.link.ports.HTTP.MaxBodyBytes))
	if err != nil || len(body) > 0 && federation.DecodeJSON(body, &said) != nil {
		return hubAnswer{Error: "the body is not a JSON object", code: http.StatusBadRequest}
	}
	var answer hubAnswer
	err = c.link.ask(ctx, func(ctx context.Context) error {
		answer, err = c.link.step(ctx, c.agent, id, verb, said.Reason)
		return err
	})
	if err != nil {
		return hubError(id, err)
	}
	return answer
}

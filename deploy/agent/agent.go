// Package agent is a client of the REST API for programs that generate load: an agent with its own
// key, which retries its requests.
package agent

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

// AskTime bounds one request. RetryWait is the delay before a retry.
const (
	AskTime   = 10 * time.Second
	RetryWait = 100 * time.Millisecond
)

// Agent is a client of the REST API with its own key. It may be used concurrently.
type Agent struct {
	DID federation.DID
	Key ed25519.PrivateKey

	urls []string // URLs of the gateways of one home

	client *http.Client

	mu    sync.Mutex
	token string
	at    int // index of the last gateway that answered
}

// New returns an agent with a new key at a home. The URLs of the home's gateways are separated by
// "|".
func New(home string) (*Agent, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	return &Agent{
		DID: identity.KeyDID(public), Key: private, urls: strings.Split(home, "|"),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}},
	}, nil
}

// SigningKey returns the key for steps signed by the agent itself.
func (a *Agent) SigningKey() federation.SigningKey {
	public, _ := a.Key.Public().(ed25519.PublicKey)
	return federation.SigningKey{
		DID: a.DID, Public: public, Sign: func(_ context.Context, message []byte) ([]byte, error) { return ed25519.Sign(a.Key, message), nil },
	}
}

// URL returns the URL of the first gateway.
func (a *Agent) URL() string { return a.urls[0] }

type refusedError struct{ path, text string }

func (e *refusedError) Error() string { return e.path + ": " + e.text }

// Insist retries a request until a gateway answers it, or ctx ends. A request with a body is a POST
// with an idempotency key, so that retries count only once.
func (a *Agent) Insist(ctx context.Context, path, once string, body, answer any) error {
	var last error
	for ctx.Err() == nil {
		err := a.Call(ctx, path, once, body, answer)
		if _, refused := errors.AsType[*refusedError](err); err == nil || refused {
			return err
		}
		last = err
		a.mu.Lock()
		a.at = (a.at + 1) % len(a.urls)
		a.mu.Unlock()
		select {
		case <-time.After(RetryWait):
		case <-ctx.Done():
		}
	}
	return errors.Join(ctx.Err(), last)
}

// Call sends a request once, and logs in if the gateway requires it.
func (a *Agent) Call(ctx context.Context, path, once string, body, answer any) error {
	a.mu.Lock()
	token := a.token
	a.mu.Unlock()
	if token == "" {
		if err := a.login(ctx); err != nil {
			return err
		}
	}
	return a.send(ctx, path, once, body, answer)
}

func (a *Agent) login(ctx context.Context) error {
	var given struct{ Challenge string }
	if err := a.send(ctx, "auth/challenge", "", map[string]string{"did": string(a.DID)}, &given); err != nil {
		return err
	}
	signature := base64.RawURLEncoding.EncodeToString(ed25519.Sign(a.Key, []byte(given.Challenge)))
	var tokens struct {
		Access string `json:"access_token"`
	}
	if err := a.send(ctx, "auth/token", "", map[string]string{"did": string(a.DID), "challenge": given.Challenge, "signature": signature}, &tokens); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token = tokens.Access
	return nil
}

func (a *Agent) send(ctx context.Context, path, once string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, AskTime)
	defer cancel()
	a.mu.Lock()
	address, token := a.urls[a.at]+"/api/v1/"+path, a.token
	a.mu.Unlock()
	method, text := http.MethodGet, []byte(nil)
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if once != "" {
		request.Header.Set("Idempotency-Key", once)
	}
	response, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return a.read(response, path, answer)
}

// The error is plain for a status that a retry may change.
func (a *Agent) read(response *http.Response, path string, answer any) error {
	switch status := response.StatusCode; {
	case status == http.StatusUnauthorized:
		a.mu.Lock()
		a.token = "" // the next call logs in
		a.mu.Unlock()
		return fmt.Errorf("%s: %s", path, response.Status)
	case status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		return fmt.Errorf("%s: %s", path, response.Status)
	case status >= http.StatusBadRequest:
		var problem struct{ Code, Detail string }
		_ = json.NewDecoder(response.Body).Decode(&problem) // the status suffices
		return &refusedError{path, response.Status + " " + problem.Code + ": " + problem.Detail}
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// Handoff is a handoff as in the API.
type Handoff struct {
	ID, State string
	Steps     []struct{ Verb string }
}

// Verbs returns the verbs of the steps of a handoff.
func (h Handoff) Verbs() []string {
	var verbs []string
	for _, step := range h.Steps {
		verbs = append(verbs, step.Verb)
	}
	return verbs
}

// Handoff reads a handoff at the home of the agent.
func (a *Agent) Handoff(ctx context.Context, id string) (h Handoff, err error) {
	err = a.Insist(ctx, "handoffs/"+id, "", nil, &h)
	return h, err
}

// Hello announces the agent's mailbox with an open offer, which reaches all homes.
func (a *Agent) Hello(ctx context.Context) error {
	if err := a.Insist(ctx, "handoffs", "hello "+string(a.DID), map[string]string{"title": "hello"}, nil); err != nil {
		return fmt.Errorf("first step of the agent at %s: %w", a.URL(), err)
	}
	return nil
}

// Entry is an entry of an inbox.
type Entry struct {
	Cursor string
	Step   struct {
		EventID   string `json:"event_id"`
		HandoffID string `json:"handoff_id"`
		Title     string
		Verb      string
	}
}

// Inbox returns the inbox entries after a cursor. It waits up to two seconds for the first one.
func (a *Agent) Inbox(ctx context.Context, cursor string) (entries []Entry, next string, err error) {
	var page struct {
		Items []Entry
		Next  string `json:"next_cursor"`
	}
	err = a.Insist(ctx, "inbox?"+url.Values{"cursor": {cursor}, "wait": {"2s"}}.Encode(), "", nil, &page)
	if page.Next == "" {
		page.Next = cursor
	}
	return page.Items, page.Next, err
}

// InboxWhole returns all entries of the inbox.
func (a *Agent) InboxWhole(ctx context.Context) ([]Entry, error) {
	var all []Entry
	for cursor := ""; ; {
		entries, next, err := a.Inbox(ctx, cursor)
		if err != nil || len(entries) == 0 {
			return all, err
		}
		all, cursor = append(all, entries...), next
	}
}

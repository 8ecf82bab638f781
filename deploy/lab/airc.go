package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/baton-gateway/baton/deploy/agent"
)

// aircAgent is an agent of an AIRC registry. It proves the same key by REST, so that its home shows its
// handoffs to the audit.
type aircAgent struct {
	*agent.Agent

	handle string

	mu     sync.Mutex
	domain string
	bearer string
}

// registered is the answer to a registration.
type registered struct {
	Domain string `json:"domain"`
	Token  string `json:"accessToken"`
}

// members is a JSON object. With names in ASCII, texts without control characters and whole numbers,
// encoding/json writes it in the canonical form (RFC 8785).
type members map[string]any

// canonical returns the canonical form.
func (m members) canonical() []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(m) // it has only strings, numbers and objects
	return bytes.TrimSpace(text.Bytes())
}

// sign returns the members with a signature over all of them, as a member of a name.
func (a *aircAgent) sign(m members, name string) members {
	signed := maps.Clone(m)
	signed[name] = base64.RawURLEncoding.EncodeToString(a.Sign(m.canonical()))
	return signed
}

// register registers the handle, or logs in again with the same key.
func (a *aircAgent) register(ctx context.Context) error {
	var given struct {
		Challenge string `json:"challenge"`
		Aud       string `json:"aud"`
	}
	if err := a.ask(ctx, "register/challenge", members{"handle": a.handle}, &given); err != nil {
		return err
	}
	var answer registered
	request := members{
		"handle": a.handle, "publicKey": base64.RawURLEncoding.EncodeToString(a.Public), "challenge": given.Challenge,
		"aud": given.Aud, "purpose": "register", "timestamp": time.Now().Unix(),
	}
	if err := a.ask(ctx, "register", a.sign(request, "challengeSignature"), &answer); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.domain, a.bearer = answer.Domain, answer.Token
	return nil
}

// statusError is an answer of the registry other than 2xx.
type statusError struct {
	status int
	text   string
}

// Error implements error.
func (e *statusError) Error() string { return strconv.Itoa(e.status) + " " + e.text }

// ask sends one request: a POST if it has a body.
func (a *aircAgent) ask(ctx context.Context, path string, body members, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, agent.AskTime)
	defer cancel()
	method, text := http.MethodGet, []byte(nil)
	if body != nil {
		method, text = http.MethodPost, body.canonical()
	}
	request, err := http.NewRequestWithContext(ctx, method, a.URL()+"/"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	a.mu.Lock()
	bearer := a.bearer
	a.mu.Unlock()
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		var problem struct{ Error, Message string }
		_ = json.NewDecoder(response.Body).Decode(&problem) // the status is enough
		return &statusError{response.StatusCode, problem.Error + ": " + problem.Message}
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// askUntil sends a request until the registry answers it with success or a refusal, or ctx ends.
func (a *aircAgent) askUntil(ctx context.Context, path string, body members, answer any) error {
	var last error
	for ctx.Err() == nil {
		err := a.ask(ctx, path, body, answer)
		if err == nil {
			return nil
		}
		if refused, ok := errors.AsType[*statusError](err); ok {
			switch {
			case refused.status == http.StatusUnauthorized:
				err = errors.Join(err, a.register(ctx))
			case refused.status != http.StatusTooManyRequests && refused.status < http.StatusInternalServerError:
				return err
			}
		}
		last = err
		if err := wait(ctx, agent.RetryWait); err != nil {
			break
		}
	}
	return errors.Join(ctx.Err(), last)
}

// sent is the answer to a message that makes a step.
type sent struct {
	Handoff struct{ ID string } `json:"handoff"`
}

// send signs a message and sends it until the registry has taken it. The same bytes count once. The
// answer is empty if the registry had taken them before.
func (a *aircAgent) send(ctx context.Context, to, body, kind string, data members) (id string, answer sent, err error) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it does not fail
	id = base64.RawURLEncoding.EncodeToString(random[:])
	digest := sha256.Sum256(a.Public)
	message := a.sign(members{
		"v": "0.1", "id": id, "kid": "k_" + hex.EncodeToString(digest[:])[:16],
		"aud": a.domain, "from": a.handle, "timestamp": time.Now().Unix(), "to": to, "body": body,
		"payload": members{"type": kind, "data": data},
	}, "signature")
	err = a.askUntil(ctx, "messages", message, &answer)
	if refused, ok := errors.AsType[*statusError](err); ok && strings.Contains(refused.text, "same bytes") {
		return id, sent{}, nil
	}
	return id, answer, err
}

// aircMessage is a message in the inbox.
type aircMessage struct {
	ID      string `json:"id"`
	From    string `json:"from"`
	Payload struct {
		Data struct {
			ReplyTo string                            `json:"replyTo"`
			Handoff struct{ ID, Event, Title string } `json:"handoff"`
		} `json:"data"`
	} `json:"payload"`
}

// step returns the step that a message shows.
func (m aircMessage) step() step {
	h := m.Payload.Data.Handoff
	return step{h.ID, h.Event, h.Title}
}

// messages returns the messages after a cursor, and waits up to two seconds for one.
func (a *aircAgent) messages(ctx context.Context, cursor string) ([]aircMessage, string, error) {
	var page struct {
		Messages []aircMessage `json:"messages"`
		Next     string        `json:"nextCursor"`
	}
	err := a.askUntil(ctx, "messages/inbox?"+url.Values{"cursor": {cursor}, "wait": {"2"}}.Encode(), nil, &page)
	return page.Messages, page.Next, err
}

// allMessages reads the inbox from its start.
func (a *aircAgent) allMessages(ctx context.Context) ([]aircMessage, error) {
	var all []aircMessage
	for cursor := ""; ; {
		messages, next, err := a.messages(ctx, cursor)
		if err != nil || len(messages) == 0 {
			return all, err
		}
		all, cursor = append(all, messages...), next
	}
}

// allSteps returns the steps in the inbox.
func (a *aircAgent) allSteps(ctx context.Context) ([]step, error) {
	messages, err := a.allMessages(ctx)
	var steps []step
	for _, m := range messages {
		steps = append(steps, m.step())
	}
	return steps, err
}

// joinRegistry registers the agent and makes it known to all homes.
func (a *aircAgent) joinRegistry(ctx context.Context) error {
	if err := a.register(ctx); err != nil {
		return fmt.Errorf("register %s: %w", a.handle, err)
	}
	return a.Hello(ctx)
}

// aircOfferer makes offers by AIRC.
type aircOfferer struct {
	*aircAgent

	handles map[string]string // of DIDs; written before offers are made
	workers []worker
}

func (o *aircOfferer) name() string                              { return o.handle }
func (o *aircOfferer) inbox(ctx context.Context) ([]step, error) { return o.allSteps(ctx) }

// join registers the agent, and asks for the handles of the workers until the registry knows them. A
// registry knows an agent elsewhere once it has seen a step of it: the answer to a first offer.
func (o *aircOfferer) join(ctx context.Context) error {
	if err := o.joinRegistry(ctx); err != nil {
		return err
	}
	for _, w := range o.workers {
		if err := o.Insist(ctx, "handoffs", "first "+w.identity(), map[string]string{"to": w.identity(), "title": "first"}, nil); err != nil {
			return err
		}
		var known struct{ Handle string }
		for {
			err := o.ask(ctx, "identity/"+url.PathEscape(w.identity()), nil, &known)
			if err == nil {
				break
			}
			if waited := wait(ctx, agent.RetryWait); waited != nil {
				return fmt.Errorf("handle of %s: %w", w.name(), err)
			}
		}
		o.handles[w.identity()] = known.Handle
	}
	return nil
}

func (o *aircOfferer) offer(ctx context.Context, to, title string) (string, error) {
	id, answer, err := o.send(ctx, o.handles[to], title, "task:request", members{"description": title})
	if err != nil || answer.Handoff.ID != "" {
		return answer.Handoff.ID, err
	}
	for { // the registry took the message and its answer was lost: the accept names the handoff
		messages, err := o.allMessages(ctx)
		if err != nil {
			return "", err
		}
		for _, m := range messages {
			if data := m.Payload.Data; data.ReplyTo == id {
				return data.Handoff.ID, nil
			}
		}
		if err := wait(ctx, time.Second); err != nil {
			return "", err
		}
	}
}

// aircWorker works by AIRC.
type aircWorker struct {
	*aircAgent

	seen arrivals
}

func (w *aircWorker) name() string                                 { return w.handle }
func (w *aircWorker) identity() string                             { return w.DID }
func (w *aircWorker) join(ctx context.Context) error               { return w.joinRegistry(ctx) }
func (w *aircWorker) arrivals() *arrivals                          { return &w.seen }
func (w *aircWorker) received(ctx context.Context) ([]step, error) { return w.allSteps(ctx) }

// work reads the inbox, and accepts and completes each offer once.
func (w *aircWorker) work(ctx context.Context) {
	cursor := ""
	var steps sync.WaitGroup
	defer steps.Wait()
	for ctx.Err() == nil {
		messages, next, err := w.messages(ctx, cursor)
		if err != nil {
			continue // ctx has ended, or the cursor is read again
		}
		cursor = next
		for _, m := range messages {
			if s := m.step(); s.verb == "offer" && w.seen.record(s) {
				steps.Go(func() { w.complete(ctx, m) })
			}
		}
	}
}

// complete accepts and completes an offer.
func (w *aircWorker) complete(ctx context.Context, offer aircMessage) {
	_, _, err := w.send(ctx, offer.From, "on it", "ack", members{"replyTo": offer.ID, "status": "received"})
	if err == nil {
		_, _, err = w.send(ctx, offer.From, "done", "task:result", members{"requestId": offer.ID, "status": "completed", "result": members{"note": "done"}})
	}
	if err != nil {
		w.seen.fail(offer.step().handoff, err)
	}
}

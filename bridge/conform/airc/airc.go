// Package airc tests the behaviour that agents rely on in an AIRC registry. It needs only the
// address of the registry.
//
// The cases need a registry with open registration, and limits no lower than the usual ones.
//
//	results, err := airc.Run(ctx, airc.Config{URL: "http://127.0.0.1:8080"}, nil)
//
// spec: airc-v0.1.1 §5-§7
package airc

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/conform"
	"github.com/baton-gateway/baton/federation"
)

const patience = 30 * time.Second

// Config has the registry under test and the keys of the agents.
type Config struct {
	URL string // URL of the registry, without a path
	// Key returns the key of an agent. It is called once per agent name.
	Key func(name string) (federation.SigningKey, error)
}

// Sender is the name of the agent that writes most messages.
const Sender = "ada"

type oneCase struct {
	section, name string
	play          func(ctx context.Context, s *stage) error
}

func cases() []oneCase {
	return []oneCase{
		{"§11.1", "the registry publishes its domain and its key", publishesItself},
		{"§5", "an agent that signs the challenge is registered", registersByProof},
		{"§5", "a challenge signed by another key is refused", refusesAnotherKey},
		{"§5", "a challenge is good for one registration", refusesASpentChallenge},
		{"§5", "a handle stays with its key", keepsAHandle},
		{"§5", "a refresh token gives new tokens", refreshes},
		{"§4", "an identity has the handle and the key", showsIdentities},
		{"§4", "an unknown handle is not found", knowsNoStranger},
		{"§7", "an inbox needs a token", guardsInboxes},
		{"§8", "a first message waits for consent", waitsForConsent},
		{"§7", "a message arrives as it was signed", deliversAsSigned},
		{"§7", "reading an inbox changes nothing", readsWithoutChange},
		{"§7", "a message is delivered once", deliversOnce},
		{"§6", "a message signed by another key is refused", refusesAForgery},
		{"§6", "a changed message is refused", refusesAChange},
		{"§6", "a message for another registry is refused", refusesAnotherAudience},
		{"§6", "an old message is refused", refusesAnOldMessage},
		{"§8", "nothing arrives from a blocked sender", keepsABlockedSenderOut},
	}
}

// Run runs all cases one after the other, and returns their results. It also passes each result to
// tell, unless nil. The error is [*federation.UnavailableError] if no server answers at the
// address.
func Run(ctx context.Context, cfg Config, tell func(conform.Result)) ([]conform.Result, error) {
	at, err := url.Parse(cfg.URL)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, fmt.Errorf("%q is not an address: want http://HOST:PORT or https://HOST", cfg.URL)
	}
	s := &stage{url: strings.TrimSuffix(cfg.URL, "/"), key: cfg.Key, http: &http.Client{Timeout: patience}, agents: map[string]*agent{}}
	defer s.http.CloseIdleConnections()
	if _, err := s.ask(ctx, "", http.MethodGet, wellKnown, nil); err != nil {
		return nil, &federation.UnavailableError{What: cfg.URL, Err: err}
	}
	var all []conform.Case
	for _, c := range cases() {
		all = append(all, conform.Case{Section: "airc-v0.1.1 " + c.section, Name: c.name, Play: func(ctx context.Context) error { return c.play(ctx, s) }})
	}
	return conform.Play(ctx, all, tell)
}

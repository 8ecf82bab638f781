// Package irc tests the behaviour that IRC clients rely on in a server. It needs only the address
// of the server. Each case connects its own clients, with unique rooms and nicks.
//
// The cases are in cases.txt, each named by the section that it checks. They pass on any server
// with the capabilities that they request. Cases of logins and handoffs need a home server of the
// handoff RFC.
//
//	results, err := irc.Run(ctx, irc.Config{URL: "irc://127.0.0.1:6667"}, nil)
//
// spec: rfc1459; rfc2812; ircv3; freeq-handoff-rfc; freeq "SASL ATPROTO-CHALLENGE"
package irc

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge/conform"
	"github.com/baton-gateway/baton/federation"
)

//go:embed cases.txt
var casesText string

// DefaultPatience is the default timeout of a client for a line.
const DefaultPatience = 10 * time.Second

// Config has the server under test and the keys of the clients.
type Config struct {
	// URL is the URL of the server: irc://HOST:PORT, ircs:// with TLS, ws:// or wss:// for
	// WebSocket.
	URL string
	// Key returns the key of a client. It is called once per name in each scene.
	Key func(name string) (federation.SigningKey, error)
	// Patience is the timeout of a client for a line; 0 means [DefaultPatience].
	Patience time.Duration
}

// Run runs all cases one after the other, and returns their results. It also passes each result to
// tell, unless nil. The error is [*federation.UnavailableError] if no server answers at the
// address, and another error for an invalid address.
func Run(ctx context.Context, cfg Config, tell func(conform.Result)) ([]conform.Result, error) {
	if cfg.Patience == 0 {
		cfg.Patience = DefaultPatience
	}
	dial, err := dialler(cfg.URL)
	if err != nil {
		return nil, err
	}
	first, err := dial(ctx)
	if err != nil {
		return nil, &federation.UnavailableError{What: cfg.URL, Err: err}
	}
	_ = first.close() // it only checked for a server
	claimed, err := claimsOf(ctx, cfg, dial)
	if err != nil {
		return nil, err
	}
	return conform.Run(ctx, casesText, func(ctx context.Context, lines []string) error { return play(ctx, cfg, dial, claimed, lines) }, tell)
}

// play plays one scene. Each line is the name of a client, a word, and its argument. The error is a
// [*conform.UnclaimedError] for a scene with unclaimed features.
func play(ctx context.Context, cfg Config, dial dial, claimed claims, lines []string) error {
	if err := claimed.claimed(lines); err != nil {
		return err
	}
	s, err := newStage(cfg, dial, claimed)
	if err != nil {
		return err
	}
	defer s.clear()
	for _, line := range lines {
		name, rest, _ := strings.Cut(line, " ")
		if name == "needs" {
			continue
		}
		word, text, _ := strings.Cut(rest, " ")
		act, known := map[string]act{
			">":       (*stage).send,
			"<":       (*stage).expect,
			"<any":    (*stage).expectAll,
			"!":       (*stage).refute,
			"joins":   (*stage).register,
			"proves":  (*stage).prove,
			"offers":  (*stage).makeOffer,
			"steps":   (*stage).takeStep,
			"answers": (*stage).answer,
			"leaves":  (*stage).quit,
		}[word]
		if !known {
			return fmt.Errorf("%q is no line of a scene", line)
		}
		p, err := s.actor(ctx, name)
		if err == nil {
			err = act(s, ctx, p, s.fill(text))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	return nil
}

var errNoMatch = errors.New("nothing like it is heard")

var errEnded = errors.New("the connection ended")

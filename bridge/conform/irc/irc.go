// Package irc tests the behaviour of a server for IRC clients that its clients rely on. It needs only
// the address of the server: each case connects clients of its own, sends messages and checks the
// received ones, in rooms and under nicks that no other client has.
//
// The cases are in cases.txt, each named by the section that it checks. They pass on
// any server that offers the capabilities which they ask for; cases of logins and
// handoffs want a home server of the handoff RFC.
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

// DefaultPatience is the default time that a client waits for a line.
const DefaultPatience = 10 * time.Second

// Config has the server under test and the keys of the clients.
type Config struct {
	// URL is the URL of the server: irc://HOST:PORT, ircs:// with TLS, ws:// or wss:// for
	// WebSocket.
	URL string
	// Key returns the key of a client of a scene. It is called once for each name in each scene.
	Key func(name string) (federation.SigningKey, error)
	// Patience is the time that a client waits for a line; 0 for [DefaultPatience].
	Patience time.Duration
}

// Run runs all cases one after the other and returns their results. It also passes each result to
// tell unless tell is nil. Its error is [*federation.UnavailableError] if no server answers at the
// address, and any other one if the address is invalid.
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
	_ = first.close() // it was to see whether a server is there
	claimed, err := claimsOf(ctx, cfg, dial)
	if err != nil {
		return nil, err
	}
	return conform.Run(ctx, casesText, func(ctx context.Context, lines []string) error { return play(ctx, cfg, dial, claimed, lines) }, tell)
}

// play plays one scene. Each line is the name of a client, a word, and its argument. It
// returns a [*conform.UnclaimedError] for a scene that needs features the server does not
// claim.
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

// errNoMatch is returned if an expected line did not arrive.
var errNoMatch = errors.New("nothing like it is heard")

// errEnded is returned for a connection that the server closed.
var errEnded = errors.New("the connection ended")

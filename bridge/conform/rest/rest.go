// Package rest tests the behaviour that callers of the REST API rely on in a gateway. It needs only
// the address of the gateway.
//
// The cases are in cases.txt, each named by the section that it checks. They need a gateway on
// which each caller can prove a DID, with limits no lower than the defaults.
//
//	results, err := rest.Run(ctx, rest.Config{URL: "http://127.0.0.1:8080", Key: key}, nil)
//
// spec: freeq-handoff-rfc; RFC 9110; RFC 9457
package rest

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"time"

	"github.com/baton-gateway/baton/bridge/conform"
	"github.com/baton-gateway/baton/federation"
)

//go:embed cases.txt
var casesText string

// Offerer is the name of the caller that makes most offers.
const Offerer = "eliza"

const stranger = "stranger"

const patience = 30 * time.Second

// Config has the gateway under test and the keys of the callers.
type Config struct {
	URL string // URL of the gateway, without a path
	// Key returns the key of a caller. It is called once per name.
	Key func(name string) (federation.SigningKey, error)
}

// Run runs all cases one after the other, and returns their results. It also passes each result to
// tell, unless nil. The error is [*federation.UnavailableError] if no server answers at the
// address.
func Run(ctx context.Context, cfg Config, tell func(conform.Result)) ([]conform.Result, error) {
	cast, err := newCast(cfg)
	if err != nil {
		return nil, err
	}
	defer cast.http.CloseIdleConnections()
	if _, err := cast.send(ctx, stranger, http.MethodGet, "/inbox", nil, ""); err != nil {
		return nil, &federation.UnavailableError{What: cfg.URL, Err: err}
	}
	return conform.Run(ctx, casesText, cast.play, tell)
}

func (c *cast) play(ctx context.Context, lines []string) error {
	for i := 0; i+1 < len(lines); i += 2 {
		got, err := c.ask(ctx, lines[i])
		if err == nil {
			err = c.expect(got, lines[i+1])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", lines[i], err)
		}
	}
	return nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"baton/federation"
)

// healthcheck tells whether the gateway is ready.
type healthcheck struct {
	Peers bool `help:"Check the links to other homes too. Leave it out for a container: their operators start and stop them."`
}

// Help has one example.
func (healthcheck) Help() string {
	return "Example:\n\n\tbaton healthcheck --gateway http://127.0.0.1:8081"
}

// Run ends well when the gateway is ready, and as unavailable with the reasons when
// it is not.
func (cmd healthcheck) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	ready, err := gateway.readiness(ctx, cmd.Peers)
	switch {
	case err != nil:
		return err
	case !ready.Ready:
		return &federation.UnavailableError{What: "gateway", Err: errors.New(strings.Join(ready.Reasons, "; "))}
	case c.JSON:
		return printJSON(streams, ready)
	}
	_, err = fmt.Fprintln(streams.out, "ready")
	return err
}

// readiness reads /readyz, which answers with a body either way.
func (c *client) readiness(ctx context.Context, peers bool) (readiness, error) {
	var ready readiness
	query := url.Values{}
	if peers {
		query.Set(peersParameter, "true")
	}
	address, err := federation.JoinURL(c.base, "/readyz", query)
	if err != nil {
		return ready, fmt.Errorf("ask gateway: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return ready, fmt.Errorf("ask gateway: %w", err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return ready, &federation.UnavailableError{What: "gateway", Err: dialled(err)}
	}
	defer response.Body.Close()
	if err := json.NewDecoder(http.MaxBytesReader(nil, response.Body, maxAnswerBytes)).Decode(&ready); err != nil {
		return ready, &federation.UnavailableError{What: "gateway", Err: fmt.Errorf("it answers %s", response.Status)}
	}
	return ready, nil
}

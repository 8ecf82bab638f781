package server

import (
	"context"
	"errors"
	"net/http"

	"baton/bridge/webhook"
	"baton/federation/identity"
)

// newHooks returns what posts to the addresses of agents, or nil where the configuration
// has no webhooks.
func (s *Server) newHooks() *webhook.Hooks {
	if !s.file.Webhooks.Enabled {
		return nil
	}
	return webhook.New(webhook.Config{
		MaxPerDID: s.file.Webhooks.MaxPerDID, MaxAttempts: s.file.Webhooks.MaxAttempts, Timeout: s.file.Fetch.Timeout,
	}, webhook.Deps{
		Record: s.Record, Outside: outside{s.client}, Key: s.keyring.Token(), Pushers: s.Gateway.Links(),
		Wakes: s.relay, Metrics: s.counters, Log: s.log,
	})
}

// outside calls strangers through the guarded client.
type outside struct{ client *identity.Client }

var _ webhook.Outside = outside{}

// Callable implements [webhook.Outside].
func (o outside) Callable(ctx context.Context, address string) error {
	return inWebhook(o.client.Callable(ctx, address))
}

// Call implements [webhook.Outside].
func (o outside) Call(ctx context.Context, address string, header http.Header, body []byte) (webhook.Answer, error) {
	answer, err := o.client.Call(ctx, address, header, body)
	return webhook.Answer{Status: answer.Status, RetryAfter: answer.RetryAfter}, inWebhook(err)
}

// inWebhook translates why an address is not called into the errors of package webhook.
func inWebhook(err error) error {
	switch {
	case errors.Is(err, identity.ErrNotAllowed):
		return errors.Join(webhook.ErrAddress, err)
	case errors.Is(err, identity.ErrTurn):
		return errors.Join(webhook.ErrTurn, err)
	}
	return err
}

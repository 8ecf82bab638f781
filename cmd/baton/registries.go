package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"baton/bridge/airc"
	"baton/federation"
	"baton/federation/identity"
)

// registries asks other AIRC registries through the guarded client.
type registries struct{ client *identity.Client }

var _ airc.Fetcher = registries{}

// Get implements [airc.Fetcher].
func (r registries) Get(ctx context.Context, address string) ([]byte, error) {
	text, err := r.client.Get(ctx, address)
	return text, inAIRC(err)
}

// Post implements [airc.Fetcher].
func (r registries) Post(ctx context.Context, address string, body []byte) (airc.Reply, error) {
	answer, err := r.client.Post(ctx, address, body)
	return airc.Reply{Status: answer.Status, Body: answer.Body, RetryAfter: answer.RetryAfter}, inAIRC(err)
}

// inAIRC says in the words of package airc what is wrong with an answer.
func inAIRC(err error) error {
	switch {
	case errors.Is(err, identity.ErrTooLarge):
		return errors.Join(airc.ErrTooLarge, err)
	case errors.Is(err, identity.ErrNotAllowed):
		return errors.Join(airc.ErrElsewhere, err)
	}
	return err
}

// TXT implements [airc.Fetcher]. A name without texts is no error.
func (r registries) TXT(ctx context.Context, name string) ([]string, error) {
	texts, err := net.DefaultResolver.LookupTXT(ctx, name)
	if missing, ok := errors.AsType[*net.DNSError](err); ok && missing.IsNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, &federation.UnavailableError{What: "DNS of " + name, Err: fmt.Errorf("look up texts: %w", err)}
	}
	return texts, nil
}

// registryNames implements [gateway.Registry].
type registryNames struct{ p *program }

// Domains implements [gateway.Registry].
func (r registryNames) Domains() []string {
	domains := []string{r.p.file.Home.Name}
	for _, o := range r.p.gateway.Links().Entries() {
		if registry, ok := o.Link.(*airc.Link); ok {
			domains = append(domains, registry.Domain())
		}
	}
	return domains
}

// Handle implements [gateway.Registry].
func (registryNames) Handle(did federation.DID) string { return airc.Handle(did) }

// Alias implements [gateway.Registry].
func (registryNames) Alias(did federation.DID, first string) string { return airc.Alias(did, first) }

// Unverified implements [gateway.Registry].
func (registryNames) Unverified(handle string) string { return airc.Unverified(handle) }

package identity_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
	"github.com/baton-gateway/baton/federation/identity"
)

type panics struct{ left int }

func (p *panics) Get(context.Context, string) ([]byte, error) {
	if p.left--; p.left >= 0 {
		panic("injected")
	}
	return []byte(`{"id":"did:web:ada.example","verificationMethod":[]}`), nil
}

// The look-up of a DID runs in a goroutine shared by its callers.
func TestResolveContainsAFaultOfTheLookUp(t *testing.T) {
	t.Parallel()
	var caught error
	directory := identity.NewDirectory(identity.DirectoryConfig{
		Fresh: time.Hour, Negative: time.Minute, Stale: time.Hour, Caught: func(_ context.Context, err error) { caught = err },
	}, &panics{left: 1})
	now := time.Now()
	_, err := directory.Resolve(t.Context(), "did:web:ada.example", now)
	if _, away := errors.AsType[*federation.UnavailableError](err); !away || fault.Of(caught) == nil {
		t.Errorf("Resolve returns %v, and Caught was called with %v", err, caught)
	}
	if _, err := directory.Resolve(t.Context(), "did:web:ada.example", now.Add(time.Minute)); err != nil {
		t.Errorf("later Resolve returns %v", err)
	}
}

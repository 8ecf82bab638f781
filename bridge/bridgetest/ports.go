package bridgetest

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

// Ports returns ports that every link can be opened with: a gateway of the home gw.example with its
// own metrics, and without a log, limits, stored data or names. A test replaces the ports under
// test.
func Ports(gateway bridge.Gateway) bridge.Ports {
	return bridge.Ports{
		Home: "gw.example", PublicURL: "https://gw.example", Metrics: bridge.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
		Gateway: gateway, Signer: Signer(SeededKey), Bindings: Bindings{}, Evidence: Contexts(nil, 0, 0), Keys: Keys{}, Limits: bridge.Limits{},
		Secrets: Secrets{}, PubSub: NoWakes{},
		Resolve: func(_ context.Context, text string) (bridge.Recipient, error) { // knows no names
			did, err := federation.ParseDID(text)
			if err != nil {
				err = &bridge.ProblemError{Status: http.StatusNotFound, Code: bridge.CodeUnknownName, Detail: "no participant called " + text + " is known here"}
			}
			return bridge.Recipient{DID: did}, err
		},
	}
}

// Signer implements [bridge.Signer] with the function [bridge.Signer.Kept]. The home signs with the
// key of the name "server".
type Signer func(name string) federation.SigningKey

// Own implements [bridge.Signer].
func (s Signer) Own() federation.SigningKey { return s("server") }

// Kept implements [bridge.Signer].
func (s Signer) Kept(name string) federation.SigningKey { return s(name) }

// SeededKey returns the key of a name. It is deterministic.
func SeededKey(name string) federation.SigningKey {
	seed := sha256.Sum256([]byte(name))
	key := ed25519.NewKeyFromSeed(seed[:])
	public, _ := key.Public().(ed25519.PublicKey)
	return federation.SigningKey{
		Public: public, DID: identity.KeyDID(public),
		Sign: func(_ context.Context, message []byte) ([]byte, error) { return ed25519.Sign(key, message), nil },
	}
}

// Bindings implements [bridge.Bindings] with entries of a test.
type Bindings struct {
	Names   []federation.BoundName
	Links   map[federation.DID]string // place of each DID's last signature
	Handles map[string]federation.DID
	Err     error
}

// Bound implements [bridge.Bindings].
func (b Bindings) Bound(_ context.Context, network, name string) (federation.BoundName, error) {
	i := slices.IndexFunc(b.Names, func(n federation.BoundName) bool { return n.Network == network && n.Name == name })
	if i < 0 || b.Err != nil {
		return federation.BoundName{}, b.orNotFound()
	}
	return b.Names[i], nil
}

// Of implements [bridge.Bindings].
func (b Bindings) Of(_ context.Context, did federation.DID) ([]federation.BoundName, error) {
	return slices.DeleteFunc(slices.Clone(b.Names), func(n federation.BoundName) bool { return n.DID != did }), b.Err
}

// Seen implements [bridge.Bindings].
func (b Bindings) Seen(_ context.Context, did federation.DID) (federation.Binding, error) {
	link, known := b.Links[did]
	if !known || b.Err != nil {
		return federation.Binding{}, b.orNotFound()
	}
	return federation.Binding{DID: did, Link: link}, nil
}

// Participant implements [bridge.Bindings].
func (b Bindings) Participant(_ context.Context, handle string) (federation.DID, error) {
	did, known := b.Handles[handle]
	if !known || b.Err != nil {
		return "", b.orNotFound()
	}
	return did, nil
}

func (b Bindings) orNotFound() error {
	if b.Err != nil {
		return b.Err
	}
	return federation.ErrNotFound
}

// Keys implements [bridge.Keys] with functions of a test. The zero Keys proves nothing, learns
// every key and has no revoked key.
type Keys struct {
	Prove  func(ctx context.Context, did federation.DID, message, signature []byte) (federation.PublicKey, federation.Verdict, error)
	Report func(ctx context.Context, report federation.KeyReport) error
	Revoke func(ctx context.Context, did federation.DID, keyID string, at time.Time) (bool, error)
}

// Proved implements [bridge.Keys].
func (k Keys) Proved(ctx context.Context, did federation.DID, message, signature []byte) (federation.PublicKey, federation.Verdict, error) {
	if k.Prove == nil {
		return federation.PublicKey{}, federation.Invalid, nil
	}
	return k.Prove(ctx, did, message, signature)
}

// Learn implements [bridge.Keys].
func (k Keys) Learn(ctx context.Context, report federation.KeyReport) error {
	if k.Report == nil {
		return nil
	}
	return k.Report(ctx, report)
}

// Revoked implements [bridge.Keys].
func (k Keys) Revoked(ctx context.Context, did federation.DID, keyID string, at time.Time) (bool, error) {
	if k.Revoke == nil {
		return false, nil
	}
	return k.Revoke(ctx, did, keyID, at)
}

// Secrets implements [bridge.Secrets] by file name.
type Secrets map[string]string

// Secret implements [bridge.Secrets].
func (s Secrets) Secret(file string) (string, error) {
	if secret, ok := s[file]; ok {
		return secret, nil
	}
	return "", errors.New("no such file")
}

// NoWakes implements [bridge.PubSub]. It loses every wake-up.
type NoWakes struct{}

// Wake implements [bridge.PubSub].
func (NoWakes) Wake(...string) {}

// Subscribe implements [bridge.PubSub].
func (NoWakes) Subscribe(string) (wake <-chan struct{}, stop func()) {
	return make(chan struct{}), func() {}
}

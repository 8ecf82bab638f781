package identity

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// SignerTimeout bounds one call of a signer.
const SignerTimeout = 5 * time.Second

// The limit for quoting a signer's error message, in bytes.
const maxComplaint = 200

// Signer is a command that keeps the keys of the gateway and the registry: a program and its first
// arguments. Its next argument is a key name. It signs stdin and writes the 64-byte signature to
// stdout. With --public after the name, it writes the public key in base64url.
type Signer []string

// Public returns the public part of a key.
func (s Signer) Public(ctx context.Context, name KeyName) (ed25519.PublicKey, error) {
	answer, err := s.run(ctx, nil, string(name), "--public")
	if err != nil {
		return nil, err
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(strings.TrimSpace(string(answer)))
	if err != nil {
		return nil, fmt.Errorf("signer %s: want a public key of 32 bytes in base64url without padding", s[0])
	}
	public, err := federation.ParsePublicKey(raw)
	if err != nil {
		return nil, fmt.Errorf("signer %s: want a public key of 32 bytes: %w", s[0], err)
	}
	return public, nil
}

func (s Signer) key(ctx context.Context, name KeyName) (federation.SigningKey, error) {
	public, err := s.Public(ctx, name)
	if err != nil {
		return federation.SigningKey{}, err
	}
	return federation.SigningKey{Public: public, DID: KeyDID(public), Sign: func(ctx context.Context, message []byte) ([]byte, error) {
		sig, err := s.run(ctx, message, string(name))
		if err == nil && (len(sig) != ed25519.SignatureSize || !ed25519.Verify(public, message, sig)) {
			err = errors.New("its answer is not a signature by its key")
		}
		if err != nil {
			return nil, &federation.UnavailableError{What: "signer of key " + string(name), Err: err}
		}
		return sig, nil
	}}, nil
}

func (s Signer) run(ctx context.Context, input []byte, arguments ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, SignerTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, s[0], slices.Concat(s[1:], arguments)...) //nolint:gosec // G204: the operator names it in the configuration
	command.WaitDelay = time.Second                                               // for a child of its own that keeps stdout open
	command.Stdin = bytes.NewReader(input)
	var stdout, stderr brief
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		if complaint, _, _ := strings.Cut(strings.TrimSpace(string(stderr)), "\n"); complaint != "" {
			err = fmt.Errorf("%w: %s", err, complaint)
		}
		return nil, fmt.Errorf("signer %s: %w", s[0], err)
	}
	return stdout, nil
}

// A brief keeps enough bytes for a signature, or a key in base64url.
type brief []byte

func (b *brief) Write(p []byte) (int, error) {
	*b = append(*b, p[:min(len(p), maxComplaint-len(*b))]...)
	return len(p), nil
}

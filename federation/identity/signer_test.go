package identity_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

// signerSays tells the test binary, when it runs as a signer, how to behave.
const signerSays = "BATON_TEST_SIGNER"

// TestSignerProgram is no test: the tests below call it as their signer.
func TestSignerProgram(*testing.T) {
	says := os.Getenv(signerSays)
	if says == "" {
		return
	}
	arguments := os.Args[slices.Index(os.Args, "--")+1:]
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{arguments[0][0]}, ed25519.SeedSize))
	switch public := len(arguments) == 2 && arguments[1] == "--public"; {
	case says == "away":
		fmt.Fprintln(os.Stderr, "the token is not plugged in")
		os.Exit(1)
	case says == "hang" && !public:
		select {}
	case public && says == "short":
		fmt.Println("AAAA")
	case public:
		fmt.Println(base64.RawURLEncoding.EncodeToString(private.Public().(ed25519.PublicKey)))
	case says == "wrong":
		os.Stdout.Write(make([]byte, ed25519.SignatureSize))
	case says == "flood":
		io.Copy(os.Stdout, io.LimitReader(zeros{}, 1<<20))
	default:
		message, _ := io.ReadAll(os.Stdin)
		os.Stdout.Write(ed25519.Sign(private, message))
	}
	os.Exit(0)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func signer(t *testing.T, says string) identity.Signer {
	t.Helper()
	t.Setenv(signerSays, says)
	t.Setenv("GORACE", "atexit_sleep_ms=0") // with the race detector each call would take a second more
	return identity.Signer{os.Args[0], "-test.run=^TestSignerProgram$", "--"}
}

func TestSignerSignsAsServerAndRegistry(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	keys, err := identity.OpenSignerKeyring(t.Context(), dir, signer(t, "well"))
	if err != nil {
		t.Fatal(err)
	}
	message := bytes.Repeat([]byte("a step\x00"), 1000)
	for name, key := range map[string]federation.SigningKey{"server": keys.Server("gw.example"), "registry": keys.Registry()} {
		private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{name[0]}, ed25519.SeedSize))
		if !key.Public.Equal(private.Public()) {
			t.Errorf("%s is another key", name)
		}
		if sig, err := key.Sign(t.Context(), message); err != nil || !bytes.Equal(sig, ed25519.Sign(private, message)) {
			t.Errorf("%s signs %x: %v", name, sig, err)
		}
	}
	if keys.Kept("scout").DID == "" || len(keys.Token()) != 32 {
		t.Error("the kept keys are not there")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("files %v (%v), want kept and token", entries, err)
	}
	if _, err := keys.Rotate(identity.ServerKey, time.Hour, noon()); !errors.Is(err, identity.ErrNotRotated) {
		t.Errorf("rotated: %v", err)
	}
}

func TestSignerReturnsUnavailableWhileAway(t *testing.T) {
	for says, want := range map[string]string{
		"away":  "the token is not plugged in",
		"wrong": "not a signature by its key",
		"flood": "not a signature by its key",
	} {
		t.Run(says, func(t *testing.T) {
			keys, err := identity.OpenSignerKeyring(t.Context(), filepath.Join(t.TempDir(), "keys"), signer(t, "well"))
			if err != nil {
				t.Fatal(err)
			}
			t.Setenv(signerSays, says)
			_, err = keys.Registry().Sign(t.Context(), []byte("x"))
			if _, away := errors.AsType[*federation.UnavailableError](err); !away || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want unavailable: %s", err, want)
			}
		})
	}
}

func TestSignerIsStoppedIfItHangs(t *testing.T) {
	keys, err := identity.OpenSignerKeyring(t.Context(), filepath.Join(t.TempDir(), "keys"), signer(t, "hang"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := keys.Registry().Sign(ctx, []byte("x"))
		done <- err
	}()
	cancel()
	if err := <-done; err == nil {
		t.Error("it signed")
	}
}

func TestSignerMustStart(t *testing.T) {
	for says, want := range map[string]string{"away": "open key server", "short": "want a public key"} {
		if _, err := identity.OpenSignerKeyring(t.Context(), filepath.Join(t.TempDir(), "keys"), signer(t, says)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", says, err, want)
		}
	}
	none := identity.Signer{filepath.Join(t.TempDir(), "none")}
	if _, err := identity.OpenSignerKeyring(t.Context(), filepath.Join(t.TempDir(), "keys"), none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no program: %v", err)
	}
}

package irc_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/baton-gateway/baton/bridge/conform"
	"github.com/baton-gateway/baton/bridge/conform/irc"
	"github.com/baton-gateway/baton/federation"
)

// key makes a key whose DID no test looks at.
func key(name string) (federation.SigningKey, error) {
	public, private, err := ed25519.GenerateKey(nil)
	return federation.SigningKey{
		Public: public, DID: federation.DID("did:web:" + name + ".example"),
		Sign: func(_ context.Context, message []byte) ([]byte, error) { return ed25519.Sign(private, message), nil },
	}, err
}

func TestSuiteFailsAServerThatHangsUp(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	told := 0
	results, err := irc.Run(t.Context(), irc.Config{URL: "irc://" + listener.Addr().String(), Key: key}, func(conform.Result) { told++ })
	if err != nil || len(results) < 30 || told != len(results) {
		t.Fatalf("%d results, %d told: %v", len(results), told, err)
	}
	for _, r := range results {
		if r.Err == nil || r.Section == "" || r.Case == "" {
			t.Errorf("%+v", r)
		}
	}
}

func TestSuiteReturnsUnavailableWithoutServer(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	_, err = irc.Run(t.Context(), irc.Config{URL: "irc://" + listener.Addr().String(), Key: key}, nil)
	if _, away := errors.AsType[*federation.UnavailableError](err); !away {
		t.Errorf("error %v", err)
	}
}

func TestSuiteRefusesInvalidAddresses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "127.0.0.1:6667", "https://irc.example", "irc:"} {
		if _, err := irc.Run(t.Context(), irc.Config{URL: address, Key: key}, nil); err == nil {
			t.Errorf("%q is taken", address)
		}
	}
}

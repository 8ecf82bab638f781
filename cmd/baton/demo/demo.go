// Package demo shows the main function of a gateway with only its program: an IRC server links to
// it and an AIRC agent calls it over HTTP. A person offers work on IRC while the agent is offline.
// The agent answers later, and then makes an offer itself.
//
// The server and the agent are written for this program, from the specifications, and share no code
// with the gateway.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/baton-gateway/baton/cmd/baton/aircagent"
	"github.com/baton-gateway/baton/federation"
)

const (
	home    = "gw.demo.example"
	link    = "demo"
	channel = "#demo"
	person  = "alice"
	agent   = "scout"
)

// patience is the timeout for the start of the gateway, and then for the script. Both take less
// than a second.
const patience = 30 * time.Second

// Gateway is a running gateway, as seen by the demonstration. Each method may be called at any time
// and does not block.
type Gateway interface {
	// Ready reports whether all listeners and links are up.
	Ready(ctx context.Context) bool
	// URL is the address of the AIRC registry.
	URL() string
	// Keys finds the keys that signed steps.
	Keys() federation.KeySource
	// Log yields the filed steps of a handoff after a version, oldest first; 0 selects all.
	Log(ctx context.Context, id federation.HandoffID, after federation.Version) iter.Seq2[federation.Entry, error]
	Replay(ctx context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error)
	Outbox(ctx context.Context, link string, after federation.Delivery, limit int) ([]federation.Delivery, error)
	Close() error
}

// Stage is a gateway between an IRC server and an agent.
type Stage struct {
	ircd    *ircd
	gateway Gateway
	agent   *aircagent.Agent
	alice   federation.SigningKey // of the person on IRC
}

// Open starts an IRC server and, with open, a gateway that links to it; path is its configuration
// file. All files are in the folder dir. The caller closes the stage.
func Open(ctx context.Context, dir string, open func(ctx context.Context, path string) (Gateway, error)) (*Stage, error) {
	secret := rand.Text()
	server, err := listenIRCd(ctx, secret)
	if err != nil {
		return nil, err
	}
	s := &Stage{ircd: server}
	path := filepath.Join(dir, "baton.toml")
	if err := configure(dir, path, secret, server.addr()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if s.gateway, err = open(ctx, path); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func configure(dir, path, secret, address string) error {
	const secretFile = "demo.secret"
	return errors.Join(
		os.WriteFile(filepath.Join(dir, secretFile), []byte(secret), 0o600),
		os.WriteFile(path, fmt.Appendf(nil, `[home]
name = %q
data_dir = "."
[http]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[agents]
open_registration = true # the listener is on this machine
[log]
level = "warn"
[[irc.spanningtree]]
name = %q
server_name = %q
address = %q
sid = "9GW"
send_password_file = %[5]q
recv_password_file = %[5]q
plaintext_passwords = true # to a server in the same process
channels = [%[6]q]
`, home, link, ircdName, address, secretFile, channel), 0o600))
}

func (s *Stage) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return poll(ctx, "gateway to be ready", func() (bool, error) { return s.gateway.Ready(ctx), nil })
}

// ServerAddr returns the address at which the IRC server accepts links.
func (s *Stage) ServerAddr() string { return s.ircd.addr() }

// Play runs the script and prints a line for each step to out.
func (s *Stage) Play(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.play(ctx, &timeline{out: out})
}

// Close ends the gateway and the IRC server, and waits for both.
func (s *Stage) Close() error {
	var err error
	if s.gateway != nil {
		err = s.gateway.Close()
	}
	s.ircd.close()
	return err
}

func poll(ctx context.Context, what string, done func() (bool, error)) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return &federation.UnavailableError{What: what, Err: context.Cause(ctx)}
		}
	}
}

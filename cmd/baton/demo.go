package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"baton/bridge/bridgetest"
	"baton/configs"
	"baton/federation"
)

// What the demonstration is made of.
const (
	demoHome    = "gw.demo.example"
	demoLink    = "demo"
	demoChannel = "#demo"
	demoPerson  = "alice"
	demoAgent   = "scout"
)

// demoTimeout bounds the demonstration: all of it takes a second, and one that
// hangs should say so while somebody is still looking.
const demoTimeout = 30 * time.Second

// demoCommand shows the gateway's main job with nothing installed but itself: a
// gateway on defaults and free loopback ports, an IRC server that links to it, and
// an AIRC agent over HTTP.
type demoCommand struct {
	Smoke bool   `help:"End by itself, with 0 when all of it worked, else 1."`
	Keep  string `help:"Keep the gateway's data in this folder." placeholder:"DIR"`
}

// Help has one example.
func (demoCommand) Help() string { return "Example:\n\n\tbaton demo --smoke" }

// Run shows one handoff, and without --smoke stays until ctx ends.
func (cmd demoCommand) Run(ctx context.Context, c *cli, streams std) (err error) {
	dir, err := cmd.folder()
	if err != nil {
		return err
	}
	if cmd.Keep == "" {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	var level slog.LevelVar
	settings := c.logSettings(configs.Log{Level: "warn", Format: "text"})
	level.Set(settings.SlogLevel())
	stage, err := openStage(ctx, dir, newLog(streams.err, settings.Format, &level))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.close()) }()
	if err := stage.play(ctx, &timeline{out: streams.out}); err != nil {
		return err
	}
	if cmd.Smoke {
		return nil
	}
	fmt.Fprintf(streams.out, "\nAIRC at %s, operators at http://%s, server links at %s; ^C ends it.\n",
		stage.program.publicURL, stage.program.admin.Addr(), stage.ircd.Addr())
	<-ctx.Done()
	return nil
}

func (cmd demoCommand) folder() (string, error) {
	if cmd.Keep == "" {
		return os.MkdirTemp("", "baton-demo-")
	}
	if err := os.MkdirAll(cmd.Keep, 0o700); err != nil {
		return "", fmt.Errorf("keep data: %w", err)
	}
	return filepath.Abs(cmd.Keep)
}

// stage is a running gateway with a peer on each side.
type stage struct {
	ircd    *bridgetest.IRCd
	program *program
	agent   *bridgetest.Agent
	cursor  string                // of the agent's inbox
	alice   federation.SigningKey // of the person on IRC
	stop    context.CancelFunc
	running sync.WaitGroup
	ended   error // of the gateway; read after running
}

// openStage starts the IRC server and a gateway that links to it.
func openStage(ctx context.Context, dir string, log *slog.Logger) (*stage, error) {
	ctx, stop := context.WithCancel(ctx)
	s := &stage{stop: stop}
	secret := rand.Text()
	ircd, err := bridgetest.ListenIRCd(ctx, bridgetest.IRCdConfig{
		Name: "irc.demo.example", SID: "1DE", LinkName: demoHome, SendPassword: secret, RecvPassword: secret,
		Users: []string{demoPerson}, Channels: []string{demoChannel},
	})
	if err != nil {
		stop()
		return nil, err
	}
	s.ircd = ircd
	if err := s.openGateway(ctx, dir, secret, log); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stage) openGateway(ctx context.Context, dir, secret string, log *slog.Logger) error {
	const secretFile = "demo.secret"
	if err := os.WriteFile(filepath.Join(dir, secretFile), []byte(secret), 0o600); err != nil {
		return fmt.Errorf("write secret: %w", err)
	}
	file, err := configs.Parse(filepath.Join(dir, "baton.toml"), fmt.Sprintf(`
[home]
name = %q
data_dir = "."
[http]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[[irc.spanningtree]]
name = %q
server_name = "irc.demo.example"
address = %q
sid = "9GW"
send_password_file = %q
recv_password_file = %q
channels = [%q]
`, demoHome, demoLink, s.ircd.Addr(), secretFile, secretFile, demoChannel))
	if err != nil {
		return err
	}
	if s.program, err = assemble(ctx, file, log); err != nil {
		return err
	}
	s.running.Go(func() { s.ended = s.program.run(ctx) })
	return s.awaitReady(ctx)
}

func (s *stage) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	return poll(ctx, "gateway to be ready", func() (bool, error) {
		answer := s.program.readiness(ctx)
		return answer.Ready, nil
	})
}

// close ends everything that openStage started, and waits for it.
func (s *stage) close() error {
	s.stop()
	s.running.Wait()
	s.ircd.Close()
	err := s.ended
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	if s.program != nil {
		err = errors.Join(err, s.program.close())
	}
	return errors.Join(err, s.ircd.Err())
}

// poll asks until the answer is yes. What the demonstration waits for, it waits
// for as an outsider: by looking.
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

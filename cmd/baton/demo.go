package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/cmd/baton/demo"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
)

type demoCommand struct {
	Smoke bool   `help:"Exit after the handoff: with 0 if all of it worked, otherwise with 1."`
	Keep  string `help:"Keep the gateway's data in this folder." placeholder:"DIR"`
}

// Run shows one handoff. Without --smoke, it then keeps running until ctx ends.
func (cmd demoCommand) Run(ctx context.Context, c *cli, streams std) (err error) {
	dir, err := cmd.folder()
	if err != nil {
		return err
	}
	if cmd.Keep == "" {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	var gateway *demoGateway
	stage, err := demo.Open(ctx, dir, func(ctx context.Context, path string) (demo.Gateway, error) {
		var err error
		if gateway, err = openDemoGateway(ctx, c, path, streams.err); err != nil {
			return nil, err
		}
		return gateway, nil
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	if err := stage.Play(ctx, streams.out); err != nil {
		return err
	}
	if cmd.Smoke {
		return nil
	}
	fmt.Fprintf(streams.out, "\nAIRC at %s, operators at http://%s, server links at %s; ^C ends it.\n",
		gateway.URL(), gateway.AdminAddr(), stage.ServerAddr())
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

type demoGateway struct {
	*server.Server
	stop    context.CancelFunc
	running sync.WaitGroup
	ended   error // read after running
}

func openDemoGateway(ctx context.Context, c *cli, path string, logs io.Writer) (*demoGateway, error) {
	file, err := configs.Load(path)
	if err != nil {
		return nil, err
	}
	var level slog.LevelVar
	settings := c.logSettings(file.Log)
	level.Set(settings.SlogLevel())
	v := buildVersion()
	opened, err := server.Open(ctx, file, server.Options{
		Networks: networks, Version: v.Version, Revision: v.Revision,
		Log: slog.New(settings.Handler(logs, &level, federation.MaskCapabilities)),
	})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	if err := opened.Start(ctx); err != nil {
		stop()
		return nil, errors.Join(err, opened.Close())
	}
	g := &demoGateway{Server: opened, stop: stop}
	g.running.Go(func() { g.ended = opened.Serve(ctx) })
	return g, nil
}

// Log reads the record. It implements [demo.Gateway], as do the other methods.
func (g *demoGateway) Log(ctx context.Context, id federation.HandoffID, after federation.Version) iter.Seq2[federation.Entry, error] {
	return g.Record.Log(ctx, id, after)
}

// Replay reads the record.
func (g *demoGateway) Replay(ctx context.Context, to federation.DID, after federation.Cursor, limit int) ([]federation.Entry, error) {
	return g.Record.Replay(ctx, to, after, limit)
}

// Outbox reads the record.
func (g *demoGateway) Outbox(ctx context.Context, link string, after federation.Delivery, limit int) ([]federation.Delivery, error) {
	return g.Record.Outbox(ctx, link, after, limit)
}

// Close ends the gateway.
func (g *demoGateway) Close() error {
	g.stop()
	g.running.Wait()
	err := g.ended
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, g.Server.Close())
}

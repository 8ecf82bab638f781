package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/cmd/baton/demo"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

// Run is the program, for the tests that run it as a process: its log and errors go
// to the places they configure.
func Run(errs io.Writer) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], std{out: os.Stdout, err: errs}))
}

// ServeWith serves the gateway of a configuration with one more network, until ctx ends. It
// writes its log to a file.
func ServeWith(ctx context.Context, path string, log io.Writer, more func(server.Wiring) bridge.Network) error {
	file, err := configs.Load(path)
	if err != nil {
		return err
	}
	gateway, err := server.Open(ctx, file, server.Options{
		Networks: func(w server.Wiring) []bridge.Network { return append(networks(w), more(w)) },
		Log:      slog.New(slog.NewJSONHandler(log, nil)),
	})
	if err != nil {
		return err
	}
	err = gateway.Run(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	return errors.Join(err, gateway.Close())
}

// OpenDemo starts the gateway of a demonstration.
func OpenDemo(ctx context.Context, path string) (demo.Gateway, error) { //nolint:ireturn // as the demonstration has it
	return openDemoGateway(ctx, &cli{}, path, io.Discard)
}

// Still is a gateway without running jobs: it acts only on calls.
type Still struct{ *server.Server }

// Assemble returns the gateway of a configuration.
func Assemble(ctx context.Context, path string) (Still, error) {
	file, err := configs.Load(path)
	if err != nil {
		return Still{}, err
	}
	gateway, err := server.Open(ctx, file, server.Options{Networks: networks, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return Still{}, err
	}
	links, err := server.OpenLinks(file, networks, gateway.Wiring())
	if err != nil {
		return Still{}, errors.Join(err, gateway.Close())
	}
	ended, end := context.WithCancel(ctx)
	end()
	gateway.Gateway.Links().Apply(ended, links)
	return Still{gateway}, nil
}

// Submit takes a step.
func (s Still) Submit(ctx context.Context, ev federation.Event) error {
	_, err := s.Gateway.Submit(ctx, ev)
	return err
}

// Watch looks which deliveries take long.
func (s Still) Watch(ctx context.Context, now time.Time) error {
	return s.Gateway.CheckDeliveries(ctx, now)
}

// DueNotices returns the deliveries of notices for the people of a link.
func (s Still) DueNotices(ctx context.Context, link string, now time.Time) ([]federation.Delivery, error) {
	return storetest.DueNotices(ctx, s.Record, link, now, 64)
}

// MetricDescs returns the descriptions of the metrics of a configuration's
// gateway.
func MetricDescs(ctx context.Context, path string) ([]*prometheus.Desc, error) {
	file, err := configs.Load(path)
	if err != nil {
		return nil, err
	}
	gateway, err := server.Open(ctx, file, server.Options{Networks: networks, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		gateway.Metrics.Describe(descs)
		close(descs)
	}()
	var all []*prometheus.Desc
	for desc := range descs {
		all = append(all, desc)
	}
	return all, gateway.Close()
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
	"golang.org/x/sync/errgroup"
)

func measure(ctx context.Context, folder string, w way, programs map[string]string, c trial) (result, error) {
	dir, err := os.MkdirTemp(folder, "") // a short name, because the path of a socket below it is bounded
	if err != nil {
		return result{}, err
	}
	t := newTally(c)
	s := newStage(dir, programs, t)
	defer s.stop()
	if _, err := s.port("far"); err != nil {
		return result{}, err
	}
	far := s.address("far")
	ctx, cancel := context.WithCancel(ctx)
	var receiving sync.WaitGroup
	defer receiving.Wait()
	defer cancel()
	receiving.Go(func() { receive(ctx, far, t.arrived) })
	if err := s.start(ctx, w); err != nil {
		return result{}, errors.Join(err, s.logs())
	}
	if err := s.probe(ctx, t); err != nil {
		return result{}, errors.Join(err, s.logs())
	}
	if err := s.load(ctx, w, c, t); err != nil {
		return result{}, errors.Join(err, s.logs())
	}
	if err := t.settle(ctx); err != nil {
		return result{}, err
	}
	return t.result(w, c), nil
}

// receive reads the messages on the far server until ctx ends, and rejoins immediately after a
// restart of the server.
func receive(ctx context.Context, addr string, got func(arrival)) {
	for ctx.Err() == nil {
		c, err := dial(ctx, addr, "bob", "message-tags")
		if err != nil {
			_ = wait(ctx, pollTime) // the loop ends with ctx
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = c.conn.Close() })
		_ = c.read(func(m ircmsg.Message) { // it ends with the server
			if a, ok := arrivalOf(m); ok {
				got(a)
			}
		})
		stop()
		_ = c.conn.Close()
	}
}

// probeTime is the timeout for the first line, and probeWait is the retry interval.
const (
	probeTime = 40 * time.Second
	probeWait = 200 * time.Millisecond
)

func (s *stage) probe(ctx context.Context, t *tally) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTime, errors.New("no line arrives at the far server"))
	defer cancel()
	for {
		if err := s.sender.say(numberedText(probeNumber)); err != nil {
			return err
		}
		select {
		case <-t.open:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(probeWait):
		}
	}
}

func (s *stage) load(ctx context.Context, w way, c trial, t *tally) error {
	third := make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.send(ctx, c, t, third) })
	group.Go(func() error {
		select {
		case <-third:
			err := s.fail(ctx, w, c)
			t.restart()
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return group.Wait()
}

// send closes third after a third of the messages.
func (s *stage) send(ctx context.Context, c trial, t *tally, third chan<- struct{}) error {
	say := s.sender.say
	if c.kind == offers {
		say = s.sender.offer
	}
	ticker := time.NewTicker(time.Second / time.Duration(c.rate))
	defer ticker.Stop()
	for n := range c.total {
		if n == c.total/3 {
			close(third)
		}
		t.sends(n)
		if err := say(numberedText(n)); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s *stage) fail(ctx context.Context, w way, c trial) error {
	switch c.kill {
	case theBridge:
		return s.fault(ctx, w.bridge, c.down)
	case theFarIRCd:
		return s.fault(ctx, "far", c.down)
	}
	return nil
}

func numberedText(n int) string { return fmt.Sprintf("this is number %d", n) }

func (s *stage) logs() error {
	const lastBytes = 1500
	var errs []error
	for _, p := range s.processes {
		log, err := os.ReadFile(filepath.Join(s.folder, p.name+".log"))
		if err == nil && len(log) > 0 {
			err = fmt.Errorf("%s wrote at last:\n%s", p.name, log[max(0, len(log)-lastBytes):])
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

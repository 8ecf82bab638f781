package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"text/template"
	"time"
)

//go:embed *.tmpl
var configurations embed.FS

const channel = "#bench"

// sender writes to the channel of the near side. It records accepted lines and offers, and joins
// and leaves of the bridge, in the tally.
type sender interface {
	say(text string) error
	offer(title string) error
}

type stage struct {
	folder    string
	programs  map[string]string
	processes []*process
	ports     map[string]int // by the name of the listener
	sender    sender
	tally     *tally
}

const startTime = 20 * time.Second

func newStage(folder string, programs map[string]string, t *tally) *stage {
	return &stage{folder: folder, programs: programs, ports: map[string]int{}, tally: t}
}

func (s *stage) start(ctx context.Context, w way) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, errors.New("it is not ready in time"))
	defer cancel()
	return w.start(ctx, s)
}

func (s *stage) stop() {
	for _, p := range slices.Backward(s.processes) {
		p.stop()
	}
}

func (s *stage) port(name string) (int, error) {
	if port := s.ports[name]; port != 0 {
		return port, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not block
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	_, text, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return 0, err
	}
	s.ports[name], err = strconv.Atoi(text)
	return s.ports[name], err
}

func (s *stage) address(name string) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.ports[name]))
}

func (s *stage) assign(names ...string) (map[string]any, error) {
	values := map[string]any{"Folder": s.folder}
	for _, name := range names {
		port, err := s.port(name)
		if err != nil {
			return nil, err
		}
		values[name] = port
	}
	return values, nil
}

func (s *stage) write(name, from string, values any) (string, error) {
	t, err := template.ParseFS(configurations, from+".tmpl")
	if err != nil {
		return "", err
	}
	path := filepath.Join(s.folder, name)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	return path, errors.Join(t.Execute(file, values), file.Close())
}

func (s *stage) launch(ctx context.Context, name string, listens []string, args ...string) error {
	p := &process{name: name, args: args}
	if err := p.launch(s.folder); err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	for _, port := range listens {
		if err := until(ctx, func() error {
			if err := s.running(name); err != nil {
				return err
			}
			conn, err := net.Dial("tcp", s.address(port)) //nolint:noctx // the loopback answers at once
			if err != nil {
				return err
			}
			return conn.Close()
		}); err != nil {
			return fmt.Errorf("wait for %s: %w", name, err)
		}
	}
	return nil
}

func (s *stage) process(name string) (*process, error) {
	i := slices.IndexFunc(s.processes, func(p *process) bool { return p.name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no process %s", name)
	}
	return s.processes[i], nil
}

func (s *stage) running(name string) error {
	p, err := s.process(name)
	if err == nil {
		err = p.running(s.folder)
	}
	if err != nil {
		return &finalError{err}
	}
	return nil
}

func (s *stage) fault(ctx context.Context, name string, down time.Duration) error {
	p, err := s.process(name)
	if err != nil {
		return err
	}
	if err := p.kill(); err != nil {
		return err
	}
	if err := wait(ctx, down); err != nil {
		return err
	}
	return p.launch(s.folder)
}

// finalError is an error for which a retry is useless.
type finalError struct{ error }

const pollTime = 10 * time.Millisecond

func until(ctx context.Context, try func() error) error {
	for {
		err := try()
		if final, ok := errors.AsType[*finalError](err); ok {
			return final.error
		}
		if err == nil {
			return nil
		}
		if wait(ctx, pollTime) != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

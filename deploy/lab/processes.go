package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

type processes struct {
	folder string
	order  []string
	all    map[string]*process
}

type process struct {
	name  string
	args  []string
	cmd   *exec.Cmd
	ended chan struct{}
}

func readProcesses(folder string) (*processes, error) {
	lines, err := readNames(folder, "processes")
	if err != nil {
		return nil, err
	}
	p := &processes{folder: folder, all: map[string]*process{}}
	for _, fields := range lines {
		p.order = append(p.order, fields[0])
		p.all[fields[0]] = &process{name: fields[0], args: fields[1:]}
	}
	return p, nil
}

func (p *processes) start(ctx context.Context) error {
	for _, name := range p.order {
		if err := p.restart(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// For half a minute, restart retries a process that ends within a second, because PostgreSQL waits
// for the last child of the killed server.
func (p *processes) restart(ctx context.Context, name string) error {
	deadline := time.Now().Add(startTime / 2)
	for {
		one := p.all[name]
		if one == nil {
			return fmt.Errorf("there is no process %s", name)
		}
		if err := p.launch(one); err != nil {
			return err
		}
		select {
		case <-one.ended:
		case <-time.After(time.Second):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not stay up", name)
		}
		if err := wait(ctx, time.Second); err != nil {
			return err
		}
	}
}

func (p *processes) launch(one *process) error {
	log, err := os.OpenFile(filepath.Join(p.folder, one.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()                                    // the process has its own
	one.cmd = exec.Command(one.args[0], one.args[1:]...) //nolint:noctx // the lab ends it
	one.cmd.Stdout, one.cmd.Stderr, one.cmd.Dir = log, log, p.folder
	if err := one.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", one.name, err)
	}
	cmd, ended := one.cmd, make(chan struct{})
	one.ended = ended
	go func() {
		defer close(ended)
		_ = cmd.Wait() // a killed process ends with an error
	}()
	return nil
}

func (p *processes) kill(name string) error {
	one := p.all[name]
	if one == nil {
		return fmt.Errorf("there is no process %s", name)
	}
	if err := one.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", name, err)
	}
	<-one.ended
	return nil
}

func (p *processes) freeze(name string) error { return p.signal(name, syscall.SIGSTOP) }
func (p *processes) thaw(name string) error   { return p.signal(name, syscall.SIGCONT) }

func (p *processes) signal(name string, s syscall.Signal) error {
	one := p.all[name]
	if one == nil {
		return fmt.Errorf("there is no process %s", name)
	}
	if err := one.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", name, err)
	}
	return nil
}

func (p *processes) revive(ctx context.Context) ([]string, error) {
	var names []string
	for _, name := range p.order {
		select {
		case <-p.all[name].ended:
			names = append(names, name)
			if err := p.restart(ctx, name); err != nil {
				return names, err
			}
		default:
		}
	}
	return names, nil
}

func (p *processes) stop() {
	for _, name := range slices.Backward(p.order) {
		one := p.all[name]
		if one.cmd == nil || one.cmd.Process == nil {
			continue
		}
		_ = one.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-one.ended:
		case <-time.After(15 * time.Second):
			_ = one.cmd.Process.Kill()
			<-one.ended
		}
	}
}

func (p *processes) tails() error {
	const lastBytes = 3000
	var errs []error
	for _, name := range p.order {
		text, err := os.ReadFile(filepath.Join(p.folder, name+".log"))
		if err == nil {
			err = fmt.Errorf("%s wrote at last:\n%s", name, text[max(0, len(text)-lastBytes):])
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

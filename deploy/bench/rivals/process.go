package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

type process struct {
	name  string
	args  []string
	cmd   *exec.Cmd
	ended chan struct{}
}

func (p *process) launch(folder string) error {
	log, err := os.OpenFile(filepath.Join(folder, p.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()                             // the process has its own
	cmd := exec.Command(p.args[0], p.args[1:]...) //nolint:noctx // stop ends it
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, folder
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	ended := make(chan struct{})
	p.cmd, p.ended = cmd, ended
	go func() {
		defer close(ended)
		_ = cmd.Wait() // a killed process ends with an error
	}()
	return nil
}

func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.ended
	return nil
}

func (p *process) stop() {
	_ = p.cmd.Process.Kill() // an error means that it has ended
	<-p.ended
}

func (p *process) running(folder string) error {
	const lastBytes = 2000
	select {
	case <-p.ended:
	default:
		return nil
	}
	log, err := os.ReadFile(filepath.Join(folder, p.name+".log"))
	return errors.Join(fmt.Errorf("%s has ended; it wrote at last:\n%s", p.name, log[max(0, len(log)-lastBytes):]), err)
}

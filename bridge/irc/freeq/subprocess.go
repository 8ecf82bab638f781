package freeq

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/baton-gateway/baton/federation/fault"
)

// closeGrace is the time for a child to end after its stdin was closed. A killed child cannot
// notify the peer, which would keep the link for half a minute and refuse the next one.
const closeGrace = time.Second

const maxLogLineBytes = 4096

// connectedMark precedes the ID of the dialling endpoint, on the stderr of a listening child.
const connectedMark = "got connection from "

// The program proves the identity of the other endpoint with its TLS. For a listening child, this
// transport checks that identity.
//
// spec: freeq-s2s "Transport recipe"
type child struct {
	command []string
	seed    string
	peer    string // required ID of the dialling endpoint; "" if we dial
	log     *slog.Logger
	last    *pipe // occupies the address until it exits
}

func newDiallingChild(cfg Config, d Deps) *child {
	return newChild(fill(cfg.DialCommand, ticketMark, cfg.ticket().String()), "", cfg, d)
}

func newListeningChild(cfg Config, d Deps) *child {
	return newChild(fill(cfg.ListenCommand, listenMark, cfg.Listen), cfg.EndpointID, cfg, d)
}

func newChild(command []string, peer string, cfg Config, d Deps) *child {
	return &child{command: command, peer: peer, seed: d.Seed, log: linkLog(cfg, d)}
}

func fill(command []string, mark, value string) []string {
	filled := make([]string, len(command))
	for i, word := range command {
		filled[i] = strings.ReplaceAll(word, mark, value)
	}
	return filled
}

// Close implements transport. It does nothing.
func (c *child) Close() error { return nil }

// A listening transport waits until the previous child has exited, and then until the peer has
// dialled.
func (c *child) connect(ctx context.Context) (io.ReadWriteCloser, error) {
	if c.last != nil {
		select {
		case <-c.last.gone:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	// It must outlive ctx until its graceful shutdown is complete.
	command := exec.CommandContext(context.WithoutCancel(ctx), c.command[0], c.command[1:]...) //nolint:gosec // the operator's own
	command.Env = append(os.Environ(), "IROH_SECRET="+c.seed, "RUST_LOG=dumbpipe=info", "NO_COLOR=1")
	in, inErr := command.StdinPipe()
	out, outErr := command.StdoutPipe()
	told, toldErr := command.StderrPipe()
	if err := errors.Join(inErr, outErr, toldErr); err != nil {
		return nil, fmt.Errorf("exec %s: %w", c.command[0], err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("exec %s: %w", c.command[0], err)
	}
	p := &pipe{command: command, in: in, out: out, dialled: make(chan string, 1), drained: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		_ = fault.Catch(func() error { c.drain(ctx, p, told); return nil }) // if its stderr is not read, the child ends
	}()
	if c.peer == "" {
		return p, nil
	}
	c.last = p
	return c.admit(ctx, p)
}

func (c *child) admit(ctx context.Context, p *pipe) (io.ReadWriteCloser, error) {
	var err error
	select {
	case id := <-p.dialled:
		if id == c.peer {
			return p, nil
		}
		err = fmt.Errorf("exec %s: dialled by endpoint %s", c.command[0], id)
	case <-p.drained:
		err = fmt.Errorf("exec %s: %s", c.command[0], p.lastLine())
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return nil, errors.Join(err, p.Close())
}

// A child blocks if its stderr is full.
func (c *child) drain(ctx context.Context, p *pipe, told io.Reader) {
	defer close(p.drained)
	r := bufio.NewReaderSize(told, maxLogLineBytes)
	for {
		text, long, err := r.ReadLine()
		if err != nil {
			return
		}
		line := strings.TrimSpace(strings.ToValidUTF8(string(text), "\uFFFD"))
		if c.seed != "" {
			line = strings.ReplaceAll(line, c.seed, "***")
		}
		if line == "" || long {
			continue
		}
		p.setLastLine(line)
		c.log.LogAttrs(ctx, slog.LevelDebug, "transport says", slog.String("what", line))
		if _, id, ok := strings.Cut(line, connectedMark); ok {
			select {
			case p.dialled <- strings.Fields(id + " ")[0]:
			default: // a child accepts only one connection
			}
		}
	}
}

type pipe struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     io.Reader
	dialled chan string
	drained chan struct{}
	gone    chan struct{}

	ending     sync.Once
	mu         sync.Mutex
	stderrLine string
}

func (p *pipe) setLastLine(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stderrLine = line
}

// The last line on stderr is the reason for the end of the child.
func (p *pipe) lastLine() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stderrLine == "" {
		return "it exited without output"
	}
	return p.stderrLine
}

// Read implements io.Reader. The final error explains why the child ended.
func (p *pipe) Read(b []byte) (int, error) {
	n, err := p.out.Read(b)
	if err == nil {
		return n, nil
	}
	select {
	case <-p.drained:
	case <-time.After(closeGrace):
	}
	return n, fmt.Errorf("%w: %s", err, p.lastLine())
}

func (p *pipe) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close kills the child if closing its stdin does not end it. It blocks until the child has exited.
func (p *pipe) Close() error {
	p.ending.Do(func() {
		_ = p.in.Close()
		kill := time.AfterFunc(closeGrace, func() { _ = p.command.Process.Kill() })
		defer kill.Stop()
		_, _ = io.Copy(io.Discard, p.out)
		<-p.drained
		_ = p.command.Wait() // stderr has the reason
		close(p.gone)
	})
	return nil
}

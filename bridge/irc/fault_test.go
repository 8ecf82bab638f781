package irc_test

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"

	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation/fault"
)

// For a panic in any part of a session, Run returns the panic and does not block on the other
// goroutines.
func TestSessionEndsWithTheFaultOfAnyPart(t *testing.T) {
	broken := func(s *textSession) func(context.Context) error {
		return func(ctx context.Context) error {
			for {
				select {
				case err := <-s.Broken:
					return err
				case call := <-s.Calls:
					call()
				case <-s.Lines:
				case err := <-s.Wrote:
					s.Written(err)
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		}
	}
	judged := func(s *textSession, judge func(string) func()) {
		s.Judge = judge
		s.Steps.Add("a1")
		s.JudgeAll()
	}
	for name, part := range map[string]func(s *textSession, peer net.Conn) (serve func(context.Context) error){
		"owner": func(*textSession, net.Conn) func(context.Context) error {
			return func(context.Context) error { panic("x") }
		},
		"judge": func(s *textSession, _ net.Conn) func(context.Context) error {
			return func(ctx context.Context) error {
				judged(s, func(string) func() { panic("x") })
				return broken(s)(ctx)
			}
		},
		"note": func(s *textSession, _ net.Conn) func(context.Context) error {
			return func(ctx context.Context) error {
				judged(s, func(string) func() { return func() { panic("x") } })
				return broken(s)(ctx)
			}
		},
		"post": func(s *textSession, _ net.Conn) func(context.Context) error {
			go s.Post(context.Background(), func() { panic("x") })
			return broken(s)
		},
		"do": func(s *textSession, _ net.Conn) func(context.Context) error {
			s.Running.Go(func() { s.Do(func() { panic("x") }) })
			return broken(s)
		},
		"goroutine": func(s *textSession, _ net.Conn) func(context.Context) error {
			s.Running.Go(func() { panic("x") })
			return broken(s)
		},
		"decode": func(s *textSession, peer net.Conn) func(context.Context) error {
			s.Start()
			go func() { _, _ = peer.Write([]byte("boom\r\n")) }()
			return broken(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, peer := newTextSession()
				defer peer.Close()
				if name == "decode" {
					s, peer = newPanickingSession()
				}
				err := s.Run(t.Context(), part(s, peer), func() {})
				if caught := fault.Of(err); caught == nil || caught.Value != "x" {
					t.Errorf("Run returns %v", err)
				}
			})
		})
	}
}

// newPanickingSession returns a session whose decoder panics.
func newPanickingSession() (*textSession, net.Conn) {
	ours, theirs := net.Pipe()
	wire := irc.Wire[string]{Conn: ours, MaxLineBytes: 8, Decode: func([]byte, error) string { panic("x") }}
	return irc.NewSession(slog.New(slog.DiscardHandler), wire, 0, irc.NewLanes(4, laneOf)), theirs
}

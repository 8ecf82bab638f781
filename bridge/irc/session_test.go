package irc_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/irc"
)

// textSession is a session whose lines are text and whose steps have the lanes of laneOf.
type textSession = irc.Session[string, string, byte]

// newTextSession returns a session and the other end of its connection.
func newTextSession() (*textSession, net.Conn) {
	ours, theirs := net.Pipe()
	wire := irc.Wire[string]{
		Conn: ours, MaxLineBytes: 8, Write: func(piece []byte) error { _, err := ours.Write(piece); return err },
		Decode: func(text []byte, err error) string {
			if err != nil {
				return err.Error()
			}
			return string(text)
		},
	}
	return irc.NewSession(slog.New(slog.DiscardHandler), wire, 0, irc.NewLanes(4, laneOf)), theirs
}

func TestSessionCarriesLinesBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, peer := newTextSession()
		s.Start()
		go func() { _, _ = peer.Write([]byte("one\r\n123456789\r\n")) }()
		if diff := cmp.Diff([]string{"one", irc.ErrLineTooLong.Error()}, []string{<-s.Lines, <-s.Lines}); diff != "" {
			t.Errorf("read (-want +got):\n%s", diff)
		}
		s.Send([]byte("two"))
		if !s.Writing() {
			t.Error("the writer is not busy with a piece that nobody reads")
		}
		text := make([]byte, 3)
		if _, err := peer.Read(text); err != nil || string(text) != "two" {
			t.Errorf("the peer read %q, %v", text, err)
		}
		s.Written(<-s.Wrote)
		if s.Writing() || s.WriteErr() != nil {
			t.Errorf("the writer is busy, or failed: %v", s.WriteErr())
		}
		_ = peer.Close()
		if err := <-s.Broken; err == nil {
			t.Error("the reader ended without an error")
		}
		s.End()
	})
}

func TestSessionJudgesReadStepsAfterTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTextSession()
		var order, noted []string
		s.Judge = func(step string) func() {
			if step != "a1" {
				<-s.Over
			}
			s.Do(func() { order = append(order, step) })
			return func() { noted = append(noted, step) }
		}
		ended := errors.New("ended")
		err := s.Run(t.Context(), func(context.Context) error {
			for _, step := range []string{"a1", "a2"} {
				s.Steps.Add(step)
			}
			for len(noted) == 0 {
				s.JudgeAll()
				(<-s.Calls)()
			}
			return ended
		}, func() { order = append(order, "lost") })
		if !errors.Is(err, ended) {
			t.Errorf("Run: %v, want the error of serve", err)
		}
		if diff := cmp.Diff([]string{"a1", "lost", "a2"}, order); diff != "" {
			t.Errorf("judged (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"a1"}, noted); diff != "" {
			t.Errorf("noted (-want +got):\n%s", diff)
		}
	})
}

func TestSessionRefusesPostsOnceItLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newTextSession()
		posted := make(chan bool)
		post := func() { posted <- s.Post(t.Context(), func() {}) }
		go post()
		if (<-s.Calls)(); !<-posted {
			t.Error("a session refuses a post")
		}
		s.Leave()
		go post()
		if (<-s.Calls)(); <-posted {
			t.Error("a session that leaves takes a post")
		}
		s.End()
		go post()
		if <-posted {
			t.Error("a session that has ended takes a post")
		}
	})
}

package spanningtree

import (
	"context"
	"log/slog"

	"github.com/ergochat/irc-go/ircmsg"

	"baton/bridge/irc"
)

// refuse logs a refusal by this link, and tells the user.
func (s *session) refuse(ctx context.Context, user string, err error) {
	s.link.replies.LogRefusal(ctx, err)
	s.tell(ctx, user, err)
}

// tell sends a user the reply to an error about its step.
func (s *session) tell(ctx context.Context, user string, err error) {
	if reply, has := s.link.replies.To(ctx, err); has {
		s.notice(ctx, user, reply.Text(), reply.Ref)
	}
}

// notice writes a NOTICE to a user, from the gateway's own: FAIL, which clients of a
// listener get, would end a server link. The reference is to the handoff that it is
// about; it may be empty.
func (s *session) notice(ctx context.Context, user, text, ref string) {
	self := s.link.roster.Self
	s.present(self)
	notice := ircmsg.MakeMessage(nil, self.uuid, "NOTICE", user, text)
	if ref != "" {
		notice.SetTag(irc.RefTag, ref)
	}
	notice.ForceTrailing()
	if err := s.putMessage(notice); err != nil {
		s.log.LogAttrs(ctx, slog.LevelError, "user not told", slog.Any("err", err))
	}
}

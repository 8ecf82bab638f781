package client

import "context"

// refuse logs a refusal by this server, and tells the client.
func (s *server) refuse(ctx context.Context, u *user, err error) {
	s.link.replies.LogRefusal(ctx, err)
	s.tell(ctx, u, err)
}

// tell sends a client the reply to an error about its step.
func (s *server) tell(ctx context.Context, u *user, err error) {
	if reply, has := s.link.replies.To(ctx, err); has {
		s.fail(u, "TAGMSG", reply.Code, reply.Subject, reply.Sentence)
	}
}

package mcp

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"baton/bridge/participant"
	"baton/federation/fault"
)

// beat is how often a waiting client is told that it still waits, and its token is checked. The
// contract has at most ten seconds between two notices.
const beat = 5 * time.Second

// wait returns entries of the inbox. It blocks until there is one, the time is over, the client has
// left or cancelled, or the gateway stops. It acknowledges nothing.
func (s *server) wait(ctx context.Context, req *mcp.CallToolRequest, q participant.InboxQuery) (participant.InboxPage, error) {
	waiting, cancel := s.until(ctx)
	defer cancel()
	type found struct {
		page participant.InboxPage
		err  error
	}
	done := make(chan found, 1)
	go func() {
		var f found
		f.err = fault.Catch(func() (err error) { f.page, err = s.account.Inbox(waiting, q); return err })
		done <- f
	}()
	began, tick := time.Now(), time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case f := <-done:
			fault.Again(f.err)
			if f.err != nil && waiting.Err() != nil && ctx.Err() == nil && s.still(time.Now()) == nil {
				return participant.InboxPage{Next: q.Cursor}, nil // ended early, with nothing found
			}
			if err := s.still(time.Now()); err != nil { // the session may have ended meanwhile
				return participant.InboxPage{}, err
			}
			return f.page, f.err
		case now := <-tick.C:
			if err := s.still(now); err != nil {
				cancel()
				<-done
				return participant.InboxPage{}, err
			}
			s.progress(ctx, req, now.Sub(began), q.Wait)
		}
	}
}

// progress tells a client that asked for it how long it waits.
func (*server) progress(ctx context.Context, req *mcp.CallToolRequest, waited, total time.Duration) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return
	}
	_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ // a client that has left ends the wait by itself
		ProgressToken: token, Progress: waited.Round(time.Second).Seconds(), Total: total.Seconds(), Message: "waiting",
	})
}

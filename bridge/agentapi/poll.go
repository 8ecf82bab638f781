package agentapi

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"baton/federation"
)

// polled is an answer that comes once there is something.
type polled func(w http.ResponseWriter) error

// VisitListInboxResponse implements [contract.ListInboxResponseObject]. Its error is from
// before the first byte.
func (begin polled) VisitListInboxResponse(w http.ResponseWriter) error { return begin(w) }

// poll is somebody who waits for what comes to an inbox, and has a turn whenever something
// may have.
type poll struct {
	*seat
	guest

	ctx   context.Context // of the request; it does not end with it
	at    place
	until time.Time   // they want to wait
	rang  atomic.Bool // it is time to look without being woken, or over
	again *time.Timer // until that
}

// poll answers with what is in an inbox at a place, which may come within a time.
func (l *Link) poll(ctx context.Context, out http.ResponseWriter, did federation.DID, at place, within time.Duration) error {
	p := &poll{ctx: context.WithoutCancel(ctx), at: at, until: time.Now().Add(within)}
	p.seat = l.sit(ctx, did, p.call) // before it looks, so that nothing comes in between
	found, err := p.look(ctx, at)
	if err == nil && len(found.entries) == 0 && !l.isOver() {
		p.again = time.AfterFunc(min(within, lookAgain), p.ring)
		p.receive(ctx, out, p.take)
		return nil
	}
	p.leave()
	if err != nil {
		return err
	}
	return inboxPage{found, at.entries}.VisitListInboxResponse(out)
}

// ring has the inbox looked at.
func (p *poll) ring() {
	p.rang.Store(true)
	p.call()
}

// take is a turn: the answer, unless there is nothing and time left.
func (p *poll) take() (stays bool) {
	if p.gone.Load() {
		p.rise()
		return false
	}
	found, err := p.look(p.ctx, p.at)
	if err == nil && len(found.entries) == 0 && p.waits(time.Now()) {
		return true
	}
	p.rise()
	if err == nil {
		_ = inboxPage{found, p.at.entries}.VisitListInboxResponse(p.out) // the client is gone
	} else {
		p.link.fail(p.ctx, p.out, inboxPath, err)
	}
	return false
}

// waits reports whether there is time left, and sees that it does not pass unnoticed.
func (p *poll) waits(now time.Time) bool {
	left := p.until.Sub(now)
	if p.rang.Swap(false) {
		p.again.Reset(min(left, lookAgain))
	}
	return left > 0 && !p.link.isOver()
}

// rise ends the waiting.
func (p *poll) rise() {
	p.again.Stop()
	p.leave()
}

// inboxPath is where inboxes are polled.
const inboxPath = Prefix + "inbox"

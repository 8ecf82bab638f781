package airc

import (
	"context"
	"time"

	"baton/bridge"
	"baton/bridge/credential"
	"baton/federation"
)

// Rates counts what each DID sends, steps and other messages alike.
type Rates interface {
	// Take counts one message and returns how long to wait where that is one too
	// many; it is not counted then.
	Take(did federation.DID, now time.Time) time.Duration
	// Left returns what a DID has left.
	Left(did federation.DID, now time.Time) bridge.Allowance
}

// check refuses what would be one too many of a rate whose bucket holds one
// period's worth.
func check(a bridge.Allowance, period time.Duration) error {
	if a.Limit == 0 || a.Left > 0 {
		return nil
	}
	return tooMany(period / time.Duration(a.Limit))
}

func tooMany(wait time.Duration) error {
	return &problem{code: codeRateLimited, message: "too many requests; wait a little", retryAfter: wait}
}

// mayWrite refuses a message whose sender, or whose address, has none left, before the
// message is read and its signature is verified.
func (l *Link) mayWrite(ctx context.Context, did federation.DID, now time.Time) error {
	if err := check(l.deps.Rates.Left(did, now), time.Minute); err != nil {
		return err
	}
	return check(l.deps.Writes.Left(bridge.SubnetFrom(ctx), now), time.Minute)
}

// charge counts a message that is no step, for its sender and its address; the gateway
// counts steps.
func (l *Link) charge(ctx context.Context, d *delivery) error {
	d.charged = true
	if wait := l.deps.Writes.Wait(bridge.SubnetFrom(ctx), d.received); wait > 0 {
		return tooMany(wait)
	}
	if wait := l.deps.Rates.Take(d.sender.DID, d.received); wait > 0 {
		return tooMany(wait)
	}
	return nil
}

// login counts an attempt to log in, or refuses it where its address made too many.
func (l *Link) login(c *call, now time.Time) error {
	if wait := l.deps.Logins.Wait(bridge.SubnetFrom(c.Context()), now); wait > 0 {
		return tooMany(wait)
	}
	return nil
}

// allowance returns the bucket that a request counts in: that of its agent, else
// that of its address.
func (l *Link) allowance(c *call, now time.Time) bridge.Allowance {
	if c.denied == nil {
		return l.deps.Rates.Left(c.agent.DID, now)
	}
	return l.registrations.Left(credential.AddressOf(c.Request), now)
}

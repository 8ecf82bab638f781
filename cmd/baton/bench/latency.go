package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/cmd/baton/aircagent"
	"github.com/baton-gateway/baton/cmd/baton/bench/plot"
)

// betweenCrossings limits the rate to 50 steps per second.
const betweenCrossings = 20 * time.Millisecond

// measureLatency measures the latency of one step through an otherwise idle gateway: from the write
// of its text until its reader has it, after it is on disk.
func (r *run) measureLatency(ctx context.Context) (err error) {
	dir, err := r.folder("relay")
	if err != nil {
		return err
	}
	floor, err := openRelay(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, floor.Close()) }()
	g, err := r.openGateway(ctx, "latency")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	c := &crossing{bare: floor, pairs: map[string]*pair{}, plot: plot.Plot{Title: "How long one step is on its way", X: "percentile, as 1 in n", Y: "milliseconds"}}
	for round := range r.Rounds {
		if err := c.open(ctx, g, round); err != nil {
			return err
		}
		err := c.crossAll(ctx, r.Crossings)
		if err := errors.Join(err, c.hangUp()); err != nil {
			return err
		}
	}
	c.summarize(r.report)
	return nil
}

// crossing is an IRC client that offers, one that reads, and an AIRC agent that polls its inbox.
type crossing struct {
	bare       *relay
	alice, bob *ircClient
	scout      *aircagent.Agent
	inbox      *reader // of scout
	pairs      map[string]*pair
	names      []string
	plot       plot.Plot
}

type pair struct {
	what, floor string
	took, bare  []time.Duration
}

// After a burst of lines, the server reads a client no faster than people type, so each round has
// new clients.
func (c *crossing) open(ctx context.Context, g *gateway, round int) (err error) {
	if c.alice, err = dialIRC(ctx, g.irc, fmt.Sprintf("alice%d", round)); err != nil {
		return err
	}
	if c.bob, err = dialIRC(ctx, g.irc, fmt.Sprintf("bob%d", round)); err != nil {
		return errors.Join(err, c.alice.Close())
	}
	if err := c.register(ctx, g, round); err != nil {
		return errors.Join(err, c.alice.Close(), c.bob.Close())
	}
	c.inbox = poll(ctx, c.scout)
	return nil
}

func (c *crossing) register(ctx context.Context, g *gateway, round int) (err error) {
	if c.scout, err = aircagent.New("http://"+g.public, fmt.Sprintf("scout_%d", round)); err != nil {
		return err
	}
	if err := c.scout.Register(ctx); err != nil {
		return err
	}
	offer, err := c.alice.offer(ctx, c.scout.DID())
	if err != nil {
		return err
	}
	if err := c.alice.say(offer.line); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		messages, err := c.scout.Inbox(ctx, pollWait)
		if err != nil {
			return err
		}
		for _, m := range messages {
			switch {
			case m.Payload.Data.Handoff.EventID == offer.id:
				return nil
			case m.Payload.Data.Requester != "":
				if err := c.scout.Consent(ctx, m.Payload.Data.Requester); err != nil {
					return err
				}
			}
		}
	}
}

func (c *crossing) hangUp() error {
	return errors.Join(c.alice.Close(), c.bob.Close(), c.inbox.Close())
}

// The equivalents of the crossings.
const (
	bareRelay  = "sockets and one write to the disk"
	privateMsg = "a message that is not filed"
)

func (c *crossing) crossAll(ctx context.Context, times int) error {
	for i := range times {
		for _, cross := range []func(context.Context, int) error{c.crossFromIRC, c.crossFromAgent} {
			time.Sleep(betweenCrossings)
			if err := cross(ctx, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// The offer and the line of alice in the channel are visible to bob.
func (c *crossing) crossFromIRC(ctx context.Context, n int) error {
	offer, err := c.alice.offer(ctx, c.scout.DID())
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := c.alice.say(offer.line); err != nil {
		return err
	}
	seen, err := c.bob.await(" NOTICE ", offer.id)
	if err != nil {
		return err
	}
	arrived, err := c.inbox.await(offer.id)
	if err != nil {
		return err
	}
	if err := c.note("irc-to-airc", "IRC client to an AIRC agent that waits", arrived.at.Sub(begun)); err != nil {
		return err
	}
	text := fmt.Sprintf("text%dx", n)
	spoken := time.Now()
	if err := c.alice.say("PRIVMSG " + channel + " :" + text + "\r\n"); err != nil {
		return err
	}
	heard, err := c.bob.await("PRIVMSG", text)
	if err != nil {
		return err
	}
	c.add("irc-to-irc", pair{what: "IRC client to IRC client", floor: privateMsg}, seen.at.Sub(begun), heard.at.Sub(spoken))
	return nil
}

func (c *crossing) crossFromAgent(ctx context.Context, n int) error {
	text := fmt.Sprintf("task%dx", n)
	message, err := c.scout.Sign(wire.Handle(c.alice.key.DID), text, map[string]any{"type": "task:request", "data": map[string]any{"description": text}})
	if err != nil {
		return err
	}
	begun := time.Now()
	if _, err := c.scout.Post(ctx, message); err != nil {
		return err
	}
	seen, err := c.alice.await(" NOTICE ", text)
	if err != nil {
		return err
	}
	return c.note("airc-to-irc", "AIRC agent to an IRC client", seen.at.Sub(begun))
}

func (c *crossing) note(name, what string, took time.Duration) error {
	bare, err := c.bare.cross()
	c.add(name, pair{what: what, floor: bareRelay}, took, bare)
	return err
}

func (c *crossing) add(name string, first pair, took, bare time.Duration) {
	p := c.pairs[name]
	if p == nil {
		p = &first
		c.pairs[name] = p
		c.names = append(c.names, name)
	}
	p.took, p.bare = append(p.took, took), append(p.bare, bare)
}

func (c *crossing) summarize(report *Report) {
	for _, name := range c.names {
		p := c.pairs[name]
		for _, percent := range []float64{50, 99} {
			goal := "<= 2.0"
			if percent > 50 && p.floor == bareRelay {
				goal = "<= 2.5"
			}
			report.add(Row{
				Name: fmt.Sprintf("%s-p%.0f", name, percent), What: fmt.Sprintf("%s, p%.0f", p.what, percent), Value: milliseconds(percentile(p.took, percent)), Unit: "ms",
				Floor: p.floor, Bare: milliseconds(percentile(p.bare, percent)), Goal: goal,
			})
		}
		c.plot.Series = append(c.plot.Series, tail(p.what, p.took))
	}
	c.plot.Series = append(c.plot.Series, tail(bareRelay, c.pairs["irc-to-airc"].bare))
	report.Plots = append(report.Plots, c.plot)
}

func tail(name string, took []time.Duration) plot.Series {
	s := plot.Series{Name: name}
	for _, n := range []float64{2, 4, 10, 20, 50, 100} {
		s.Points = append(s.Points, [2]float64{n, milliseconds(percentile(took, 100-100/n))})
	}
	return s
}

package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"baton/federation"
)

// move asks another home to take the mailbox of a DID.
type move struct {
	heading

	DID federation.DID `json:"did"`
}

// moved answers whether the home takes it.
type moved struct {
	answerHeading

	Taken bool   `json:"taken"`
	Why   string `json:"why,omitempty"` // why not, for people
}

// parseMove reads a move that is for a home.
func parseMove(text []byte, to federation.HomeID) (move, error) {
	var m move
	if err := parse(text, &m); err != nil {
		return m, err
	}
	if _, err := federation.ParseDID(string(m.DID)); err != nil {
		return m, err
	}
	return m, m.check(typeMove, to)
}

// Move gives the mailbox of a DID to the other home. It blocks on the network. A
// [*federation.RefusalError] says why the other home does not take it.
func (p *Peer) Move(ctx context.Context, did federation.DID) error {
	if p.Mode() == Hold || p.Mode() == Block {
		return p.unavailable(errHeld)
	}
	asked := move{heading: p.deps.ask(typeMove, p.cfg.Home), DID: did}
	body, err := json.Marshal(asked)
	if err != nil {
		return fmt.Errorf("write move for %s: %w", p.cfg.Home, err)
	}
	text, err := p.request(ctx, Envelope{Body: body, Path: []federation.HomeID{p.deps.Home}})
	if err != nil {
		return err
	}
	var answer moved
	if err := parse(text, &answer); err != nil {
		return p.unavailable(fmt.Errorf("its answer cannot be read: %w", err))
	}
	switch {
	case !answer.is(asked.answers(typeMoved, body)):
		return p.unavailable(errOtherAnswer)
	case !answer.Taken:
		return federation.Refuse(federation.Event{}, federation.PolicyDenied, answer.Why)
	}
	return nil
}

// takeOver answers a move. The error says why this home cannot decide now.
func (p *Peer) takeOver(ctx context.Context, asked move, body []byte) (moved, error) {
	answer := moved{answerHeading: p.deps.answers(asked.heading, typeMoved, body)}
	why, err := p.deps.Mailboxes.TakeOver(ctx, asked.DID, p.cfg.Home, p.deps.Now())
	answer.Taken, answer.Why = err == nil && why == "", why
	return answer, err
}

// learn notes which mailboxes the other home moved. The other home names them with each result, so
// that one which cannot be kept now is learned later.
func (p *Peer) learn(ctx context.Context, gone []federation.MovedMailbox) {
	for _, each := range gone {
		if err := p.deps.Mailboxes.LearnMove(ctx, each, p.cfg.Home, p.deps.Now()); err != nil {
			p.log.LogAttrs(ctx, slog.LevelWarn, "home of a DID not kept", slog.String("did", string(each.DID)), slog.Any("err", err))
		}
	}
}

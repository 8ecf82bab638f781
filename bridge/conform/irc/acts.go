package irc

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/dialect"
)

type act func(s *stage, ctx context.Context, p *actor, text string) error

// welcomed matches the line that ends a registration: the end of the message of the day, or its
// absence.
const welcomed = "376|422"

func (s *stage) expect(ctx context.Context, p *actor, text string) error {
	_, err := s.waitFor(ctx, p, text)
	return err
}

// expectAll waits for lines in any order. Their patterns are joined by " && ".
func (s *stage) expectAll(ctx context.Context, p *actor, text string) error {
	var wanted []pattern
	for each := range strings.SplitSeq(text, " && ") {
		wanted = append(wanted, parsePattern(each))
	}
	for len(wanted) > 0 {
		line, err := s.next(ctx, p)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(wanted, func(w pattern) bool { return w.fits(line) }); i >= 0 {
			wanted = slices.Delete(wanted, i, i+1)
		}
	}
	return nil
}

func (s *stage) refute(ctx context.Context, p *actor, text string) error {
	for _, other := range s.actors {
		if err := s.sync(ctx, other); err != nil {
			return err
		}
	}
	if err := s.sync(ctx, p); err != nil { // it has now received all earlier lines of the others
		return err
	}
	for _, line := range p.kept {
		if parsePattern(text).fits(line) {
			return fmt.Errorf("heard %q", line)
		}
	}
	return nil
}

func (s *stage) register(ctx context.Context, p *actor, caps string) error {
	if caps != "" {
		if err := s.send(ctx, p, "CAP REQ :"+caps); err != nil {
			return err
		}
		if line, err := s.waitFor(ctx, p, "CAP"); err != nil || !parsePattern("CAP * ACK").fits(line) {
			return fmt.Errorf("the server has not all of %q: %q: %w", caps, line, cmp.Or(err, errNotAcknowledged))
		}
	}
	for _, line := range []string{"NICK " + p.nick, "USER conform 0 * :a client that checks the server", "CAP END"} {
		if err := s.send(ctx, p, line); err != nil {
			return err
		}
	}
	_, err := s.waitFor(ctx, p, welcomed)
	return err
}

var errNotAcknowledged = errors.New("not acknowledged")

func (s *stage) prove(ctx context.Context, p *actor, _ string) error {
	if err := s.send(ctx, p, "AUTHENTICATE "+proofMechanism); err != nil {
		return err
	}
	line, err := s.waitFor(ctx, p, "AUTHENTICATE")
	if err != nil {
		return err
	}
	challenge, err := base64.RawURLEncoding.DecodeString(line[strings.LastIndexByte(line, ' ')+1:])
	if err != nil {
		return fmt.Errorf("read challenge: %w", err)
	}
	signature, err := s.keys[p.name].Sign(ctx, challenge)
	if err != nil {
		return fmt.Errorf("sign challenge: %w", err)
	}
	answer, err := json.Marshal(map[string]string{"did": string(s.keys[p.name].DID), "signature": base64.RawURLEncoding.EncodeToString(signature)})
	if err != nil {
		return err
	}
	if err := s.send(ctx, p, "AUTHENTICATE "+base64.RawURLEncoding.EncodeToString(answer)); err != nil {
		return err
	}
	_, err = s.waitFor(ctx, p, "903")
	return err
}

// The text is "NAME CHANNEL".
func (s *stage) makeOffer(ctx context.Context, p *actor, text string) error {
	name, channel, _ := strings.Cut(text, " ")
	s.offers++
	s.offer = federation.Event{Verb: federation.Offer, Kind: federation.Handoff, To: s.keys[name].DID, Title: fmt.Sprintf("Job %d", s.offers)}
	return s.seal(ctx, p, &s.offer, channel)
}

// takeStep takes a step in the latest offer. The text is "VERB CHANNEL".
func (s *stage) takeStep(ctx context.Context, p *actor, text string) error {
	verb, channel, _ := strings.Cut(text, " ")
	ev := federation.Event{Verb: federation.Verb(verb), Handoff: s.offer.Handoff}
	return s.seal(ctx, p, &ev, channel)
}

func (s *stage) seal(ctx context.Context, p *actor, ev *federation.Event, channel string) error {
	id, err := federation.NewEventID(time.Now(), rand.Reader)
	if err != nil {
		return err
	}
	ev.ID, ev.From, ev.Venue, ev.Dialect, ev.Provenance = id, s.keys[p.name].DID, channel, federation.HandoffTags, federation.Signed
	if ev.Verb == federation.Offer {
		ev.Handoff = id
	}
	ev.Fields, _ = dialect.Write(*ev)
	if *ev, err = signing.Seal(ctx, s.keys[p.name], *ev); err != nil {
		return err
	}
	m, err := dialect.Encode(translate.Step{Entry: federation.Entry{Event: *ev}, View: federation.View{Dialect: ev.Dialect}})
	if err != nil {
		return err
	}
	out := ircmsg.MakeMessage(m.Tags, "", "TAGMSG", channel)
	line, err := out.Line()
	if err != nil {
		return err
	}
	return s.send(ctx, p, strings.TrimRight(line, "\r\n"))
}

// Clients of a scene do not answer PINGs automatically.
func (s *stage) answer(ctx context.Context, p *actor, _ string) error {
	line, err := s.waitFor(ctx, p, "PING")
	if err != nil {
		return err
	}
	_, token, _ := strings.Cut(line, "PING ")
	return s.send(ctx, p, "PONG "+token)
}

// quit waits until the server closes the connection. The client reconnects with its next line,
// without an identity.
func (s *stage) quit(ctx context.Context, p *actor, _ string) error {
	if err := s.send(ctx, p, "QUIT"); err != nil {
		return err
	}
	delete(s.actors, p.name)
	timer := time.NewTimer(s.cfg.Patience)
	defer timer.Stop()
	defer p.leave()
	for {
		select {
		case _, open := <-p.heard:
			if !open {
				return nil
			}
		case <-timer.C:
			return errors.New("the server does not let it go")
		}
	}
}

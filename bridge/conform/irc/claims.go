package irc

import (
	"context"
	"slices"
	"strings"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge/conform"
)

const proofMechanism = "ATPROTO-CHALLENGE"

// claims are the features announced by a server: the names of its capabilities, "sasl=" and each of
// its mechanisms, and the names of its ISUPPORT tokens. If claims are nil, they are unknown, and
// all cases apply.
type claims map[string]bool

// claimsOf returns nil if the server does not answer.
func claimsOf(ctx context.Context, cfg Config, dial dial) (claims, error) {
	s, err := newStage(cfg, dial, nil)
	if err != nil {
		return nil, err
	}
	defer s.clear()
	p, err := s.actor(ctx, cast()[0])
	if err != nil {
		return nil, nil
	}
	c := claims{}
	for _, line := range []string{"CAP LS 302", "NICK " + p.nick, "USER conform 0 * :a client that checks the server", "CAP END"} {
		if err := s.send(ctx, p, line); err != nil {
			return nil, nil
		}
	}
	for {
		line, err := s.next(ctx, p)
		if err != nil {
			return nil, nil
		}
		m, err := ircmsg.ParseLine(line)
		switch {
		case err != nil:
		case parsePattern("CAP * LS").fits(line):
			c.addCapabilities(m.Params[len(m.Params)-1])
		case m.Command == "005" && len(m.Params) > 2:
			for _, token := range m.Params[1 : len(m.Params)-1] {
				name, _, _ := strings.Cut(token, "=")
				c[name] = true
			}
		case parsePattern(welcomed).fits(line):
			return c, nil
		case m.Command == "PING":
			if err := s.send(ctx, p, "PONG "+strings.Join(m.Params, " ")); err != nil {
				return nil, nil
			}
		}
	}
}

func (c claims) addCapabilities(list string) {
	for each := range strings.FieldsSeq(list) {
		name, value, _ := strings.Cut(each, "=")
		c[name] = true
		if name == "sasl" {
			for mechanism := range strings.SplitSeq(value, ",") {
				c["sasl="+mechanism] = true
			}
		}
	}
}

func (c claims) mechanism() string {
	for _, each := range []string{proofMechanism, "PLAIN"} {
		if c == nil || c["sasl="+each] {
			return each
		}
	}
	return "PLAIN"
}

// claimed returns a [*conform.UnclaimedError] for a case with unclaimed features. A case needs the
// features in its lines beginning with "needs", the capabilities with which its clients join, and
// the proof of a DID.
func (c claims) claimed(lines []string) error {
	if c == nil {
		return nil
	}
	for _, line := range lines {
		words := strings.Fields(line)
		var needs []string
		switch {
		case words[0] == "needs":
			needs = words[1:]
		case len(words) > 1 && words[1] == "joins":
			needs = words[2:]
		case len(words) > 1 && words[1] == "proves":
			needs = []string{"sasl=" + proofMechanism}
		}
		if i := slices.IndexFunc(needs, func(need string) bool { return !c[need] }); i >= 0 {
			return &conform.UnclaimedError{Want: needs[i]}
		}
	}
	return nil
}

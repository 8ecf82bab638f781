package main_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A lie is one way in which a stranger attacks an entrance. The list is closed.
type lie = string

const (
	lieWeakKey       lie = "weak key"
	lieOtherIdentity lie = "identity of another party"
	lieReplayed      lie = "replayed signed bytes"
	lieTampered      lie = "tampered signature"
	lieDoubled       lie = "duplicate JSON members"
	lieMisshapen     lie = "huge, deep or invalid bodies"
	lieOversize      lie = "oversize lines and tags"
	lieTraversal     lie = "path traversal"
	lieMisaddressed  lie = "wrong audience, recipient or venue"
	lieForgedOrigin  lie = "forged for, src and src-h"
	lieInvisible     lie = "invisible characters in text for people"
	lieBadToken      lie = "wrong or expired token"
	lieForeignHost   lie = "foreign Host header"
	lieConnect       lie = "CONNECT"
	lieSlow          lie = "slow headers and bodies"
)

func allLies() []lie {
	return []lie{
		lieWeakKey, lieOtherIdentity, lieReplayed, lieTampered, lieDoubled, lieMisshapen, lieOversize, lieTraversal, lieMisaddressed,
		lieForgedOrigin, lieInvisible, lieBadToken, lieForeignHost, lieConnect, lieSlow,
	}
}

// An attempt is one variation of a lie, with the answer of the gateway. Each attempt
// whose answer is not the expected refusal counts as accepted.
type attempt struct {
	name, answer, want string
}

// An entrance is one way into the gateway.
type entrance struct {
	name string
	// tries tells each lie that can be told here.
	tries map[lie]func(t *testing.T, s *stage) []attempt
	// never names the lies that cannot be told here, with the reason.
	never map[lie]string
	// serves makes a legitimate request.
	serves func(t *testing.T, s *stage)
}

// gatewayEntrances returns every way into the gateway. The list is closed.
func gatewayEntrances() []entrance {
	all := []entrance{
		inspircdLink(), freeqLink(), signedAIRC(), federatedAIRC(), deployedAIRC(), relayEntrance(), federatedLookups(),
		restSteps(), restInbox(), eventStream(), inboxSocket(), webhookRegistration(),
		operatorSocket(), operatorListener(), homeDoor(), publicDocuments(),
	}
	return append(all, ircListeners()...)
}

// Each entrance is told each lie that applies to it. The gateway refuses all of them,
// counts or logs each refusal, serves a legitimate request afterwards and files nothing.
func TestHostileInputIsRefusedAtEachEntrance(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	t.Run("entrances", func(t *testing.T) {
		for _, e := range gatewayEntrances() {
			t.Run(e.name, func(t *testing.T) {
				t.Parallel()
				s.attack(t, e)
			})
		}
	})
	s.judge(t)
}

// attack tells an entrance every lie, and checks that it still serves.
func (s *stage) attack(t *testing.T, e entrance) {
	t.Helper()
	for _, l := range allLies() {
		try, applies := e.tries[l]
		reason, excluded := e.never[l]
		if applies == excluded || excluded && reason == "" {
			t.Errorf("%s: want either attempts or the reason for which there are none", l)
		}
		if !applies {
			continue
		}
		s.tell(t, e.name, l, try(t, s))
		e.serves(t, s)
	}
	for l := range e.tries {
		if !slices.Contains(allLies(), l) {
			t.Errorf("%s is not in the list of lies", l)
		}
	}
}

// tell checks the outcome of the attempts of one lie.
func (s *stage) tell(t *testing.T, entrance string, l lie, attempts []attempt) {
	t.Helper()
	accepted := 0
	for _, a := range attempts {
		if a.answer != a.want {
			accepted++
			t.Errorf("%s: %s: answered %q, want %q", l, a.name, a.answer, a.want)
		}
	}
	if len(attempts) == 0 {
		t.Errorf("%s: no attempt was made", l)
	}
	t.Logf("%s: %d tries, %d acceptances", l, len(attempts), accepted)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = append(s.rows, fmt.Sprintf("%s | %s | %d | %d", l, entrance, len(attempts), accepted))
}

// judge checks the state after the attacks.
func (s *stage) judge(t *testing.T) {
	t.Helper()
	slices.Sort(s.rows)
	t.Logf("lie | entrance | tries | acceptances\n%s", strings.Join(s.rows, "\n"))
	s.checkRecord(t)
	s.checkAccounts(t)
	s.checkMemory(t)
	s.checkLinks(t)
	if code := s.stop(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

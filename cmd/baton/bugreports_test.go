//go:build interop

package main_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// bugReports are public reports about bridges of other projects, with the tests that show the right
// value here.
func bugReports() []bugReport {
	return []bugReport{
		{"42wim/matterbridge#33, #465", "the digits of colours are shown, or digits of the text are lost", shownBy(TestFormattingPassesBetweenNetworks)},
		{"matrix-org/matrix-appservice-irc#735, #1776", "both nicks of a user stay", shownBy(TestRelayedUserChangesItsNick)},
		{"matrix-org/matrix-appservice-irc#348", "private text waits for a nick, and another user reads it", shownBy(TestMessageIsNotReadByTheNextUserOfTheNick, TestWaitingMessageNoticeReachesItsSender)},
		{"matrix-org/matrix-appservice-irc#448", "a channel with +j lets no more authors in, and their lines are lost", shownBy(TestChatJoinThrottleKeepsNoAuthorOut)},
		{"42wim/matterbridge#55, #2190", "a restart repeats old lines", shownBy(TestChatLinesSurviveOutagesAndKills, TestChatHistoryHasEachLineOnceOverKills)},
		{"matrix-org/matrix-appservice-irc#567", "a link with a bad certificate takes lines for ever, and a renewed one needs a restart", shownBy(TestLinkRefusesAnotherCertificate, TestReplacedCertificateIsServedByEveryListenerAndLink)},
		{"Throne3d/node-irc#13", "text in Latin-1 arrives damaged", shownBy(TestChatTextIsNotDamaged)},
		{"RP-Kit/RPKit#157", "two gateways in one channel repeat each other for ever", shownBy(TestChatLoopOfTwoGatewaysEnds, TestChatLoopOfTwoRealGatewaysEnds)},
		{"divinevideo/divine-mobile#7324", "the second of two equal lines is taken for a repeat", shownBy(TestChatEqualLinesAppearTwice)},
		{"42wim/matterbridge#757, #1743", "a server that hangs stops the bridge, and its lines are lost", shownBy(TestChatFrozenServerDelaysNoOther)},
	}
}

type bugReport struct {
	issues, about string
	tests         []func(t *testing.T)
}

func shownBy(tests ...func(t *testing.T)) []func(t *testing.T) { return tests }

func TestBugReportsOfOtherBridgesHaveTests(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range bugReports() {
		if r.issues == "" || r.about == "" || len(r.tests) == 0 || seen[r.issues] {
			t.Errorf("report %q (%s) has %d tests", r.issues, r.about, len(r.tests))
		}
		seen[r.issues] = true
	}
	if len(seen) != 10 {
		t.Errorf("%d reports, want 10", len(seen))
	}
}

func TestChatJoinThrottleKeepsNoAuthorOut(t *testing.T) {
	t.Parallel()
	n := newTwoNetworks(t)
	if err := n.ann.Send(nil, "MODE", channel, "+j", "1:60"); err != nil { // she is its operator
		t.Fatal(err)
	}
	if _, err := n.ann.Next(patient(t), func(m bridgetest.IRCMessage) bool { return m.Command == "MODE" && m.Params[1] == "+j" }); err != nil {
		t.Fatal(err)
	}
	for author := range 4 {
		nick := fmt.Sprintf("author%d", author)
		text := "from " + nick
		utter(t, n.lib.join(t, nick), channel, text)
		if m := clientReads(t, n.ann, text); !strings.HasPrefix(nickOf(m), nick) {
			t.Errorf("%q is from %s", text, nickOf(m))
		}
	}
}

func TestChatFrozenServerDelaysNoOther(t *testing.T) {
	t.Parallel()
	n := newTwoNetworks(t)
	if err := n.lib.Freeze(); err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range 20 {
		text := fmt.Sprintf("line %d", line)
		want = append(want, "ann PRIVMSG "+text)
		utter(t, n.ann, channel, text)
		clientReads(t, n.zoe, text) // while lib stands still
	}
	if err := n.lib.Thaw(); err != nil {
		t.Fatal(err)
	}
	utter(t, n.ann, channel, "the end")
	clientReads(t, n.bob, "the end")
	got := chatIn(n.bob.Received())
	if !slices.Equal(got, want) { // the end is taken out
		t.Errorf("after it stood still lib reads %q", got)
	}
}

package spanningtree_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"baton/bridge"
	"baton/bridge/bridgetest"
	"baton/bridge/irc/spanningtree"
	"baton/federation"
)

// A row is a duty of a server link, with its tests.
type row struct {
	does  string
	tests []func(t *testing.T)
}

// shownBy returns the tests of a row.
func shownBy(tests ...func(t *testing.T)) []func(t *testing.T) { return tests }

// checklist has the duties of a server on a link that InspIRCd demands, enforces or leaves to it.
func checklist() map[string][]row {
	return map[string][]row{
		"link": {
			{"dials and is dialled, waits for START, answers with the lower version", shownBy(TestHandshake, TestTheProtocol, TestListening)},
			{"has a codec of SERVER, UID, LMODE, FHOST, FIDENT and names of modules", shownBy(TestTheProtocol)},
			{"proves passwords by CHALLENGE, and is plaintext where the configuration says so", shownBy(TestRunRefuses, TestRunSpeaksPlaintextWhereItMay)},
			{"pins certificates", shownBy(TestTLS)},
			{"compares clocks", shownBy(TestTheLogSaysThatClocksDiffer)},
			{"answers PING, sends PING, and gives a silent peer up", shownBy(TestAnswers, TestEnd)},
			{"survives unknown and unreadable input", shownBy(TestAnswers, TestBadInput)},
			{"tells operators of settings that no link shows: tags of clients, and how fast a server reads", shownBy(TestTheDocumentsNameSettingsThatNoLinkShows)},
		},
		"state": {
			{"knows servers, users and channels with their ages, modes and members", shownBy(TestBurst, TestModesOfAChannelApplyToOurUsers)},
			{"keeps a user for each DID, and one in each channel", shownBy(TestDeliver, TestBurst)},
			{"answers IDLE, which WHOIS waits for, and RESYNC", shownBy(TestAnswers)},
			{"asks for a channel that it does not know", shownBy(TestAChannelThatIsUnknownIsAskedFor)},
			{"answers VERSION, ADMIN, TIME, MOTD, STATS and INFO", shownBy(TestQuestionsToThisServerAreAnswered)},
			{"comes back from KILL and KICK, with another id and another membership", shownBy(TestThrownOut)},
			{"leaves on RSQUIT", shownBy(TestRSQUITEndsTheLink)},
			{"obeys SVSNICK, SVSJOIN, SVSPART, SANICK, SAJOIN and SAPART", shownBy(TestOurUsersObeyServicesAndOperators)},
			{"takes accounts from the network, and none of its own users", shownBy(TestAStepOfABoundAccount, TestAnswers)},
		},
		"messages": {
			{"have an id of their own", shownBy(TestDeliver)},
			{"pass tags with + and msgid, and no others", shownBy(TestTheProtocol, TestInbound, TestBothDialectsGoOut)},
			{"have at most 4,094 bytes and 64 tags: a longer one is rendered, or its sender is told", shownBy(TestTagsOfMoreBytesThanAServerCarriesTravelAsARendition, TestDeliverDeclines)},
			{"fit a line, and are cut between characters", shownBy(TestLongTextFitsLinesAndIsCutBetweenCharacters)},
			{"are lines where the peer has no tags now, which operators see", shownBy(TestAPeerWithoutTagsGetsReadableLines)},
			{"have names that the network allows", shownBy(TestTheProtocol)},
		},
		"collisions": {
			{"of nicks end with one owner: other user, same user, equal age, newer and older", shownBy(TestEachCollisionOfNicksEndsWithOneOwner)},
			{"of UID and NICK with a nick of ours: ours yields", shownBy(TestNicks)},
			{"end: a user gets its nick back", shownBy(TestAUserOfOursGetsItsNickBackOnceItIsFree)},
			{"of SAVE: only for the nick that the user has", shownBy(TestNicks)},
		},
		"splits": {
			{"take all that is behind a server, and servers rejoin with the same ids", shownBy(TestASplitTakesAllThatIsBehindAServer)},
			{"of the peer: users come back with the same ids and ages", shownBy(TestTheGatewayComesBackFromALossWithItsUsersAndTheAgesOfChannels)},
			{"of the peer: memberships and status come back", shownBy(TestAUserComesBackFromASplitAsTheMemberThatItWas)},
			{"of the peer: the age of the older channel wins", shownBy(TestAChannelWithoutTheModesOfAnOlderOneTakesThoseOfTheOlder)},
			{"end a link that is there already, and are told", shownBy(TestHandshake, TestListening)},
			{"lose no step: a PONG is the proof", shownBy(TestDeliver, TestEachStepArrivesThroughConnectionsThatLoseTheirEnd)},
			{"by a gateway that stops begin with SQUIT", shownBy(TestEnd)},
		},
		"authority": {
			{"is of modes n, m, M, i, k, l, b and R, and of their exceptions", shownBy(TestModesOfAChannelApplyToOurUsers)},
			{"is of voice", shownBy(TestAUserWithVoiceSpeaksInAModeratedChannel)},
			{"is of invitations", shownBy(TestAnInvitationBringsAUserIntoAChannel, TestTheGatewaysUserStaysOutOfAChannelThatItMayNotEnter)},
			{"is of the limits of names", shownBy(TestAChannelWithALongerNameThanTheNetworkAllowsIsNotCarried)},
			{"is of the operators of a channel that the gateway made", shownBy(TestTheFirstUserOfAChannelThatTheGatewayMadeIsItsOperator, TestAChannelThatTheLastUserLeftIsMadeAnew, TestTheGatewayMakesNoOperatorInAChannelOfTheNetwork)},
			{"is of floods", shownBy(TestLimits)},
		},
	}
}

// TestEachRowOfTheChecklist runs the tests of each row over each version of the protocol.
func TestEachRowOfTheChecklist(t *testing.T) {
	for section, rows := range checklist() {
		for _, r := range rows {
			if len(r.tests) == 0 {
				t.Errorf("%s: %s: no test shows it", section, r.does)
			}
			t.Run(section+" "+r.does, func(t *testing.T) {
				eachProtocol(t, func(t *testing.T, protocol int) {
					t.Helper()
					for i, test := range r.tests {
						t.Run(fmt.Sprint(i), test)
					}
				})
			})
		}
	}
}

func TestTheLogSaysThatClocksDiffer(t *testing.T) {
	for _, skew := range []time.Duration{0, time.Hour} {
		h, _ := linked(t, func(_ *spanningtree.Config, peer *bridgetest.IRCdConfig) { peer.Skew = skew })
		if told := strings.Contains(h.log.String(), "clock differs from the peer's"); told != (skew > 0) {
			t.Errorf("with clocks %s apart the log says so: %v", skew, told)
		}
	}
}

// A server that sends IJOIN of a channel which is not known here sends the whole channel when it is asked.
func TestAChannelThatIsUnknownIsAskedFor(t *testing.T) {
	h := newHouse(t, testConfig("pipe.example:1"))
	lines := []string{uid(t, "1AAAAAAAB", 1795226757, "alice"), ":1AAAAAAAB IJOIN #ops 3", ":1AAAAAAAB IJOIN #other 4"}
	if got := spanningtree.Read(t.Context(), h.link, protocolOf(t), lines); strings.Count(got, ":9GW RESYNC #ops") != 1 || strings.Count(got, "RESYNC") != 1 {
		t.Errorf("written: %s", got)
	}
}

// guests are users that all have one DID.
type guests struct {
	bridge.Messages
	did federation.DID
}

// Guest implements [bridge.Messages].
func (g guests) Guest(string, string) federation.DID { return g.did }

// Back implements [bridge.Messages].
func (guests) Back(context.Context, string, federation.DID) error { return nil }

// The longest names leave 328 bytes of a line.
func TestLongTextFitsLinesAndIsCutBetweenCharacters(t *testing.T) {
	const guest = federation.DID("did:example:guest")
	h, peer := linked(t, nil, func(p *bridge.Ports) { p.Messages = guests{did: guest} })
	text := strings.Repeat("ž", 1000)
	err := h.link.DeliverText(waiting(t), federation.Text{
		ID: mustID(t, acceptID), Author: scholar, To: guest, Body: text,
		Arrival: federation.Arrival{Network: "airc", Link: "airc", Place: federation.Place{Link: linkName, Venue: "alice"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var read strings.Builder
	for read.Len() < len(text) {
		m := await(t, peer, "PRIVMSG", from("scholar"))
		part := m.Params[1]
		if len(part) > 328 || !utf8.ValidString(part) || m.Params[0] != peer.UUID("alice") {
			t.Fatalf("%d bytes to %s: %q", len(part), m.Params[0], part)
		}
		read.WriteString(part)
	}
	if read.String() != text {
		t.Error("the text is another one")
	}
}

// CAPAB is the same with each of these settings, so that the documents name them.
func TestTheDocumentsNameSettingsThatNoLinkShows(t *testing.T) {
	for file, settings := range map[string][]string{
		"../README.md":                       {"allowclientonlytags", "clientonlytags", "CLIENTTAGDENY", "netbuffersize"},
		"../../../deploy/inspircd.link.conf": {"netbuffersize"},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range settings {
			if !strings.Contains(string(text), name) {
				t.Errorf("%s does not name %s", file, name)
			}
		}
	}
}

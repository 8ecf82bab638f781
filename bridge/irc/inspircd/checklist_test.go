package inspircd_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
	"github.com/baton-gateway/baton/federation"
)

// A row is a duty of a server link, with its tests.
type outbound struct {
	does  string
	tests []func(t *testing.T)
}

// shownBy returns the tests of a row.
func shownBy(tests ...func(t *testing.T)) []func(t *testing.T) { return tests }

// checklist has the duties of a server on a link that InspIRCd demands, enforces or leaves to it.
func checklist() map[string][]outbound {
	return map[string][]outbound{
		"link": {
			{"dials and is dialled, waits for START, answers with the lower version", shownBy(TestHandshakeNegotiates, TestProtocolRoundTrips, TestListenLinksToDiallingServers)},
			{"has a codec of SERVER, UID, LMODE, FHOST, FIDENT and names of modules", shownBy(TestProtocolRoundTrips)},
			{"proves passwords by CHALLENGE, and is plaintext where the configuration says so", shownBy(TestRunRefuses, TestRunSpeaksPlaintextWhereItMay)},
			{"pins certificates", shownBy(TestTLSPinsCertificates)},
			{"compares clocks", shownBy(TestClockDifferenceIsLogged)},
			{"answers PING, sends PING, and gives a silent peer up", shownBy(TestSessionAnswersQueries, TestSessionEnds)},
			{"survives unknown and unreadable input", shownBy(TestSessionAnswersQueries, TestInboundBadInput)},
			{"tells operators of settings that no link shows: tags of clients, and how fast a server reads", shownBy(TestDocumentsNameInvisibleSettings)},
		},
		"state": {
			{"knows servers, users and channels with their ages, modes and members", shownBy(TestBurstIsReadAndWritten, TestChannelModesApplyToPseudoClients)},
			{"keeps a user for each DID, and one in each channel", shownBy(TestDeliverWritesSteps, TestBurstIsReadAndWritten)},
			{"answers IDLE, which WHOIS waits for, and RESYNC", shownBy(TestSessionAnswersQueries)},
			{"asks for a channel that it does not know", shownBy(TestUnknownChannelIsRequested)},
			{"answers VERSION, ADMIN, TIME, MOTD, STATS and INFO", shownBy(TestQueriesToThisServerAreAnswered)},
			{"comes back from KILL and KICK, with another id and another membership", shownBy(TestKilledUserComesBack)},
			{"leaves on RSQUIT", shownBy(TestRSQUITEndsTheLink)},
			{"obeys SVSNICK, SVSJOIN, SVSPART, SANICK, SAJOIN and SAPART", shownBy(TestServicesControlPseudoClients)},
			{"takes accounts from the network, and none of its own users", shownBy(TestAccountSignsStepsOfItsBinding, TestSessionAnswersQueries)},
		},
		"messages": {
			{"have an id of their own", shownBy(TestDeliverWritesSteps)},
			{"pass tags with + and msgid, and no others", shownBy(TestProtocolRoundTrips, TestInboundSteps, TestDialectsAreWritten)},
			{"have at most 4,094 bytes and 64 tags: a longer one is rendered, or its sender is told", shownBy(TestDeliverRendersTagsOverTheLimit, TestDeliverDeclines)},
			{"fit a line, and are cut between characters", shownBy(TestLongTextIsSplitBetweenCharacters)},
			{"are lines where the peer has no tags now, which operators see", shownBy(TestTaglessPeerGetsReadableLines)},
			{"have names that the network allows", shownBy(TestProtocolRoundTrips)},
		},
		"collisions": {
			{"of nicks end with one owner: other user, same user, equal age, newer and older", shownBy(TestNickCollisionsEndWithOneOwner)},
			{"of UID and NICK with a nick of ours: ours yields", shownBy(TestNickCollisions)},
			{"end: a user gets its nick back", shownBy(TestNickIsRestoredOnceFree)},
			{"of SAVE: only for the nick that the user has", shownBy(TestNickCollisions)},
		},
		"splits": {
			{"take all that is behind a server, and servers rejoin with the same ids", shownBy(TestSplitRemovesEverythingBehindAServer)},
			{"of the peer: users come back with the same ids and ages", shownBy(TestSplitOfTheLinkKeepsUsersAndChannelAges)},
			{"of the peer: memberships and status come back", shownBy(TestMembershipSurvivesASplit)},
			{"of the peer: the age of the older channel wins", shownBy(TestChannelModesOfTheOlderChannelApply)},
			{"end a link that is there already, and are told", shownBy(TestHandshakeNegotiates, TestListenLinksToDiallingServers)},
			{"lose no step: a PONG is the proof", shownBy(TestDeliverWritesSteps, TestDeliverSurvivesConnectionsThatLoseTheirEnd)},
			{"by a gateway that stops begin with SQUIT", shownBy(TestSessionEnds)},
		},
		"authority": {
			{"is of modes n, m, M, i, k, l, b and R, and of their exceptions", shownBy(TestChannelModesApplyToPseudoClients)},
			{"is of voice", shownBy(TestVoiceSpeaksInAModeratedChannel)},
			{"is of invitations", shownBy(TestInviteBringsAPseudoClientIntoAChannel, TestBotStaysOutOfForbiddenChannels)},
			{"is of the limits of names", shownBy(TestChannelNamesBeyondTheLimitAreNotCarried)},
			{"is of the operators of a channel that the gateway made", shownBy(TestOperatorIsTheFirstUserOfACreatedChannel, TestChannelIsCreatedAgainAfterTheLastUserLeft, TestOperatorIsNotSetInChannelsOfTheNetwork)},
			{"is of floods", shownBy(TestLimitsOfUsersAndLinks)},
		},
	}
}

// TestChecklistRowsNameTheirTests runs the tests of each row over each version of the protocol.
func TestChecklistRowsNameTheirTests(t *testing.T) {
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

func TestClockDifferenceIsLogged(t *testing.T) {
	for _, skew := range []time.Duration{0, time.Hour} {
		h, _ := linked(t, func(_ *inspircd.Config, peer *bridgetest.IRCdConfig) { peer.Skew = skew })
		if told := strings.Contains(h.log.String(), "clock differs from the peer's"); told != (skew > 0) {
			t.Errorf("with clocks %s apart the log says so: %v", skew, told)
		}
	}
}

// A server that sends IJOIN of a channel which is not known here sends the whole channel when it is asked.
func TestUnknownChannelIsRequested(t *testing.T) {
	h := newHouse(t, testConfig("pipe.example:1"))
	lines := []string{uid(t, "1AAAAAAAB", 1795226757, "alice"), ":1AAAAAAAB IJOIN #ops 3", ":1AAAAAAAB IJOIN #other 4"}
	if got := inspircd.Read(t.Context(), h.link, protocolOf(t), lines); strings.Count(got, ":9GW RESYNC #ops") != 1 || strings.Count(got, "RESYNC") != 1 {
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
func TestLongTextIsSplitBetweenCharacters(t *testing.T) {
	const guest = federation.DID("did:example:guest")
	h, peer := linked(t, nil, func(p *bridge.Ports) { p.Messages = guests{did: guest} })
	text := strings.Repeat("ž", 1000)
	err := h.link.DeliverText(waiting(t), federation.Text{
		ID: mustID(t, acceptID), Author: scholar, To: guest, Body: text,
		Arrival: federation.Arrival{Network: "airc", Link: "airc", Place: federation.ChannelRef{Link: linkName, Venue: "alice"}},
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
func TestDocumentsNameInvisibleSettings(t *testing.T) {
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

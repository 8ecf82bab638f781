package inspircd_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
	"github.com/baton-gateway/baton/federation"
)

// mode has alice change the modes of a channel, and returns when the gateway has read that.
func mode(t *testing.T, peer *bridgetest.IRCd, channel, change string) {
	t.Helper()
	peer.Send(fmt.Sprintf(":%s FMODE %s %d %s", peer.UUID("alice"), channel, peer.Age(channel), change))
	settle(t, peer)
}

// policy returns why a step of the scholar in #ops is refused, "" if it is delivered.
func policy(t *testing.T, h house) string {
	t.Helper()
	err := h.link.Deliver(waiting(t), acceptRow(t))
	if err == nil {
		return ""
	}
	refused, ok := errors.AsType[*federation.RefusalError](err)
	if !ok || refused.Code != federation.PolicyDenied || refused.Event.String() != acceptID || refused.Handoff.String() != offerID {
		t.Fatalf("error %v, want the refusal of the step", err)
	}
	return refused.Detail
}

// uncarried returns the obstacles in the channel that operators read.
func uncarried(h house) string {
	var found []string
	for _, what := range h.link.Describe().NotCarried {
		if strings.HasPrefix(what, "steps in #ops: ") {
			found = append(found, what)
		}
	}
	return strings.Join(found, "\n")
}

func TestChannelModesApplyToPseudoClients(t *testing.T) {
	host := "*!*@gw.example"
	tests := []struct {
		name      string
		set       string // before the scholar comes
		refused   string // part of the refusal, "" for none
		uncarried string // part of the operators' view, "" for nothing
		unset     string // after which the scholar may speak
	}{
		{"no mode that is about speaking", "+nt", "", "", ""},
		{"+m takes voice", "+m", "moderated (+m)", "moderated (+m)", "-m"},
		{"+M takes an account", "+M", "may not speak (+M)", "may not speak (+M)", "-M"},
		{"+i takes an invitation", "+ni", "invited users (+i)", "invited users (+i)", "-i"},
		{"+k takes the key", "+nk secret", "has a key (+k)", "has a key (+k)", "-k secret"},
		{"+l takes room", "+nl 3", "is full (+l)", "is full (+l)", "-l"},
		{"+l with room keeps nobody out", "+nl 4", "", "is full (+l)", ""}, // for the next one
		{"+b keeps a user out", "+nb " + host, "banned (+b)", "banned (+b)", "-b " + host},
		{"+b keeps a user quiet without +n", "-n+b " + host, "banned (+b)", "banned (+b)", "-b " + host},
		{"+b by nick", "+nb SCHOLAR!*@*", "banned (+b)", "banned (+b)", "-b SCHOLAR!*@*"},
		{"+b by address", "+nb *!*@0.0.0.0", "banned (+b)", "banned (+b)", "-b *!*@0.0.0.0"},
		{"+b by network", "+nb *!*@0.0.0.0/8", "banned (+b)", "banned (+b)", "-b *!*@0.0.0.0/8"},
		{"+b of another host", "+nb *!*@other.example", "", "", ""},
		{"+b of another network", "+nb *!*@10.0.0.0/8", "", "", ""},
		{"+b with an exception", "+nbe " + host + " scholar!*@*", "", "banned (+b)", ""}, // for any other user
		{"+b of users without account", "+nb U:" + host, "banned (+b)", "banned (+b)", "-b U:" + host},
		{"+b of an account", "+nb R:*", "", "", ""},
		{"+b of all but an account", "+nb !account:alice", "banned (+b)", "banned (+b)", "-b !account:alice"},
		{"+b of a server", "+nb s:gw.*", "banned (+b)", "banned (+b)", "-b s:gw.*"},
		{"+b of a real name", "+nb realname:scholar*", "banned (+b)", "banned (+b)", "-b realname:scholar*"},
		{"+b against speaking alone", "+nb m:" + host, "banned (+b)", "banned (+b)", "-b m:" + host},
		{"+b of another kind", "+nb j:#other", "", "", ""},
		{"+R takes an account", "+nR", "with an account of that network (+R)", "with an account of that network (+R)", "-R"},
		{"+i without +n is spoken into from outside", "-n+i", "", "invited users (+i)", ""},
		{"+i with an exception", "+niI " + host, "", "", ""},
		{"an older change of modes", "", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, peer := linked(t, nil)
			mode(t, peer, "#ops", "+n")
			if tt.set != "" {
				mode(t, peer, "#ops", tt.set)
			}
			peer.Send(fmt.Sprintf(":1AA FMODE #ops %d +m", peer.Age("#ops")+10)) // of a younger channel: it is void
			settle(t, peer)
			got := policy(t, h)
			if tt.refused == "" != (got == "") || !strings.Contains(got, tt.refused) {
				t.Errorf("refusal %q, want %q", got, tt.refused)
			}
			if n := countOf(peer, "TAGMSG"); tt.refused != "" && n != 0 {
				t.Errorf("%d messages were sent", n)
			}
			settle(t, peer) // operators are told after the delivery is answered
			if got := uncarried(h); tt.uncarried == "" != (got == "") || !strings.Contains(got, tt.uncarried) {
				t.Errorf("not carried %q, want %q", got, tt.uncarried)
			}
			if tt.unset == "" {
				return
			}
			mode(t, peer, "#ops", tt.unset)
			if got := policy(t, h); got != "" {
				t.Errorf("refused after %s: %s", tt.unset, got)
			}
			settle(t, peer)
			if got := uncarried(h); got != "" {
				t.Errorf("not carried after %s: %q", tt.unset, got)
			}
		})
	}
}

func TestVoiceSpeaksInAModeratedChannel(t *testing.T) {
	for _, status := range []string{"v", "o"} {
		h, peer := linked(t, nil)
		if why := policy(t, h); why != "" {
			t.Fatal(why)
		}
		await(t, peer, "UID")
		uuid := await(t, peer, "UID").Params[0]
		mode(t, peer, "#ops", "+mbM"+status+" *!*@* "+uuid)
		if why := policy(t, h); why != "" {
			t.Errorf("refused with +%s: %s", status, why)
		}
		mode(t, peer, "#ops", "-"+status+" "+uuid)
		if why := policy(t, h); !strings.Contains(why, "moderated (+m)") {
			t.Errorf("refusal %q without +%s", why, status)
		}
	}
}

func TestInviteBringsAPseudoClientIntoAChannel(t *testing.T) {
	tests := map[string]bool{"+ni": true, "+nk secret": true, "+nl 1": true, "+nb *!*@*": false, "+nR": false}
	for change, speaks := range tests {
		t.Run(change, func(t *testing.T) {
			h, peer := linked(t, nil)
			mode(t, peer, "#ops", change)
			if why := policy(t, h); why == "" {
				t.Fatal("delivered without an invitation")
			}
			await(t, peer, "UID")
			uuid := await(t, peer, "UID").Params[0]
			peer.Send(fmt.Sprintf(":%s INVITE %s #ops %d 0", peer.UUID("alice"), uuid, peer.Age("#ops")))
			settle(t, peer)
			if why := policy(t, h); (why == "") != speaks {
				t.Errorf("refusal %q", why)
			}
		})
	}
}

// A split of a server takes no user out of a channel, whatever its modes since.
func TestMembershipSurvivesASplit(t *testing.T) {
	h, peer := linked(t, nil)
	if why := policy(t, h); why != "" {
		t.Fatal(why)
	}
	await(t, peer, "UID")
	uuid := await(t, peer, "UID").Params[0]
	mode(t, peer, "#ops", "+v "+uuid)
	peer.Modes("#ops", "+nimt")
	peer.Drop()
	await(t, peer, "ENDBURST")
	await(t, peer, "ENDBURST")
	isScholar := func(m bridgetest.IRCMessage) bool { return strings.Contains(m.Params[3], "v,"+uuid) }
	await(t, peer, "FJOIN", isScholar)
	if why := policy(t, h); why != "" {
		t.Errorf("refused after the split: %s", why)
	}
}

func TestBotStaysOutOfForbiddenChannels(t *testing.T) {
	h, peer := linked(t, func(_ *inspircd.Config, peer *bridgetest.IRCdConfig) { peer.ChannelModes = "+ni" })
	settle(t, peer)
	if n := countOf(peer, "FJOIN"); n != 0 {
		t.Fatalf("%d users joined", n)
	}
	if got := uncarried(h); !strings.Contains(got, "invited users (+i)") {
		t.Errorf("not carried %q", got)
	}
	mode(t, peer, "#ops", "-i")
	await(t, peer, "FJOIN")
	settle(t, peer)
	if got := uncarried(h); got != "" {
		t.Errorf("not carried %q", got)
	}
}

func TestChannelModesOfTheOlderChannelApply(t *testing.T) {
	h, peer := linked(t, nil)
	mode(t, peer, "#ops", "+nm")
	peer.Send(fmt.Sprintf(":1AA FJOIN #ops %d +n :,%s:9", peer.Age("#ops")+5, peer.UUID("bob"))) // younger: its modes lose
	settle(t, peer)
	if why := policy(t, h); !strings.Contains(why, "moderated") {
		t.Fatalf("refusal %q", why)
	}
	settle(t, peer) // the scholar is there
	peer.Older("#ops", 100)
	settle(t, peer)
	if why := policy(t, h); why != "" {
		t.Errorf("refused: %s", why)
	}
}

func TestChannelNamesBeyondTheLimitAreNotCarried(t *testing.T) {
	long := "#" + strings.Repeat("x", 62)
	h, peer := linked(t, func(cfg *inspircd.Config, peer *bridgetest.IRCdConfig) {
		cfg.Channels, peer.Protocol = []string{"#ops", long}, 1206
	})
	settle(t, peer)
	if !slices.ContainsFunc(h.link.Describe().NotCarried, func(s string) bool { return strings.Contains(s, long+": the name is longer") }) {
		t.Errorf("not carried %q", h.link.Describe().NotCarried)
	}
	if n := countOf(peer, "FJOIN"); n != 1 {
		t.Errorf("joined %d channels", n)
	}
}

// A step from a channel is there already: the line about it is never refused.
func TestSummaryIsLeftOutIfTheGatewayMayNotSpeak(t *testing.T) {
	h, peer := linked(t, nil)
	mode(t, peer, "#ops", "+m")
	d := acceptRow(t)
	d.Entry.Event.Arrival.Link = linkName
	if err := h.link.Deliver(waiting(t), d); err != nil {
		t.Errorf("refused: %v", err)
	}
	if n := countOf(peer, "NOTICE"); n != 0 {
		t.Errorf("%d lines", n)
	}
}

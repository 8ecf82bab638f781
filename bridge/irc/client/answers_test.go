package client_test

import (
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// Each scene holds the server to an answer that clients and their test suites expect.
func TestAnswersMatchClientExpectations(t *testing.T) {
	t.Parallel()
	for name, scene := range map[string]string{
		"capability-negotiation: LIST without capabilities has an empty answer": `
			alice > CAP LIST
			alice < :gw.example CAP * LIST :`,
		"utf8-only: FAIL needs no capability": `
			alice > USER alice 0 * :` + "\xff" + `
			alice < :gw.example FAIL * INVALID_UTF8 :*
			alice joins`,
		"rfc2812 3.3.2: a NOTICE gets no error": `
			alice joins
			alice > NOTICE #nowhere :hi
			alice > @+x=1 NOTICE #nowhere :hi
			alice > PRIVMSG #nowhere :hi
			alice < :gw.example 403 alice #nowhere :No such channel`,
		"rfc2812 3.2.3: a mode for a nick that is nowhere": `
			alice joins
			bob joins
			alice > JOIN #room
			alice < *JOIN*
			alice < *353*
			alice < *366*
			alice > MODE #room +o nobody
			alice < :gw.example 401 alice nobody :No such nick
			alice > MODE #room +v bob
			alice < :gw.example 441 alice bob #room :They aren't on that channel`,
		"rfc2812 3.1.3: a real name is not empty": `
			alice > USER alice 0 * :
			alice < :gw.example 461 * USER :Not enough parameters
			alice joins`,
		"rfc2812 3.6.1: WHO shows an invisible user to a client in the same channel": `
			alice joins
			bob joins
			carol joins
			alice > MODE alice +i
			alice < *MODE alice +i
			alice > JOIN #room
			alice < *JOIN*
			alice < *353*
			alice < *366*
			bob > JOIN #room
			bob < *JOIN*
			bob < *353*
			bob < *366*
			alice < *JOIN*
			bob > WHO al*
			bob < :gw.example 352 bob * alice *.ip gw.example alice H :0 real alice
			bob < :gw.example 315 bob al* :End of WHO list
			carol > WHO al*
			carol < :gw.example 315 carol al* :End of WHO list`,
		"whox: the flags are in the form that the client negotiated": `
			alice joins multi-prefix
			bob joins
			alice > JOIN #room
			alice < *JOIN*
			alice < *353*
			alice < *366*
			bob > JOIN #room
			bob < *JOIN*
			bob < *353*
			bob < *366*
			alice < *JOIN*
			alice > MODE #room +ov bob bob
			alice < *MODE*
			bob < *MODE*
			alice > WHO #room %nf
			alice < :gw.example 354 alice alice H@
			alice < :gw.example 354 alice bob H@+
			alice < *315*
			bob > WHO #room %nf
			bob < :gw.example 354 bob alice H@
			bob < :gw.example 354 bob bob H@
			bob < *315*`,
		"labeled-response, echo-message: a message to oneself is one echo with the label and one delivery without": `
			alice joins labeled-response batch echo-message message-tags
			alice > @label=a PRIVMSG alice :hi
			alice < @msgid=* :alice!*@*.ip PRIVMSG alice :hi
			alice < @*label=a* :alice!*@*.ip PRIVMSG alice :hi
			alice > @label=b;+x=1 TAGMSG alice
			alice < @*+x=1* :alice!*@*.ip TAGMSG alice
			alice < @*label=b* :alice!*@*.ip TAGMSG alice`,
		"rfc2812 3.4: questions to a server": `
			alice joins
			alice > TIME nowhere.example
			alice < :gw.example 402 alice nowhere.example :No such server
			alice > TIME gw.example
			alice < :gw.example 391 alice gw.example :*
			alice > ADMIN
			alice < :gw.example 256 alice gw.example :Administrative info
			alice < :gw.example 257 alice :*
			alice < :gw.example 258 alice :*
			alice < :gw.example 259 alice :*
			alice > INFO GW.example
			alice < :gw.example 371 alice :*
			alice < :gw.example 374 alice :End of INFO list
			alice > STATS u
			alice < :gw.example 242 alice :Server Up *
			alice < :gw.example 219 alice u :End of STATS report
			alice > STATS z
			alice < :gw.example 219 alice z :End of STATS report
			alice > MOTD nowhere.example
			alice < :gw.example 402 alice nowhere.example :No such server
			alice > VERSION nowhere.example
			alice < :gw.example 402 alice nowhere.example :No such server`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, start(t, testConfig()), scene)
		})
	}
}

func TestFAILNeedsTheNegotiatedCommand(t *testing.T) {
	t.Parallel()
	refuse := func(ev federation.Event) error { return federation.Refuse(ev, federation.WrongSender, "") }
	for caps, want := range map[string]string{
		"message-tags freeq.at/handoff": ":gw.example FAIL TAGMSG WRONG_SENDER *",
		"message-tags freeq.at/act":     ":gw.example FAIL TAGMSG WRONG_SENDER *",
		"message-tags standard-replies": ":gw.example FAIL TAGMSG WRONG_SENDER *",
		"message-tags":                  ":gw.example NOTICE ada :TAGMSG WRONG_SENDER *",
	} {
		h := open(t, testConfig())
		h.gateway.answer = refuse
		h.run(t)
		p := dial(t, h.addr)
		p.say(t, "CAP REQ :"+caps)
		p.loginAs(t, "ada")
		p.offer(t, 1)
		if got := p.until(t, "*WRONG_SENDER*"); !matches(want, got) {
			t.Errorf("with %s: %q, want %q", caps, got, want)
		}
	}
	play(t, start(t, testConfig()), `
		alice joins draft/chathistory
		alice > CHATHISTORY
		alice < :gw.example FAIL CHATHISTORY INVALID_PARAMS * :Insufficient parameters
		bob joins setname
		bob > SETNAME :
		bob < :gw.example FAIL SETNAME INVALID_REALNAME :Realname is not valid`)
}

func TestNickOfARemoteUserIsRestoredOnceFree(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig())
	reader, squatter := dial(t, h.addr), dial(t, h.addr)
	reader.register(t, "reader", "message-tags")
	reader.say(t, "JOIN #ops")
	reader.until(t, "* 366 *")
	speaker := func(n int) string {
		t.Helper()
		f := federationtest.File(federationtest.Offer(n, bob, ada), federation.View{})
		f.Event.Venue, f.View.Venue, f.View.Link = "#ops", "#ops", ""
		d := federation.Delivery{Entry: federation.Entry{Event: f.Event, Version: 1}, View: f.View}
		if err := h.link.Deliver(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		_, line, _ := strings.Cut(reader.until(t, "*NOTICE #ops*"), " :")
		nick, _, _ := strings.Cut(line, "!")
		return nick
	}
	want := speaker(1)
	squatter.register(t, want, "")
	if got := speaker(2); got == want {
		t.Errorf("two users are called %q", got)
	}
	squatter.say(t, "NICK other")
	squatter.until(t, "*NICK*")
	if got := speaker(3); got != want {
		t.Errorf("the remote user is called %q after another one gave up the nick, want %q", got, want)
	}
}

func TestSubprotocolFollowsTheClientsOrder(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{
		{"text.ircv3.net", "binary.ircv3.net"}, {"binary.ircv3.net", "text.ircv3.net"}, {"chat.example", "binary.ircv3.net", "text.ircv3.net"},
	} {
		want, kind := order[0], websocket.MessageText
		if want == "chat.example" {
			want = order[1]
		}
		if want == "binary.ircv3.net" {
			kind = websocket.MessageBinary
		}
		_, addr := startWeb(t, true)
		p, _ := browse(t, addr, app, kind, order...)
		if got := p.conn.Subprotocol(); got != want {
			t.Errorf("of %v the server takes %q, want %q", order, got, want)
		}
		p.say(t, "PING x")
		p.until(t, "*PONG*")
	}
}

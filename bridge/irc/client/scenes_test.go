package client_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation"
)

// The scenes are named after the sections that they hold the server to.
func TestScenesMatchTheirTranscripts(t *testing.T) {
	t.Parallel()
	for name, scene := range map[string]string{
		"capability-negotiation: a request is taken whole or not at all": `
			a > CAP LS 302
			a < :gw.example CAP * LS :*freeq.at/handoff=context=4096,deadline=2592000*message-tags*
			a > CAP REQ :message-tags no-such-thing
			a < :gw.example CAP * NAK :message-tags no-such-thing
			a > CAP LIST
			a < :gw.example CAP * LIST :cap-notify
			a > CAP REQ :message-tags -cap-notify
			a < :gw.example CAP * ACK :message-tags -cap-notify
			a > CAP LIST
			a < :gw.example CAP * LIST :message-tags
			a > CAP WHAT
			a < :gw.example 410 * WHAT :Invalid CAP command`,
		"rfc2812 3.1: what comes before registration": `
			a > PRIVMSG #ops :hi
			a < :gw.example 451 * :You have not registered
			a > NICK
			a < :gw.example 431 * :No nickname given
			a > NICK 1x
			a < :gw.example 432 * 1x :Erroneous nickname
			a > NICK baton
			a < :gw.example 433 * baton :Nickname is already in use
			a > USER a 0
			a < :gw.example 461 * USER :Not enough parameters`,
		"rfc2812 3.1.2: a nick is one however it is spelled": `
			alice joins
			b > NICK ALICE
			b < :gw.example 433 * ALICE :Nickname is already in use
			alice > NICK Alice
			alice < :alice!*@*.ip NICK :Alice
			alice > USER x 0 * :x
			alice < :gw.example 462 Alice :You may not reregister`,
		"rfc2812 3.2.1: JOIN": `
			alice joins
			alice > JOIN #room
			alice < :alice!alice@*.ip JOIN #room
			alice < :gw.example 353 alice = #room :@alice
			alice < :gw.example 366 alice #room :End of NAMES list
			bob joins multi-prefix extended-join away-notify
			bob > JOIN #ROOM
			bob < :bob!bob@*.ip JOIN #room * :real bob
			bob < :gw.example 353 bob = #room :@alice bob
			bob < :gw.example 366 bob #room :End of NAMES list
			alice < :bob!bob@*.ip JOIN #room
			bob > JOIN #room
			bob > JOIN room
			bob < :gw.example 403 bob room :No such channel
			alice > MODE #room +v bob
			alice < :alice!*@*.ip MODE #room +v bob
			bob < :alice!*@*.ip MODE #room +v bob
			alice > MODE #room +o bob
			alice < :alice!*@*.ip MODE #room +o bob
			bob < :alice!*@*.ip MODE #room +o bob
			bob > NAMES #room
			bob < :gw.example 353 bob = #room :@alice @+bob
			bob < :gw.example 366 bob #room :End of NAMES list
			alice > AWAY :lunch
			alice < :gw.example 306 alice :You have been marked as being away
			bob < :alice!*@*.ip AWAY :lunch
			alice > AWAY
			alice < :gw.example 305 alice :You are no longer marked as being away
			bob < :alice!*@*.ip AWAY
			alice > PART #room :bye
			alice < :alice!*@*.ip PART #room :bye
			bob < :alice!*@*.ip PART #room :bye`,
		"the channels of the configuration have no operators": `
			alice joins
			alice > JOIN #OPS
			alice < :alice!alice@*.ip JOIN #ops
			alice < :gw.example 353 alice = #ops :alice
			alice < :gw.example 366 alice #ops :End of NAMES list
			alice > MODE #ops +m
			alice < :gw.example 482 alice #ops :You're not channel operator
			alice > MODE #ops
			alice < :gw.example 324 alice #ops +nt
			alice < :gw.example 329 alice #ops *`,
		"rfc2812 3.2.3: modes, bans, keys and limits": `
			alice joins
			alice > JOIN #room
			alice < *JOIN #room
			alice < *353*
			alice < *366*
			alice > MODE #room +imk-x secret
			alice < :gw.example 472 alice x :is unknown mode char to me
			alice < :alice!*@*.ip MODE #room +imk secret
			bob joins
			bob > JOIN #room
			bob < :gw.example 473 bob #room :Cannot join channel (+i)
			alice > MODE #room -i
			alice < :alice!*@*.ip MODE #room -i
			bob > JOIN #room wrong
			bob < :gw.example 475 bob #room :Cannot join channel (+k)
			alice > MODE #room +l 1
			alice < :alice!*@*.ip MODE #room +l 1
			bob > JOIN #room secret
			bob < :gw.example 471 bob #room :Cannot join channel (+l)
			alice > MODE #room -lk secret
			alice < :alice!*@*.ip MODE #room -lk *
			alice > MODE #room +b bob
			alice < :alice!*@*.ip MODE #room +b bob!*@*
			alice > MODE #room b
			alice < :gw.example 367 alice #room bob!*@* alice *
			alice < :gw.example 368 alice #room :End of channel ban list
			bob > JOIN #room
			bob < :gw.example 474 bob #room :Cannot join channel (+b)
			alice > INVITE bob #room
			alice < :gw.example 341 alice bob #room
			bob < :alice!*@*.ip INVITE bob #room
			bob > JOIN #room
			bob < *JOIN #room
			bob < *353*
			bob < *366*
			alice < *JOIN #room
			bob > PRIVMSG #room :hi
			bob < :gw.example 404 bob #room :Cannot send to channel
			bob > TOPIC #room :mine
			bob < :gw.example 482 bob #room :You're not channel operator
			alice > TOPIC #room :ours
			alice < :alice!*@*.ip TOPIC #room :ours
			bob < :alice!*@*.ip TOPIC #room :ours
			bob > TOPIC #room
			bob < :gw.example 332 bob #room :ours
			bob < :gw.example 333 bob #room alice *
			bob > KICK #room alice
			bob < :gw.example 482 bob #room :You're not channel operator
			alice > KICK #room bob :out
			alice < :alice!*@*.ip KICK #room bob :out
			bob < :alice!*@*.ip KICK #room bob :out
			bob > MODE #room
			bob < :gw.example 324 bob #room +mnt
			bob < :gw.example 329 bob #room *`,
		"rfc2812 3.3, message-tags, echo-message, account-tag, server-time": `
			alice joins message-tags echo-message server-time
			bob joins message-tags
			carol joins
			alice > @+x=1;y=2 PRIVMSG bob :hello
			alice < @*time=*Z* :alice!*@*.ip PRIVMSG bob :hello
			bob < @*+x=1* :alice!*@*.ip PRIVMSG bob :hello
			alice > @+x=1 TAGMSG carol
			alice < @* :alice!*@*.ip TAGMSG carol
			alice > @+x=1 NOTICE carol :plain
			alice < @* :alice!*@*.ip NOTICE carol :plain
			carol < :alice!*@*.ip NOTICE carol :plain
			carol > PRIVMSG nobody :hi
			carol < :gw.example 401 carol nobody :No such nick
			carol > NOTICE nobody :hi
			carol > PRIVMSG
			carol < :gw.example 411 carol :No recipient given (PRIVMSG)
			carol > PRIVMSG bob
			carol < :gw.example 412 carol :No text to send
			carol > AWAY :gone
			carol < :gw.example 306 *
			bob > PRIVMSG carol,alice :both
			bob < :gw.example 301 bob carol :gone
			carol < :bob!*@*.ip PRIVMSG carol :both
			alice < @* :bob!*@*.ip PRIVMSG alice :both
			carol > PRIVMSG #nowhere :hi
			carol < :gw.example 403 carol #nowhere :No such channel`,
		"labeled-response: one answer, none, several": `
			alice joins labeled-response batch echo-message message-tags
			alice > @label=a PING x
			alice < @label=a :gw.example PONG gw.example :x
			alice > @label=b PONG x
			alice < @label=b :gw.example ACK
			alice > @label=c JOIN #room
			alice < @label=c :gw.example BATCH +* labeled-response
			alice < @batch=* JOIN #room
			alice < @batch=* 353 *
			alice < @batch=* 366 *
			alice < :gw.example BATCH -*
			alice > @label=d PRIVMSG #room :hi
			alice < @*label=d* PRIVMSG #room :hi
			alice > @label=e NONSENSE
			alice < @label=e :gw.example 421 alice NONSENSE :Unknown command`,
		"monitor: those who are watched come and go": `
			alice joins
			alice > MONITOR + Bob,carol
			alice < :gw.example 731 alice :Bob,carol
			bob joins
			alice < :gw.example 730 alice :bob!bob@*.ip
			bob > NICK robert
			bob < *NICK :robert
			alice < :gw.example 731 alice :bob
			alice > MONITOR L
			alice < :gw.example 732 alice :bob,carol
			alice < :gw.example 733 alice :End of MONITOR list
			alice > MONITOR - carol
			alice > MONITOR S
			alice < :gw.example 731 alice :bob
			alice > MONITOR C
			alice > MONITOR L
			alice < :gw.example 733 alice :End of MONITOR list`,
		"rfc2812 3.6, whox: who somebody is": `
			alice joins
			bob joins
			alice > WHO bob
			alice < :gw.example 352 alice * bob *.ip gw.example bob H :0 real bob
			alice < :gw.example 315 alice bob :End of WHO list
			alice > WHO b* %tna,42
			alice < :gw.example 354 alice 42 bob 0
			alice < :gw.example 315 alice b* :End of WHO list
			alice > WHOIS bob
			alice < :gw.example 311 alice bob bob *.ip * :real bob
			alice < :gw.example 312 alice bob gw.example :Test
			alice < :gw.example 320 alice bob :is a guest
			alice < :gw.example 317 alice bob * * :seconds idle, signon time
			alice < :gw.example 318 alice bob :End of WHOIS list
			alice > WHOIS nobody
			alice < :gw.example 401 alice nobody :No such nick
			alice < :gw.example 318 alice nobody :End of WHOIS list
			alice > ISON bob nobody ALICE
			alice < :gw.example 303 alice :bob alice
			alice > USERHOST bob
			alice < :gw.example 302 alice :bob=+bob@*.ip
			alice > MODE alice +iz
			alice < :gw.example 501 alice :Unknown MODE flag
			alice < :alice!*@*.ip MODE alice +i
			alice > MODE alice
			alice < :gw.example 221 alice +i
			bob > WHO a*
			bob < :gw.example 315 bob a* :End of WHO list`,
		"rfc2812 3.2.6: LIST tells of no secret channel": `
			alice joins
			alice > JOIN #secret
			alice < *JOIN*
			alice < *353*
			alice < *366*
			alice > MODE #secret +s
			alice < *MODE #secret +s
			bob joins
			bob > LIST
			bob < :gw.example 322 bob #ops 0 :
			bob < :gw.example 323 bob :End of LIST
			bob > NAMES #secret
			bob < :gw.example 366 bob #secret :End of NAMES list
			bob > JOIN #secret
			bob < *JOIN #secret
			bob < *353 bob @ #secret :@alice bob
			bob < *366*
			alice < *JOIN #secret`,
		"setname, quit, and unknown commands": `
			alice joins setname standard-replies
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
			alice > SETNAME :another
			alice < :alice!*@*.ip SETNAME :another
			alice > SETNAME :
			alice < :gw.example FAIL SETNAME INVALID_REALNAME :Realname is not valid
			c joins
			c > JOIN #room
			c < *JOIN*
			c < *353*
			c < *366*
			alice < *JOIN*
			bob < *JOIN*`,
		"utf8-only, size limits: what cannot be read is told and passed over": `
			alice joins standard-replies
			alice > PRIVMSG #ops :` + "\xff" + `
			alice < :gw.example FAIL * INVALID_UTF8 :*
			alice > PRIVMSG #ops :` + strings.Repeat("x", 600) + `
			alice < :gw.example 417 alice :Input line was too long
			alice > @+x=` + strings.Repeat("x", 4092) + ` TAGMSG alice
			alice < :gw.example 417 alice :Input line was too long
			alice > @+x=` + strings.Repeat("x", 1<<20) + ` TAGMSG alice
			alice < :gw.example 417 alice :Input line was too long
			alice > @` + manyTags(70) + ` TAGMSG alice
			alice < :gw.example 417 alice :Too many tags`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, start(t, testConfig()), scene)
		})
	}
}

func manyTags(n int) string {
	var tags []string
	for i := range n {
		tags = append(tags, fmt.Sprintf("+t%d=1", i))
	}
	return strings.Join(tags, ";")
}

func TestTagsOfTheLargestSizeArePassed(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig())
	peers := play(t, h, login+"\nbob joins message-tags server-time account-tag")
	value := strings.Repeat(`\s`, (4094-len("+x="))/2)
	peers["ada"].say(t, "@+x="+value+" TAGMSG bob")
	got := peers["bob"].hear(t)
	tags, _, _ := strings.Cut(got, " ")
	if !strings.Contains(got, "+x="+value) || !strings.Contains(got, "account=did:key:") || !strings.Contains(got, "time=") || len(tags)+len(" ") > 8191 {
		t.Errorf("%d bytes of tags arrive", len(tags))
	}
}

// answerTo returns the line that answers a challenge.
func answerTo(did, signature string) string {
	json := fmt.Sprintf(`{"did":%q,"signature":%q}`, did, base64.RawURLEncoding.EncodeToString([]byte(signature)))
	return "AUTHENTICATE " + base64.RawURLEncoding.EncodeToString([]byte(json))
}

const ada = federation.DID("did:key:z6MktULudTtAsAhRegYPiZ6631RV3viv12qd4GQF8z1xB22S")

func TestLoginByEachMechanism(t *testing.T) {
	t.Parallel()
	good, bad := answerTo(string(ada), "signed by "+string(ada)), answerTo(string(ada), "forged")
	for name, scene := range map[string]string{
		"sasl: a DID is proved by a signature": `
			ada > CAP REQ :sasl account-notify account-tag extended-join
			ada < *ACK*
			ada > AUTHENTICATE ATPROTO-CHALLENGE
			ada < AUTHENTICATE *
			ada > ` + good + `
			ada < :gw.example 900 * ` + "*!*@*.ip" + ` ` + string(ada) + ` :You are now logged in as ` + string(ada) + `
			ada < :gw.example 903 * :SASL authentication successful
			ada > AUTHENTICATE ATPROTO-CHALLENGE
			ada < :gw.example 907 *
			ada > CAP END
			ada joins
			bob joins account-tag extended-join
			bob > JOIN #ops
			bob < *JOIN #ops*
			bob < *353*
			bob < *366*
			ada > JOIN #ops
			ada < @account=* :ada!*@*.ip JOIN #ops ` + string(ada) + ` :real ada
			ada < *353*
			ada < *366*
			bob < @account=* :ada!*@*.ip JOIN #ops ` + string(ada) + ` :real ada
			ada > PRIVMSG #ops :hi
			bob < @account=` + string(ada) + ` :ada!*@*.ip PRIVMSG #ops :hi
			bob > WHOIS ada
			bob < *311*
			bob < *319 bob ada *ops
			bob < *312*
			bob < :gw.example 330 bob ada ` + string(ada) + ` :is logged in as
			bob < :gw.example 320 bob ada :has proved a key that it made itself
			bob < *317*
			bob < *318*`,
		"sasl: a login that fails, and may be tried again": `
			ada > AUTHENTICATE SCRAM-SHA-1
			ada < :gw.example 908 * ATPROTO-CHALLENGE,SCRAM-SHA-256,PLAIN :are available SASL mechanisms
			ada < :gw.example 904 * :SASL authentication failed
			ada > AUTHENTICATE ATPROTO-CHALLENGE
			ada < AUTHENTICATE *
			ada > AUTHENTICATE *
			ada < :gw.example 906 * :SASL authentication aborted
			ada > AUTHENTICATE ATPROTO-CHALLENGE
			ada < AUTHENTICATE *
			ada > ` + answerTo(string(ada), "away") + `
			ada < :gw.example 904 * :SASL authentication failed: try again later
			ada > AUTHENTICATE ATPROTO-CHALLENGE
			ada < AUTHENTICATE *
			ada > ` + bad + `
			ada < :gw.example 904 * :SASL authentication failed: the signature is not by a key of the DID`,
		"nobody logs in as the gateway": `
			ada > AUTHENTICATE ATPROTO-CHALLENGE
			ada < AUTHENTICATE *
			ada > ` + answerTo("did:web:gw.example", "signed by did:web:gw.example") + `
			ada < :gw.example 904 * :SASL authentication failed: the DID is that of the gateway itself`,
		"operators and bans go by DID, whatever the nick": login + loginAs("eve", bob) + `
			ada > JOIN #room
			ada < *JOIN*
			ada < *353 ada = #room :@ada
			ada < *366*
			eve > JOIN #room
			eve < *JOIN*
			eve < *353*
			eve < *366*
			ada < *JOIN*
			ada > PART #room
			ada < *PART*
			eve < *PART*
			ada > NICK Lovelace
			ada < *NICK :Lovelace
			ada > JOIN #room
			ada < *JOIN*
			ada < *353 Lovelace = #room :@Lovelace eve
			ada < *366*
			eve < *JOIN*
			eve < :gw.example MODE #room +o Lovelace
			ada > MODE #room +b ` + string(bob) + `
			ada < *MODE #room +b ` + string(bob) + `
			eve < *MODE #room +b ` + string(bob) + `
			eve > PRIVMSG #room :still here?
			eve < :gw.example 404 eve #room :Cannot send to channel
			eve > PART #room
			eve < *PART*
			ada < *PART*
			eve > NICK adam
			eve < *NICK :adam
			eve > JOIN #room
			eve < :gw.example 474 adam #room :Cannot join channel (+b)
			ada > MODE #room -b ` + string(bob) + `
			ada < *MODE #room -b ` + string(bob) + `
			eve > JOIN #room
			eve < *JOIN*
			eve < *353*
			eve < *366*
			ada < *JOIN*`,
		"a key is registered by who proved a DID": `
			ada joins standard-replies
			ada > MSGSIG xyz
			ada < :gw.example FAIL MSGSIG NOT_AUTHENTICATED :Log in first
			ada > AUTHENTICATE ATPROTO-CHALLENGE
			ada < AUTHENTICATE *
			ada > ` + good + `
			ada < *900*
			ada < *903*
			ada > MSGSIG xyz
			ada < :gw.example FAIL MSGSIG INVALID_KEY :*
			ada > MSGSIG ` + base64.RawURLEncoding.EncodeToString(make([]byte, 32)) + `
			ada < :gw.example FAIL MSGSIG INVALID_KEY :A key of small order proves nothing; make a new one
			ada > MSGSIG ` + base64.RawURLEncoding.EncodeToString(append([]byte{0xf0}, append(bytes.Repeat([]byte{0xff}, 30), 0x7f)...)) + `
			ada < :gw.example FAIL MSGSIG INVALID_KEY :Want an Ed25519 public key, 32 bytes in base64url
			ada > MSGSIG ` + base64.RawURLEncoding.EncodeToString(append([]byte{9}, make([]byte, 31)...)) + `
			ada < :gw.example MSGSIG OK`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, start(t, testConfig()), scene)
		})
	}
}

func TestLoginFailuresEndTheConnection(t *testing.T) {
	t.Parallel()
	p := dial(t, start(t, testConfig()).addr)
	for range 3 {
		p.say(t, "AUTHENTICATE ATPROTO-CHALLENGE", answerTo(string(ada), "forged"))
	}
	p.until(t, "ERROR :Closing link: Too many failed logins")
}

package client_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc/client"
)

const multilineCaps = "draft/multiline batch message-tags echo-message labeled-response standard-replies"

// joinsForLines is a scene in which alice joins #ops, and speaksInLines one in which she sends a message
// of several lines there.
const (
	joinsForLines = `
		alice joins ` + multilineCaps + `
		alice > JOIN #ops
		alice < *JOIN*
		alice < *353*
		alice < *366*`
	speaksInLines = `
		alice > @label=x;+draft/reply=q BATCH +1 draft/multiline #ops
		alice > @batch=1 PRIVMSG #ops :one
		alice > @batch=1 PRIVMSG #ops :
		alice > @batch=1 PRIVMSG #ops :two and
		alice > @batch=1;draft/multiline-concat PRIVMSG #ops : a half
		alice > BATCH -1
		alice < @*label=x* :alice!* BATCH +* draft/multiline #ops
		alice < @batch=* :alice!* PRIVMSG #ops :one
		alice < @batch=* :alice!* PRIVMSG #ops :
		alice < @batch=* :alice!* PRIVMSG #ops :two and
		alice < @*draft/multiline-concat* :alice!* PRIVMSG #ops : a half
		alice < :alice!* BATCH -*`
)

func TestMultilineIsOneMessageForItsReaders(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig())
	play(t, h, joinsForLines+`
		bob joins draft/multiline batch message-tags
		bob > JOIN #ops
		bob < *JOIN*
		alice < :bob!* JOIN #ops
		bob < *353*
		bob < *366*
		carol joins message-tags
		carol > JOIN #ops
		carol < *JOIN*
		alice < :carol!* JOIN #ops
		bob < :carol!* JOIN #ops
		carol < *353*
		carol < *366*`+speaksInLines+`
		bob < @*+draft/reply=q* :alice!* BATCH +* draft/multiline #ops
		bob < @batch=* :alice!* PRIVMSG #ops :one
		bob < @batch=* :alice!* PRIVMSG #ops :
		bob < @batch=* :alice!* PRIVMSG #ops :two and
		bob < @*draft/multiline-concat* :alice!* PRIVMSG #ops : a half
		bob < :alice!* BATCH -*
		carol < @*msgid=* :alice!* PRIVMSG #ops :one
		carol < @+draft/reply=q :alice!* PRIVMSG #ops :two and
		carol < @+draft/reply=q :alice!* PRIVMSG #ops : a half
		dave joins draft/multiline draft/chathistory batch message-tags
		dave > JOIN #ops
		dave < *JOIN*
		alice < :dave!* JOIN #ops
		bob < :dave!* JOIN #ops
		carol < :dave!* JOIN #ops
		dave < *353*
		dave < *366*
		dave > CHATHISTORY LATEST #ops * 10
		dave < *BATCH +* chathistory #ops
		dave < @*batch=* :alice!* BATCH +* draft/multiline #ops
		dave < @batch=* :alice!* PRIVMSG #ops :one
		dave < @batch=* :alice!* PRIVMSG #ops :
		dave < @batch=* :alice!* PRIVMSG #ops :two and a half
		dave < :alice!* BATCH -*
		dave < :gw.example BATCH -*`)
}

func TestMultilineIsRelayedAsLines(t *testing.T) {
	t.Parallel()
	kept := relayed{lines: make(chan string, 8)}
	cfg := testConfig()
	cfg.RelayChat = []string{"#ops"}
	h := start(t, cfg, func(d *client.Deps) { d.Messages = kept })
	play(t, h, joinsForLines+strings.Replace(speaksInLines, ";+draft/reply=q", "", 1))
	if diff := cmp.Diff([]string{"#ops alice: one", "#ops alice: two and a half"}, []string{<-kept.lines, <-kept.lines}); diff != "" {
		t.Error(diff)
	}
}

func TestMultilineIsRefusedWhole(t *testing.T) {
	t.Parallel()
	many, long := "", ""
	for range 33 {
		many += "\n\t\talice > @batch=1 PRIVMSG #ops :x"
	}
	for range 11 {
		long += "\n\t\talice > @batch=1 PRIVMSG #ops :" + strings.Repeat("x", 400)
	}
	const begins = joinsForLines + `
		alice > @label=x BATCH +1 draft/multiline #ops`
	for name, scene := range map[string]string{
		"too many lines":      many + "\n\t\talice < @label=x :gw.example FAIL BATCH MULTILINE_MAX_LINES 32 :*",
		"too much text":       long + "\n\t\talice < @label=x :gw.example FAIL BATCH MULTILINE_MAX_BYTES 4096 :*",
		"another target":      "\n\t\talice > @batch=1 PRIVMSG #room :x\n\t\talice < @label=x :gw.example FAIL BATCH MULTILINE_INVALID_TARGET #ops :*",
		"another batch":       "\n\t\talice > @batch=2 PRIVMSG #ops :x\n\t\talice < @label=x :gw.example FAIL BATCH MULTILINE_INVALID :*",
		"another command":     "\n\t\talice > @batch=1 PRIVMSG #ops :x\n\t\talice > @batch=1 NOTICE #ops :x\n\t\talice < @label=x :gw.example FAIL BATCH MULTILINE_INVALID :*",
		"no text":             "\n\t\talice > @batch=1 PRIVMSG #ops :\n\t\talice > BATCH -1\n\t\talice < @label=x :gw.example FAIL BATCH MULTILINE_INVALID :*",
		"nothing joined":      "\n\t\talice > @batch=1;draft/multiline-concat PRIVMSG #ops :\n\t\talice < @label=x :gw.example FAIL BATCH MULTILINE_INVALID :*",
		"one within another":  "\n\t\talice > BATCH +2 draft/multiline #ops\n\t\talice < @label=x :gw.example FAIL BATCH MULTILINE_INVALID :*",
		"another kind inside": "\n\t\talice > BATCH -1\n\t\talice < @label=x :gw.example FAIL BATCH MULTILINE_INVALID :*\n\t\talice > BATCH +2 netsplit #ops\n\t\talice < :gw.example FAIL BATCH MULTILINE_INVALID :*",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, start(t, testConfig()), begins+scene)
		})
	}
}

func TestMultilineLimitAnswersTheBatch(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig(), func(d *client.Deps) { d.Limits = bridge.Limits{UserEventsPerMinute: 2} })
	play(t, h, joinsForLines+`
		alice > @label=x BATCH +1 draft/multiline #ops
		alice > @batch=1 PRIVMSG #ops :one
		alice > @batch=1 PRIVMSG #ops :two
		alice > @batch=1 PRIVMSG #ops :three
		alice < @label=x :gw.example FAIL BATCH RATE_LIMITED * :*`)
}

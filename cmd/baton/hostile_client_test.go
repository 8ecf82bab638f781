package main_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// An ircListener is one listener for IRC clients, as the address at which a client of plain
// IRC reaches it.
type ircListener struct {
	*stage

	addr string
}

var nicks atomic.Int64

// nextNick returns a nick that no client had before.
func nextNick() string { return fmt.Sprint("n", nicks.Add(1)) }

// ircListeners are the entrances for IRC clients: plain, with TLS and over WebSocket.
func ircListeners() []entrance {
	var all []entrance
	for name, reach := range map[string]func(t *testing.T, s *stage) string{
		"IRC clients": func(_ *testing.T, s *stage) string { return s.irc }, "IRC clients with TLS": overTLS, "IRC clients over WebSocket": overWebSocket,
	} {
		at := func(t *testing.T, s *stage) ircListener {
			t.Helper()
			return ircListener{s, reach(t, s)}
		}
		e := entrance{
			name:  name,
			never: map[lie]string{lieForeignHost: "the Host header belongs to the listener of operators"},
			serves: func(t *testing.T, s *stage) {
				t.Helper()
				at(t, s).offer(t, newParty(t), federation.HandoffTags)
			},
			tries: map[lie]func(*testing.T, *stage) []attempt{
				lieWeakKey: func(t *testing.T, s *stage) []attempt {
					t.Helper()
					return at(t, s).weakLogins(t)
				},
				lieBadToken: func(t *testing.T, s *stage) []attempt {
					t.Helper()
					return at(t, s).logins(t)
				},
				lieDoubled: func(t *testing.T, s *stage) []attempt {
					t.Helper()
					l := at(t, s)
					return append(l.tellAll(t, lieDoubled), l.twoDIDs(t)...)
				},
				lieOversize: func(t *testing.T, s *stage) []attempt {
					t.Helper()
					l := at(t, s)
					return append(l.tellAll(t, lieOversize), l.longLines(t)...)
				},
				lieMisshapen: func(t *testing.T, s *stage) []attempt {
					t.Helper()
					l := at(t, s)
					return append(l.tellAll(t, lieMisshapen), l.bytes(t)...)
				},
				lieInvisible: func(t *testing.T, s *stage) []attempt {
					t.Helper()
					l := at(t, s)
					return append(l.tellAll(t, lieInvisible), l.shown(t)...)
				},
				lieSlow: func(t *testing.T, s *stage) []attempt {
					t.Helper()
					return at(t, s).drip(t)
				},
			},
		}
		for _, l := range []lie{lieOtherIdentity, lieReplayed, lieTampered, lieTraversal, lieMisaddressed, lieForgedOrigin} {
			e.tries[l] = func(t *testing.T, s *stage) []attempt {
				t.Helper()
				return at(t, s).tellAll(t, l)
			}
		}
		if name == "IRC clients over WebSocket" {
			e.never[lieConnect] = "the same HTTP listener as AIRC"
		} else {
			e.tries[lieConnect] = func(t *testing.T, s *stage) []attempt {
				t.Helper()
				return at(t, s).proxied(t)
			}
		}
		all = append(all, e)
	}
	return all
}

// proves returns the answer of a party to a challenge.
func (p party) proves(challenge string) (string, error) {
	document, err := base64.RawURLEncoding.DecodeString(challenge)
	if err != nil {
		return "", err
	}
	return answerText(p.did, p.sign(document))
}

func answerText(did federation.DID, signature []byte) (string, error) {
	answer, err := json.Marshal(map[string]string{"did": string(did), "signature": base64.RawURLEncoding.EncodeToString(signature)})
	return base64.RawURLEncoding.EncodeToString(answer), err
}

// login connects a client that proves a DID and joins the channel.
func (l ircListener) login(t *testing.T, p party) *bridgetest.IRCClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := bridgetest.LogInIRC(ctx, l.addr, nextNick(), p.proves, "sasl", "message-tags", "standard-replies", "echo-message")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if err := client.Join(ctx, channelOfStage); err != nil {
		t.Fatal(err)
	}
	return client
}

// offer logs an honest party in and files an offer of it.
func (l ircListener) offer(t *testing.T, p party, d federation.Dialect) taggedStep {
	t.Helper()
	client := l.login(t, p)
	defer client.Close()
	offer := p.offer(t, d, federation.DID(l.scout.DID), nil)
	if got := l.says(t, client, channelOfStage, offer); got != "filed" {
		t.Fatalf("an honest offer is answered %q", got)
	}
	l.files(offer.id)
	return offer
}

// says sends a step and returns the code of its refusal, or that it is filed.
func (l ircListener) says(t *testing.T, client *bridgetest.IRCClient, target string, step taggedStep) string {
	t.Helper()
	if err := client.Send(step.tags, "TAGMSG", target); err != nil {
		return err.Error()
	}
	return replyTo(t, client, step.id)
}

// replyTo returns the first reply to a message of a client.
func replyTo(t *testing.T, client *bridgetest.IRCClient, id string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	m, err := client.Next(ctx, func(m bridgetest.IRCMessage) bool {
		return slices.Contains([]string{"FAIL", "417", "421", "401", "403", "461", "ERROR"}, m.Command) ||
			m.Command == "TAGMSG" && m.Nick == client.Nick && m.Tags["+freeq.at/eventid"] == id
	})
	switch {
	case err != nil:
		return "no answer"
	case m.Command == "TAGMSG":
		return "filed"
	case m.Command == "FAIL":
		return m.Params[1]
	}
	return m.Command
}

// tellAll has a client say the steps of a lie in both dialects.
func (l ircListener) tellAll(t *testing.T, told lie) []attempt {
	t.Helper()
	var all []attempt
	for _, d := range []federation.Dialect{federation.HandoffTags, federation.ActTags} {
		mallory, honest := newParty(t), newParty(t)
		filed := l.offer(t, honest, d)
		client := l.login(t, mallory)
		for _, step := range (scene{d, mallory, honest, filed, federation.DID(l.scout.DID)}).lyingSteps(t, told) {
			want := step.want.Upper()
			if told == lieOtherIdentity && step.want == federation.SignatureInvalid || told == lieReplayed && step.target == "Baton" {
				want = federation.ActorMismatch.Upper() // the login identifies the speaker, before any signature
			}
			answer := l.says(t, client, step.target, step.step)
			if answer == want {
				l.counts(refusal("client", answer))
			}
			all = append(all, attempt{fmt.Sprint(d, ": ", step.name), answer, want})
		}
		client.Close()
	}
	return all
}

// authenticate begins a login on a connection of its own, and returns its end: 903 or 904.
func (l ircListener) authenticate(t *testing.T, mechanism string, answer func(challenge string) string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := bridgetest.DialIRC(ctx, l.addr, nextNick(), "sasl")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range weakTries {
		if err := client.Send(nil, "AUTHENTICATE", mechanism); err != nil {
			t.Fatal(err)
		}
		m, err := client.Next(ctx, func(m bridgetest.IRCMessage) bool { return m.Command == "AUTHENTICATE" || m.Command == "904" })
		if err != nil {
			t.Fatal(err)
		}
		if m.Command == "904" {
			return m.Command
		}
		said := answer(m.Params[0]) // "*" begins again
		if err := client.Send(nil, "AUTHENTICATE", said); err != nil {
			t.Fatal(err)
		}
		m, err = client.Next(ctx, func(m bridgetest.IRCMessage) bool {
			return slices.Contains([]string{"903", "904", "905", "906"}, m.Command)
		})
		if err != nil {
			t.Fatal(err)
		}
		if said != "*" {
			return m.Command
		}
	}
	t.Fatal("no challenge fits the signature of a weak key")
	return ""
}

// weakLogins logs in with each weak key, and registers each for an honest login.
func (l ircListener) weakLogins(t *testing.T) []attempt {
	t.Helper()
	var all []attempt
	client := l.login(t, newParty(t))
	for _, weak := range weakParties(t) {
		got := l.authenticate(t, "ATPROTO-CHALLENGE", func(challenge string) string {
			document, err := base64.RawURLEncoding.DecodeString(challenge)
			if err != nil {
				t.Fatal(err)
			}
			if !weak.signs(document) {
				return "*"
			}
			text, _ := weak.proves(challenge)
			return text
		})
		all = append(all, attempt{"login with " + weak.String(), got, "904"})
		if err := client.Send(nil, "MSGSIG", base64.RawURLEncoding.EncodeToString(weak.public)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), answerTime)
		m, err := client.Next(ctx, func(m bridgetest.IRCMessage) bool { return m.Command == "FAIL" || m.Command == "MSGSIG" })
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, attempt{"MSGSIG with " + weak.String(), strings.Join(m.Params[:min(2, len(m.Params))], " "), "MSGSIG INVALID_KEY"})
	}
	return all
}

// logins answers the challenge of a login with invalid proofs.
func (l ircListener) logins(t *testing.T) []attempt {
	t.Helper()
	honest, mallory := newParty(t), newParty(t)
	var seen string // the answer of the honest party, as a listener on the way has it
	client, err := bridgetest.LogInIRC(t.Context(), l.addr, nextNick(), func(challenge string) (string, error) {
		answer, err := honest.proves(challenge)
		seen = answer
		return answer, err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	sign := func(did federation.DID, by party) func(string) string {
		return func(challenge string) string {
			document, _ := base64.RawURLEncoding.DecodeString(challenge)
			text, _ := answerText(did, by.sign(document))
			return text
		}
	}
	said := func(text string) func(string) string { return func(string) string { return text } }
	encoded := func(text string) func(string) string { return said(base64.RawURLEncoding.EncodeToString([]byte(text))) }
	plain := func(name, token string) func(string) string {
		return said(base64.StdEncoding.EncodeToString([]byte("\x00" + name + "\x00" + token)))
	}
	var all []attempt
	for _, try := range []struct {
		name, mechanism string
		answer          func(string) string
		want            string
	}{
		{"an answer to another challenge", "ATPROTO-CHALLENGE", said(seen), "904"},
		{"the signature of another key", "ATPROTO-CHALLENGE", sign(honest.did, mallory), "904"},
		{"the DID of the gateway", "ATPROTO-CHALLENGE", sign("did:web:gw.test", mallory), "904"},
		{"a DID with dots", "ATPROTO-CHALLENGE", sign("did:web:../../etc", mallory), "904"},
		{"no JSON", "ATPROTO-CHALLENGE", encoded("hello"), "904"},
		{"no base64", "ATPROTO-CHALLENGE", said("!!!!"), "904"},
		{"the token of an agent", "PLAIN", plain("scout_7", l.scout.Token), "904"},
		{"a token that is no token", "PLAIN", plain("mallory", "garbage"), "904"},
		{"another mechanism", "SCRAM-SHA-256", said("x"), "904"},
		{"too long an answer", "ATPROTO-CHALLENGE", said(strings.Repeat("A", 401)), "905"},
	} {
		all = append(all, attempt{try.name, l.authenticate(t, try.mechanism, try.answer), try.want})
	}
	return all
}

// twoDIDs proves one DID and names another one in the same answer.
func (l ircListener) twoDIDs(t *testing.T) []attempt {
	t.Helper()
	honest, mallory := newParty(t), newParty(t)
	var all []attempt
	for _, dids := range [][2]federation.DID{{honest.did, mallory.did}, {mallory.did, honest.did}} {
		got := l.authenticate(t, "ATPROTO-CHALLENGE", func(challenge string) string {
			document, _ := base64.RawURLEncoding.DecodeString(challenge)
			signature := base64.RawURLEncoding.EncodeToString(mallory.sign(document))
			return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"did":%q,"did":%q,"signature":%q}`, dids[0], dids[1], signature))
		})
		all = append(all, attempt{"a login with two DIDs", got, "904"})
	}
	return all
}

// longLines sends lines and tags above the limits.
func (l ircListener) longLines(t *testing.T) []attempt {
	t.Helper()
	client := l.login(t, newParty(t))
	var all []attempt
	for name, line := range map[string]string{
		"a line of 600 bytes":  "PRIVMSG " + channelOfStage + " :" + strings.Repeat("x", 600),
		"tags of 8 KiB":        "@+x=" + strings.Repeat("x", 8<<10) + " TAGMSG " + channelOfStage,
		"a line of a megabyte": "PRIVMSG " + channelOfStage + " :" + strings.Repeat("x", 1<<20),
		"ten thousand tags":    "@" + strings.Repeat("+x=1;", 10_000) + "+x=1 TAGMSG " + channelOfStage,
	} {
		all = append(all, l.line(t, client, name, line, "417", "too_long"))
	}
	return all
}

// line sends one line as it is, and notes the counter of unreadable input.
func (l ircListener) line(t *testing.T, client *bridgetest.IRCClient, name, line, want, reason string) attempt {
	t.Helper()
	if err := client.SendRaw([]byte(line + "\r\n")); err != nil {
		t.Fatal(err)
	}
	answer := replyTo(t, client, "")
	if answer == want && reason != "" {
		l.counts(badInput("client", "client", reason))
	}
	return attempt{name, answer, want}
}

// bytes sends invalid text.
func (l ircListener) bytes(t *testing.T) []attempt {
	t.Helper()
	client := l.login(t, newParty(t))
	return []attempt{
		l.line(t, client, "invalid UTF-8 in a message", "PRIVMSG "+channelOfStage+" :\xff\xfe", "INVALID_UTF8", "not_utf8"),
		l.line(t, client, "invalid UTF-8 in tags", "@+freeq.at/handoff=\xff TAGMSG "+channelOfStage, "INVALID_UTF8", "not_utf8"),
		l.line(t, client, "an overlong encoding", "PRIVMSG "+channelOfStage+" :\xc0\xaf", "INVALID_UTF8", "not_utf8"),
		l.line(t, client, "a null byte", "PRIVMSG "+channelOfStage+" :a\x00b", "INVALID_MESSAGE", "malformed"),
	}
}

// shown files offers whose titles people cannot see whole, and reads the lines for people.
func (l ircListener) shown(t *testing.T) []attempt {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	honest := newParty(t)
	client := l.login(t, honest)
	reader, err := bridgetest.DialIRC(ctx, l.addr, nextNick())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := reader.Join(ctx, channelOfStage); err != nil {
		t.Fatal(err)
	}
	var all []attempt
	for name, title := range unseen() {
		offer := honest.offer(t, federation.HandoffTags, federation.DID(l.scout.DID), map[string]string{"handoff-task": title})
		if got := l.says(t, client, channelOfStage, offer); got != "filed" {
			all = append(all, attempt{name, got, "filed"})
			continue
		}
		l.files(offer.id)
		m, err := reader.Next(ctx, func(m bridgetest.IRCMessage) bool { return isLineOf(m, offer.id) })
		if err != nil {
			t.Fatal(err)
		}
		answer := "clean"
		if hidden(m.Params[1]) {
			answer = fmt.Sprintf("%q", m.Params[1])
		}
		all = append(all, attempt{name, answer, "clean"})
	}
	return all
}

// drip opens connections that never register. The gateway ends each in its time, and
// meanwhile lets an honest client in.
func (l ircListener) drip(t *testing.T) []attempt {
	t.Helper()
	const connections = 32
	var all []attempt
	for range connections {
		conn := dialStage(t, "tcp", l.addr)
		fmt.Fprint(conn, "NICK ")
	}
	begun := time.Now()
	l.offer(t, newParty(t), federation.HandoffTags)
	for range connections {
		answer := "served"
		if took := time.Since(begun); took > answerTime {
			answer = fmt.Sprint("served after ", took)
		}
		all = append(all, attempt{"a connection that never registers", answer, "served"})
	}
	return all
}

func (l ircListener) proxied(t *testing.T) []attempt {
	t.Helper()
	var all []attempt
	for _, line := range []string{"CONNECT 127.0.0.1:22 HTTP/1.1", "GET http://127.0.0.1/ HTTP/1.1", "POST / HTTP/1.1"} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		client, err := bridgetest.DialIRC(ctx, l.addr, nextNick())
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l.line(t, client, line, line, "421", ""))
		client.Close()
	}
	return all
}

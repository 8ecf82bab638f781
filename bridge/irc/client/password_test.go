package client_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/xdg-go/scram"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/client"
	"github.com/baton-gateway/baton/federation"
)

const secret = "correct horse, battery"

// withPassword returns a listener on which ada has a password and the name "ada".
func withPassword(t *testing.T, tweak ...func(*client.Deps)) *house {
	t.Helper()
	h := start(t, secured(), tweak...)
	h.gateway.bound["client ada"] = federation.BoundName{DID: ada}
	p := dial(t, h.addr)
	p.login(t)
	p.say(t, "PRIVMSG Baton :password short")
	p.until(t, "*NOTICE ada :That is no password: want 8 to 256 bytes*")
	p.say(t, "PRIVMSG Baton :password "+secret)
	p.until(t, "*NOTICE ada :Your password is set.*")
	return h
}

// loginByScram logs in with SCRAM-SHA-256, and returns the numeric that answers it.
func (p *peer) loginByScram(t *testing.T, name, password, as string) string {
	t.Helper()
	by, err := scram.SHA256.NewClient(name, password, as)
	if err != nil {
		t.Fatal(err)
	}
	talk := by.NewConversation()
	p.say(t, "AUTHENTICATE SCRAM-SHA-256")
	p.until(t, "AUTHENTICATE +")
	from := ""
	for !talk.Done() {
		text, err := talk.Step(from)
		if err != nil {
			t.Fatal(err)
		}
		if text == "" {
			break
		}
		p.say(t, "AUTHENTICATE "+base64.StdEncoding.EncodeToString([]byte(text)))
		line := p.hear(t)
		encoded, goesOn := strings.CutPrefix(line, "AUTHENTICATE ")
		if !goesOn {
			return line
		}
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			t.Fatal(err)
		}
		from = string(raw)
	}
	if !talk.Valid() {
		t.Error("the server does not prove that it knows the password")
	}
	p.say(t, "AUTHENTICATE +")
	return p.until(t, "*SASL authentication*")
}

func TestPasswordLogsIn(t *testing.T) {
	t.Parallel()
	h := withPassword(t)
	for _, c := range []struct{ name, password, as, answer string }{
		{"ada", secret, "", "* 903 *"},
		{string(ada), secret, "", "* 903 *"},
		{"ada", secret, string(ada), "* 903 *"},
		{"ada", secret, "eve", "* 904 *"},
		{"ada", secret + "!", "", "* 904 *the account or the password is wrong"},
		{string(bob), secret, "", "* 904 *the account or the password is wrong"}, // has no password
		{"nobody", secret, "", "* 904 *the account or the password is wrong"},
	} {
		p := dial(t, h.addr)
		if got := p.loginByScram(t, c.name, c.password, c.as); !matches(c.answer, got) {
			t.Errorf("SCRAM of %s as %q with %q: %q", c.name, c.as, c.password, got)
		}
		p = dial(t, h.addr)
		p.say(t, "AUTHENTICATE PLAIN", loginByToken(c.as, c.name, c.password))
		if got := p.until(t, "*SASL authentication*"); !matches(c.answer, got) {
			t.Errorf("PLAIN of %s as %q with %q: %q", c.name, c.as, c.password, got)
		}
	}
	kept, err := h.record.Password(t.Context(), ada)
	if err != nil || strings.Contains(string(kept.Salt)+string(kept.StoredKey)+string(kept.ServerKey), secret) {
		t.Errorf("the record keeps %v, %v", kept, err)
	}
}

// A deleted password ends the logins made with it, and no others of its DID.
func TestPasswordDeletedEndsItsLogins(t *testing.T) {
	t.Parallel()
	wakes := &bridgetest.Topics{}
	h := withPassword(t, func(d *client.Deps) { d.PubSub = wakes })
	byScram, byPlain, byKey := dial(t, h.addr), dial(t, h.addr), dial(t, h.addr)
	byScram.loginByScram(t, "ada", secret, "")
	byPlain.say(t, "AUTHENTICATE PLAIN", loginByToken("", "ada", secret))
	byPlain.until(t, "* 903 *")
	byKey.loginAs(t, "key")
	topic := bridge.SessionsTopic(string(ada))
	for wakes.WaitingFor(topic) < 4 { // the fourth set the password
		byKey.say(t, "PING x")
		byKey.until(t, "*PONG*")
	}
	if err := h.record.DropPassword(t.Context(), ada); err != nil {
		t.Fatal(err)
	}
	wakes.Wake(topic)
	for _, p := range []*peer{byScram, byPlain} {
		p.until(t, "ERROR :Closing link: The key or password of your login is not valid any more")
	}
	byKey.say(t, "PING stays")
	byKey.until(t, "*PONG gw.example :stays")
	p := dial(t, h.addr)
	if got := p.loginByScram(t, "ada", secret, ""); !matches("* 904 *the account or the password is wrong", got) {
		t.Errorf("the deleted password is answered %q", got)
	}
}

// An account without a password has the same salt after each start, as one with a password has.
func TestPasswordSaltOutlivesARestart(t *testing.T) {
	t.Parallel()
	salt := func(key byte, name string) string {
		h := start(t, testConfig(), func(d *client.Deps) { d.TokenKey = []byte{key} })
		h.gateway.bound["client bob"] = federation.BoundName{DID: bob}
		p := dial(t, h.addr)
		p.say(t, "AUTHENTICATE SCRAM-SHA-256")
		p.until(t, "AUTHENTICATE +")
		p.say(t, "AUTHENTICATE "+base64.StdEncoding.EncodeToString([]byte("n,,n="+name+",r=nonce")))
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(p.until(t, "AUTHENTICATE *"), "AUTHENTICATE "))
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(raw), ",s=")
		return after
	}
	first := salt(1, "nobody")
	if again := salt(1, "nobody"); again != first || first == "" {
		t.Errorf("after a restart the salt is %q, want %q", again, first)
	}
	if salt(1, "somebody") == first || salt(2, "nobody") == first {
		t.Error("another account, or a gateway with another key, has the same salt")
	}
	if name, did := salt(1, "bob"), salt(1, string(bob)); name != did {
		t.Errorf("a name has the salt %q, and its DID %q", name, did)
	}
}

func TestPasswordOfAGuestIsNotSet(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig())
	p := dial(t, h.addr)
	p.register(t, "guest", "")
	p.say(t, "PRIVMSG Baton :password "+secret)
	p.until(t, "*NOTICE guest :A password is for the gateway's own server: log in there*")
}

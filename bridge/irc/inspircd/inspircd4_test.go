//go:build interop && linux

package inspircd_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/bridgetest"
)

// eachInspIRCd runs a test against Debian's InspIRCd 3, which speaks 1205, and against the
// InspIRCd 4 whose binary INSPIRCD4 names, which speaks 1206.
func eachInspIRCd(t *testing.T, test func(t *testing.T, server func(*setup))) {
	t.Helper()
	t.Run("InspIRCd 3", func(t *testing.T) { test(t, func(*setup) {}) })
	binary := os.Getenv("INSPIRCD4")
	if binary == "" {
		t.Log("not run with InspIRCd 4: INSPIRCD4 is unset")
		return
	}
	t.Run("InspIRCd 4", func(t *testing.T) {
		test(t, func(s *setup) { s.ircd.Binary, s.ircd.Name = binary, "irc4.lab.example" })
	})
}

func TestInspIRCdVersionsSpeakTheirProtocol(t *testing.T) {
	eachInspIRCd(t, func(t *testing.T, server func(*setup)) {
		t.Helper()
		r := startReal(t, server)
		want := map[string]string{"irc.lab.example": "1205", "irc4.lab.example": "1206"}
		agreed := r.link.Describe().Negotiated
		if agreed["protocol"] != want[agreed["server"]] || agreed["tagmsg"] != "true" {
			t.Errorf("agreed on %v", agreed)
		}
		if err := r.tagged.Send(offerTags(), "TAGMSG", "#ops"); err != nil {
			t.Fatal(err)
		}
		r.gateway.next(t)
		if err := r.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatalf("deliver: %v\n%s", err, r.log)
		}
		await(t, r.tagged, "TAGMSG", from("scholar"))
	})
}

func TestInspIRCdUsersQueryThisServer(t *testing.T) {
	eachInspIRCd(t, func(t *testing.T, server func(*setup)) {
		t.Helper()
		r := startReal(t, server)
		if err := r.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatal(err)
		}
		for _, ask := range []struct {
			command []string
			numeric string
			want    string // in the answer
		}{
			{[]string{"WHOIS", "scholar", "scholar"}, "317", "scholar"},
			{[]string{"VERSION", "gw.example"}, "351", "Baton"},
			{[]string{"ADMIN", "gw.example"}, "257", "https://gw.example"},
			{[]string{"TIME", "gw.example"}, "391", "gw.example"},
			{[]string{"MOTD", "gw.example"}, "422", "no message of the day"},
			{[]string{"STATS", "u", "gw.example"}, "219", "End of /STATS"},
			{[]string{"NAMES", "#ops"}, "353", "scholar"},
			{[]string{"LINKS"}, "364", "gw.example"},
		} {
			if err := r.tagged.Send(nil, ask.command[0], ask.command[1:]...); err != nil {
				t.Fatal(err)
			}
			await(t, r.tagged, ask.numeric, func(m bridgetest.IRCMessage) bool {
				return strings.Contains(strings.Join(m.Params, " "), ask.want)
			})
		}
	})
}

// operated is a real server on which alice is an operator that may do all, with the modules of
// the SA commands and of modes.
func operated(t *testing.T, server func(*setup)) realServer {
	t.Helper()
	r := startReal(t, server, func(s *setup) {
		account := []string{"services_account"}
		if s.ircd.Binary != "" {
			account = []string{"account", "services"}
		}
		s.ircd.Modules = append([]string{"sanick", "sajoin", "sapart", "banexception", "inviteexception", "muteban"}, account...)
		s.ircd.Operator, s.ircd.Services = "root", "services.example"
	})
	if err := r.tagged.Send(nil, "OPER", "root", "root"); err != nil {
		t.Fatal(err)
	}
	await(t, r.tagged, "381")
	return r
}

func TestInspIRCdOperatorControlsPseudoClients(t *testing.T) {
	eachInspIRCd(t, func(t *testing.T, server func(*setup)) {
		t.Helper()
		r := operated(t, server)
		if err := r.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatal(err)
		}
		await(t, r.tagged, "JOIN", from("scholar"))
		say := func(command string, params ...string) {
			t.Helper()
			if err := r.tagged.Send(nil, command, params...); err != nil {
				t.Fatal(err)
			}
		}
		say("SANICK", "scholar", "pupil")
		await(t, r.tagged, "NICK", from("scholar"))
		say("SAPART", "pupil", "#ops")
		await(t, r.tagged, "PART", from("pupil"))
		if why := policy(t, r.house); !strings.Contains(why, "services of the network took the user out") {
			t.Errorf("refusal %q", why)
		}
		say("SAJOIN", "pupil", "#ops")
		await(t, r.tagged, "JOIN", from("pupil"))
		if why := policy(t, r.house); why != "" {
			t.Errorf("refused: %s", why)
		}
		services, err := bridgetest.LinkServices(waiting(t), r.ircd.LinkAddr, "services.example", "in-secret")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(services.Close)
		for _, order := range []struct{ line, command, by string }{ // by the user's name at that point
			{"SVSNICK %s scholar 1795226999", "NICK", "pupil"},
			{"SVSPART %s #ops", "PART", "scholar"},
			{"SVSJOIN %s #ops", "JOIN", "scholar"},
		} {
			if err := services.Order("pupil", order.line); err != nil {
				t.Fatal(err)
			}
			await(t, r.tagged, order.command, from(order.by))
		}
	})
}

// TestInspIRCdModesApplyToPseudoClients has alice, the operator of the channel, set modes that keep
// clients from speaking, and awaits the refusal of the step.
func TestInspIRCdModesApplyToPseudoClients(t *testing.T) {
	eachInspIRCd(t, func(t *testing.T, server func(*setup)) {
		t.Helper()
		r := operated(t, server)
		if err := r.link.Deliver(waiting(t), acceptRow(t)); err != nil {
			t.Fatal(err)
		}
		await(t, r.tagged, "JOIN", from("scholar"))
		change := func(params ...string) {
			t.Helper()
			if err := r.tagged.Send(nil, "MODE", append([]string{"#ops"}, params...)...); err != nil {
				t.Fatal(err)
			}
			await(t, r.tagged, "MODE", func(m bridgetest.IRCMessage) bool { return slices.Contains(m.Params, params[0]) })
			if err := r.tagged.Send(nil, "TIME", "gw.example"); err != nil { // answered after the gateway has read the mode
				t.Fatal(err)
			}
			await(t, r.tagged, "391")
		}
		for _, modes := range []struct {
			set, unset []string
			want       string
		}{
			{[]string{"+m"}, []string{"-m"}, "moderated (+m)"},
			{[]string{"+M"}, []string{"-M"}, "may not speak (+M)"},
			{[]string{"+b", "scholar!*@*"}, []string{"-b", "scholar!*@*"}, "banned (+b)"},
			{[]string{"+b", "*!*@gw.example"}, []string{"-b", "*!*@gw.example"}, "banned (+b)"},
			{[]string{"+b", "m:*!*@gw.example"}, []string{"-b", "m:*!*@gw.example"}, "banned (+b)"},
		} {
			change(modes.set...)
			if why := policy(t, r.house); !strings.Contains(why, modes.want) {
				t.Errorf("refusal with %v: %q", modes.set, why)
			}
			if got := uncarried(r.house); !strings.Contains(got, modes.want) {
				t.Errorf("not carried with %v: %q", modes.set, got)
			}
			change(modes.unset...)
			if why := policy(t, r.house); why != "" {
				t.Errorf("refused after %v: %s", modes.unset, why)
			}
		}
		for _, mode := range [][]string{{"+i"}, {"+k", "secret"}, {"+l", "1"}, {"+R"}} {
			change(mode...)
		}
		if got := uncarried(r.house); !strings.Contains(got, "(+R)") {
			t.Errorf("not carried: %q", got)
		}
		if why := policy(t, r.house); why != "" {
			t.Errorf("a member is refused: %s", why)
		}
	})
}

package inspircd_test

import (
	"bufio"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/irc/inspircd"
)

// refused runs a link once against a peer to be refused, and returns why it ended.
func refused(t *testing.T, tweak func(*inspircd.Config, *bridgetest.IRCdConfig)) string {
	t.Helper()
	peerCfg, cfg := peerConfig(), testConfig("")
	tweak(&cfg, &peerCfg)
	peer := listen(t, peerCfg)
	cfg.Address = peer.Addr()
	err := newHouse(t, cfg).link.Run(waiting(t), func() { t.Error("the link came up") })
	if err == nil {
		t.Fatal("no error")
	}
	return err.Error()
}

func TestRunRefuses(t *testing.T) {
	tests := []struct {
		name  string
		tweak func(*inspircd.Config, *bridgetest.IRCdConfig)
		want  string
	}{
		{"a peer with another password", func(_ *inspircd.Config, peer *bridgetest.IRCdConfig) {
			peer.SendPassword = "wrong"
		}, "name or password is wrong"},
		{"a peer with another name", func(_ *inspircd.Config, peer *bridgetest.IRCdConfig) {
			peer.Name = "irc.other.example"
		}, "name or password is wrong"},
		{"a peer with our server id", func(_ *inspircd.Config, peer *bridgetest.IRCdConfig) {
			peer.SID = "9GW"
		}, "malformed or ours"},
		{"to tell its password to a peer without a challenge", func(_ *inspircd.Config, peer *bridgetest.IRCdConfig) {
			peer.Plaintext = true
		}, "it offers no CHALLENGE"},
		{"nothing, but is refused with another password", func(_ *inspircd.Config, peer *bridgetest.IRCdConfig) {
			peer.RecvPassword = "wrong"
		}, "Mismatched server name or password"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := refused(t, tt.tweak); !strings.Contains(got, tt.want) {
				t.Errorf("error %q, want %q in it", got, tt.want)
			}
		})
	}
}

func TestRunSpeaksPlaintextWhereItMay(t *testing.T) {
	linked(t, func(cfg *inspircd.Config, peer *bridgetest.IRCdConfig) {
		cfg.PlaintextPasswords, peer.Plaintext = true, true
	})
}

// script is the other side of a connection, line by line.
type script struct {
	conn net.Conn
	in   *bufio.Reader
}

func (s script) say(lines ...string) { _, _ = s.conn.Write([]byte(strings.Join(lines, "\n") + "\n")) }

func (s script) hear() string {
	line, _ := s.in.ReadString('\n')
	return strings.TrimRight(line, "\r\n")
}

// scripted runs a link once against a script.
func scripted(t *testing.T, play func(s script)) (house, error) {
	t.Helper()
	h := newHouse(t, testConfig("pipe.example:1"))
	ours, theirs := net.Pipe()
	h.link.SetDial(func(context.Context) (net.Conn, error) { return ours, nil })
	var running sync.WaitGroup
	running.Go(func() { play(script{conn: theirs, in: bufio.NewReader(theirs)}) })
	err := h.link.Run(t.Context(), func() {})
	_ = theirs.Close()
	running.Wait()
	return h, err
}

func TestHandshakeNegotiates(t *testing.T) {
	for announced, answered := range map[string]string{"1205": "1205", "1206": "1206", "1207": "1206"} {
		t.Run("answers a peer that speaks "+announced+" with "+answered+" and sends no list but its challenge", func(t *testing.T) {
			var heard []string
			_, _ = scripted(t, func(s script) {
				s.say("CAPAB START " + announced)
				heard = append(heard, s.hear(), s.hear(), s.hear())
				_ = s.conn.Close()
			})
			heard[1], _, _ = strings.Cut(heard[1], "=")
			want := []string{"CAPAB START " + answered, "CAPAB CAPABILITIES :CHALLENGE", "CAPAB END"}
			if diff := cmp.Diff(want, heard); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("proves the password as InspIRCd did in a recorded link", func(t *testing.T) {
		if got, want := inspircd.Prove("labpass", "maqk_vjEPoiClasqG`Kk"), "qnxZyMtTP6bBo8lkMUQ17zxZv2jrAjohgg2phVHP65Y"; got != want {
			t.Errorf("proof %q, want %q", got, want)
		}
	})
	t.Run("refuses a peer of before 1205", func(t *testing.T) {
		_, err := scripted(t, func(s script) { s.say("CAPAB START 1203") })
		if err == nil || !strings.Contains(err.Error(), "want 1205 or newer") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("tells what a peer says before it hangs up", func(t *testing.T) {
		_, err := scripted(t, func(s script) {
			s.say("CAPAB START 1205", "ERROR :Server gw.example already exists on server irc.lab.example!")
			_ = s.conn.Close()
		})
		if err == nil || !strings.Contains(err.Error(), "already exists") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("gives up on a peer that says nothing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			_, err := scripted(t, func(script) {})
			if took := time.Since(begun); err == nil || took != 30*time.Second {
				t.Errorf("error %v after %v", err, took)
			}
		})
	})
}

// scriptedLink runs a link once against a script that begins when the link is up,
// and ends the connection after it.
func scriptedLink(t *testing.T, play func(s script)) (house, error) {
	t.Helper()
	return scripted(t, func(s script) {
		defer func() { _ = s.conn.Close() }()
		s.say("CAPAB START 1205")
		_ = s.hear()
		_, challenge, _ := strings.Cut(s.hear(), "CHALLENGE=")
		_ = s.hear()
		s.say("CAPAB MODULES :m_ircv3_ctctags.so", "CAPAB CAPABILITIES :CHALLENGE=?@{|}~", "CAPAB END")
		_ = s.hear()
		s.say("SERVER irc.lab.example AUTH:"+inspircd.Prove("out-secret", challenge)+" 0 1AA :peer",
			":1AA BURST", ":1AA ENDBURST")
		for !strings.HasSuffix(s.hear(), " ENDBURST") {
		}
		play(s)
	})
}

package inspircd

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge/irc"
)

// InspIRCd has the same limit.
const handshakeTimeout = 30 * time.Second

// Above this clock difference, a warning is logged. InspIRCd refuses the link at 60 s, and step IDs
// contain timestamps too.
const maxSkew = 15 * time.Second

const hashedPassword = "AUTH:"

// errAuthentication does not reveal whether the name or the password was wrong.
var errAuthentication = errors.New("the other server's name or password is wrong: see server_name and recv_password_file")

// The returned session is started; call [session.run] or [irc.Session.End] next.
//
// spec: InspIRCd spanning tree 1205, 1206, "CAPAB", "SERVER"
func (l *Link) handshake(ctx context.Context, conn net.Conn) (*session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, handshakeTimeout, errors.New("no answer within "+handshakeTimeout.String()))
	defer cancel()
	secured, err := l.secure(ctx, irc.QuickAck(conn))
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("link to %s: %w", l.cfg.ServerName, err)
	}
	s := newSession(l, secured)
	s.Start()
	if err = s.negotiate(ctx); err == nil {
		err = s.authenticate(ctx)
	}
	if errors.Is(err, errAuthentication) {
		s.lastWord("ERROR :Mismatched server name or password")
	}
	if err != nil {
		s.End()
		return nil, fmt.Errorf("link to %s: %w", l.cfg.ServerName, err)
	}
	return s, nil
}

// A listening end sends its own SERVER first. The rest waits for the peer's burst, which contains the
// timestamps of channels and the nicks in use.
func (s *session) burst() {
	if !s.link.dials() {
		s.put("%s", s.hello)
	}
	s.put(":%s BURST %d", s.sid(), time.Now().Unix())
	for _, item := range s.protocol.software(string(s.link.ports.Home)) {
		s.put(":%s SINFO %s :%s", s.sid(), item[0], item[1])
	}
}

// This end sends only the challenge, because any other list would have to match the peer's exactly.
func (s *session) negotiate(ctx context.Context) error {
	start, err := s.await(ctx, "CAPAB")
	if err != nil {
		return err
	}
	if len(start.Params) < 2 || start.Params[0] != "START" {
		return fmt.Errorf("want CAPAB START, got %q", start.Params)
	}
	if s.protocol, err = choose(start.Params[1]); err != nil {
		return err
	}
	s.challenge = rand.Text()
	s.put("CAPAB START %d", s.protocol)
	s.put("CAPAB CAPABILITIES :CHALLENGE=%s", s.challenge)
	s.put("CAPAB END")
	for {
		m, err := s.await(ctx, "CAPAB")
		if err != nil {
			return err
		}
		if len(m.Params) == 0 || m.Params[0] == "END" {
			return nil
		}
		s.net.capabilities(m.Params[0], strings.Join(m.Params[1:], " "))
	}
}

// The end that dialled sends SERVER first. No password is sent in clear unless the configuration
// allows it.
func (s *session) authenticate(ctx context.Context) error {
	password, err := s.password()
	if err != nil {
		return err
	}
	s.hello = s.protocol.hello(string(s.link.ports.Home), password, s.sid())
	if s.link.dials() {
		s.put("%s", s.hello)
	}
	m, err := s.await(ctx, "SERVER")
	if err != nil {
		return err
	}
	name, given, sid, ok := s.protocol.readHello(m.Params)
	if !ok {
		return errors.New("its SERVER lacks parameters")
	}
	nameGood := subtle.ConstantTimeCompare([]byte(name), []byte(s.link.cfg.ServerName))
	if nameGood&s.passwordGood(given) != 1 {
		return errAuthentication
	}
	if !validSID(sid) || sid == s.sid() {
		return fmt.Errorf("its server id %q is malformed or ours", sid)
	}
	s.net.peer = sid
	s.net.servers[sid] = ""
	return nil
}

func (s *session) password() (string, error) {
	if theirs := s.net.challenge; theirs != "" {
		return hashedPassword + prove(s.link.passwords.send, theirs), nil
	}
	if !s.link.cfg.PlaintextPasswords {
		return "", errors.New("it offers no CHALLENGE: load its sha256 module, or set plaintext_passwords")
	}
	return s.link.passwords.send, nil
}

// passwordGood takes constant time. It returns 1 or 0.
func (s *session) passwordGood(given string) int {
	want := s.link.passwords.recv
	if s.net.challenge != "" {
		want = hashedPassword + prove(want, s.challenge)
	}
	return subtle.ConstantTimeCompare([]byte(given), []byte(want))
}

func prove(password, challenge string) string {
	mac := hmac.New(sha256.New, []byte(password))
	mac.Write([]byte(challenge))
	return base64.RawStdEncoding.EncodeToString(mac.Sum(nil))
}

func (s *session) await(ctx context.Context, command string) (ircmsg.Message, error) {
	for {
		s.flush()
		select {
		case <-ctx.Done():
			return ircmsg.Message{}, context.Cause(ctx)
		case err := <-s.Broken:
			return ircmsg.Message{}, s.lost(err)
		case err := <-s.Wrote:
			s.Written(err)
		case l := <-s.Lines:
			m, wrong := parse(l)
			switch {
			case wrong != "":
				s.badInput(ctx, wrong, m.Command)
			case m.Command == "ERROR":
				return ircmsg.Message{}, saidError(m)
			case m.Command == command:
				return m, nil
			}
		}
	}
}

func saidError(m ircmsg.Message) error {
	return fmt.Errorf("it says: %s", strings.Join(m.Params, " "))
}

func (s *session) onBurst(ctx context.Context, m ircmsg.Message) error {
	if len(m.Params) == 0 {
		return nil
	}
	theirs, ok := unixSeconds(m.Params[0])
	if !ok {
		s.badInput(ctx, malformed, m.Command)
		return nil
	}
	if s.skew = time.Since(time.Unix(theirs, 0)).Round(time.Second); s.skew.Abs() > maxSkew {
		s.log.LogAttrs(ctx, slog.LevelWarn, "clock differs from the peer's", slog.Duration("ahead_by", s.skew))
	}
	return nil
}

// At this point, all of the peer's network is known.
func (s *session) onEndBurst(_ context.Context, m ircmsg.Message) error {
	if s.linked || m.Source != "" && m.Source != s.net.peer {
		return nil // from a server further away
	}
	for _, p := range s.link.roster.All() {
		s.present(p)
	}
	s.put(":%s ENDBURST", s.sid())
	s.linked = true
	s.awaitReaders()
	s.agreed = s.agree()
	s.publish()
	s.link.live.Store(s)
	s.Running.Go(func() {
		post := func(do func()) bool { return s.Post(s.Asking, do) }
		irc.WatchPresence(s.Asking, s.link.ports.Presence, s.link.presenceEvery, s.Over, post, s.link.roster.DIDs, s.depart)
	})
	s.RetryTexts(s.link.ports.Messages, s.link.cfg.Name, "")
	s.up()
	return nil
}

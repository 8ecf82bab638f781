package bridgetest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
)

const servicesSID = "8SV"

const servicesTimeout = 10 * time.Second

// Services is a server that only announces the accounts of users. It is not safe for concurrent
// use.
type Services struct {
	conn  net.Conn
	lines *bufio.Scanner
	peer  string
	users map[string]string // nick to UUID
}

// LinkServices links services to an InspIRCd configured for them. They know only the users present
// at that time.
func LinkServices(ctx context.Context, addr, name, password string) (*Services, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("link services: %w", err)
	}
	s := &Services{conn: conn, lines: bufio.NewScanner(conn), users: map[string]string{}}
	s.lines.Buffer(nil, 1<<20)
	s.say("CAPAB START 1205\r\nCAPAB END\r\nSERVER %s %s 0 %s :services", name, password, servicesSID)
	hello, err := s.until("SERVER ")
	if err == nil {
		s.peer = strings.Fields(hello)[4]
		s.say(":%s BURST %d\r\n:%s ENDBURST", servicesSID, time.Now().Unix(), servicesSID)
		_, err = s.until(":" + s.peer + " ENDBURST")
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("link services: %w", err)
	}
	return s, nil
}

// LogIn announces that a user is logged in to an account, or "" for a logout. It returns when the
// server has read this.
func (s *Services) LogIn(nick, account string) error {
	uuid := s.users[nick]
	if uuid == "" {
		return fmt.Errorf("log in: no user %q", nick)
	}
	s.say(":%s METADATA %s accountname :%s\r\n:%s PING %s", servicesSID, uuid, account, servicesSID, s.peer)
	_, err := s.until(":" + s.peer + " PONG")
	return err
}

// Order sends a command about a user, given by the nick at the time of the services' link. In the
// command, %s stands for the user's ID. It returns when the server has read the command.
func (s *Services) Order(nick, command string) error {
	uuid := s.users[nick]
	if uuid == "" {
		return fmt.Errorf("order: no user %q", nick)
	}
	s.say(":%s "+command+"\r\n:%s PING %s", servicesSID, uuid, servicesSID, s.peer)
	_, err := s.until(":" + s.peer + " PONG")
	return err
}

// Introduce joins the services' own users, user0 and so on, to channels. It returns when the server
// has read this.
func (s *Services) Introduce(users int, channels []string) error {
	now := time.Now().Unix()
	for i := range users {
		s.say(":%s UID %s %d user%d h.example h.example u%d 10.0.%d.%d %d + :user", servicesSID, servicesUUID(i), now, i, i, i/256, i%256, now)
	}
	for i, channel := range channels {
		var members []string
		for user := i; user < users; user += len(channels) {
			members = append(members, fmt.Sprintf(",%s:%d", servicesUUID(user), i))
		}
		members = append(members, fmt.Sprintf(",%s:%d", servicesUUID(users-1), users)) // is in all of them
		s.say(":%s FJOIN %s %d +nt :%s", servicesSID, channel, now, strings.Join(members, " "))
	}
	s.say(":%s PING %s", servicesSID, s.peer)
	_, err := s.until(":" + s.peer + " PONG")
	return err
}

// Say sends tags to a channel from one of those users.
func (s *Services) Say(user int, tags map[string]string, channel string) error {
	m := ircmsg.MakeMessage(tags, servicesUUID(user), "TAGMSG", channel)
	line, err := m.Line()
	s.say("%s", strings.TrimSpace(line))
	return err
}

func servicesUUID(user int) string {
	return fmt.Sprintf("%sAAA%c%c%c", servicesSID, 'A'+user/676, 'A'+user/26%26, 'A'+user%26)
}

// Close ends the link.
func (s *Services) Close() { _ = s.conn.Close() }

// The next read reports a broken connection.
func (s *Services) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.conn, format+"\r\n", args...)
}

func (s *Services) until(beginning string) (string, error) {
	if err := s.conn.SetReadDeadline(time.Now().Add(servicesTimeout)); err != nil {
		return "", err
	}
	for s.lines.Scan() {
		line := s.lines.Text()
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, beginning):
			return line, nil
		case strings.HasPrefix(line, "ERROR"):
			return "", fmt.Errorf("refused: %s", line)
		case len(words) > 4 && words[1] == "UID":
			s.users[words[4]] = words[2]
		}
	}
	return "", fmt.Errorf("link ended before %q: %w", beginning, s.lines.Err())
}

package bridgetest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"
)

type ircdPeer struct {
	d         *IRCd
	out       chan string
	dialled   bool // by this server
	asked     bool // it was the first to send SERVER
	challenge string
	theirs    string
	sid       string // theirs, once authenticated
	bursting  bool
	steps     int
}

func (p *ircdPeer) say(format string, args ...any) { p.out <- fmt.Sprintf(format, args...) }

func (p *ircdPeer) fail(format string, args ...any) error {
	why := fmt.Errorf(format, args...)
	p.d.errs = append(p.d.errs, why)
	p.say("ERROR :%s", why)
	return errSaid
}

func (p *ircdPeer) wrong(format string, args ...any) {
	p.d.errs = append(p.d.errs, fmt.Errorf(format, args...))
}

func (p *ircdPeer) line(conn net.Conn, text string) error {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	m, err := ircmsg.ParseLine(text)
	if err != nil {
		return p.fail("cannot read %q: %w", text, err)
	}
	if p.sid == "" {
		return p.handshake(conn, m)
	}
	if m.Command == "ERROR" {
		return p.ended(m)
	}
	if m.Command == "TAGMSG" {
		p.steps++
	}
	if p.d.lose > 0 && p.steps > p.d.lose {
		return p.loses(m)
	}
	if m.Source != p.sid && p.d.guests[m.Source] == nil {
		p.wrong("unknown source: %s", text) // silently dropped
		return nil
	}
	if m.Command == "PING" || m.Command == "PONG" {
		return p.ping(m)
	}
	nick := p.d.cfg.LinkName
	if from := p.d.guests[m.Source]; from != nil {
		nick = from.nick
	}
	p.d.received.add(IRCMessage{Tags: fittingTags(m), Source: m.Source, Nick: nick, Command: m.Command, Params: m.Params})
	return p.command(m)
}

func (p *ircdPeer) loses(m ircmsg.Message) error {
	switch m.Command {
	case "TAGMSG":
		p.d.lost++
	case "PING":
		return errSaid
	}
	return nil
}

func (p *ircdPeer) ping(m ircmsg.Message) error {
	switch {
	case m.Command == "PONG":
	case len(m.Params) != 1 || m.Params[0] != p.d.cfg.SID:
		return p.fail("PING wants our SID, got %q", m.Params)
	case p.d.heldPongs >= 0:
		p.d.heldPongs++
	default:
		p.say(":%s PONG %s", p.d.cfg.SID, p.sid)
	}
	return nil
}

// fittingTags omits the tags beyond the limit, which clients silently miss.
func fittingTags(m ircmsg.Message) map[string]string {
	tags, size := map[string]string{}, -1
	all := m.AllTags()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		carried := name == "msgid"
		if strings.HasPrefix(name, "+") {
			added := len(name) + len("=;") + len(ircmsg.EscapeTagValue(all[name]))
			if carried = size+added <= ircmsg.MaxlenClientTagData; carried {
				size += added
			}
		}
		if carried {
			tags[name] = all[name]
		}
	}
	return tags
}

func (p *ircdPeer) handshake(conn net.Conn, m ircmsg.Message) error {
	switch {
	case m.Command == "CAPAB" && len(m.Params) == 2 && m.Params[0] == "START":
		if m.Params[1] != strconv.Itoa(p.d.cfg.Protocol) {
			return p.fail("announced protocol %s: a server of another version would strip all tags", m.Params[1])
		}
		p.capabilities()
	case m.Command == "CAPAB" && len(m.Params) == 2 && m.Params[0] == "CAPABILITIES":
		for item := range strings.FieldsSeq(m.Params[1]) {
			if name, value, _ := strings.Cut(item, "="); name == "CHALLENGE" && !p.d.cfg.Plaintext {
				p.theirs = value
			}
		}
	case m.Command == "CAPAB" && len(m.Params) == 1 && m.Params[0] == "END":
		if p.dialled {
			p.asked = true
			p.server()
		}
	case m.Command == "ERROR":
		return p.ended(m)
	case m.Command == "CAPAB":
		return p.fail("CAPAB negotiation failed: %q not matched", m.Params)
	case m.Command == "SERVER" && len(m.Params) == p.sidParam()+2:
		return p.authenticate(conn, m)
	default:
		return p.fail("unexpected %s before SERVER", m.Command)
	}
	return nil
}

func (p *ircdPeer) capabilities() {
	module, limits := "m_%s.so", "NICKMAX=30 CHANMAX=64 IDENTMAX=10"
	if p.d.cfg.Protocol != oldProtocol {
		module, limits = "%s", "MAXNICK=30 MAXCHANNEL=60 MAXUSER=10"
	}
	modules := fmt.Sprintf(module, "cloaking")
	if !p.d.cfg.Tagless {
		modules += " " + fmt.Sprintf(module, "ircv3_ctctags")
	}
	p.say("CAPAB MODULES :%s", modules)
	p.say("CAPAB MODSUPPORT :%s ", fmt.Sprintf(module, "services_account"))
	p.say("CAPAB CHANMODES :list:ban=b list:banexception=e list:invex=I param-set:limit=l param:key=k prefix:10000:voice=+v " +
		"prefix:30000:op=@o simple:blockcolor=c simple:stripcolor=S simple:inviteonly=i simple:moderated=m simple:noextmsg=n simple:permanent=P simple:reginvite=R " +
		"simple:regmoderated=M simple:secret=s simple:topiclock=t")
	challenge := " CHALLENGE=" + p.challenge
	if p.d.cfg.Plaintext {
		challenge = ""
	}
	p.say("CAPAB CAPABILITIES :%s MAXREAL=128 MAXHOST=64 MAXLINE=512%s CASEMAPPING=rfc1459", limits, challenge)
	p.say("CAPAB END")
}

func (p *ircdPeer) proof(password, challenge string) string {
	if challenge == "" || p.d.cfg.Plaintext {
		return password
	}
	mac := hmac.New(sha256.New, []byte(password))
	mac.Write([]byte(challenge))
	return "AUTH:" + base64.RawStdEncoding.EncodeToString(mac.Sum(nil))
}

func (p *ircdPeer) authenticate(conn net.Conn, m ircmsg.Message) error {
	name, password, sid := m.Params[0], m.Params[1], m.Params[p.sidParam()]
	switch {
	case p.dialled && !p.asked:
		return p.fail("SERVER from a server that was dialled, before ours")
	case name != p.d.cfg.LinkName || password != p.proof(p.d.cfg.RecvPassword, p.challenge):
		p.say("ERROR :Mismatched server name or password (check the other server's snomask output for details)")
		return errSaid
	case !sidSyntax().MatchString(sid):
		return p.fail("Invalid format server ID: %s!", sid)
	case p.d.conn != nil:
		p.say("ERROR :Server %s already exists on server %s!", name, p.d.cfg.Name)
		return errSaid
	}
	p.sid, p.bursting = sid, true
	p.d.conn, p.d.out, p.d.gateway = conn, p.out, sid
	if p.dialled {
		p.burst()
	} else {
		p.server()
	}
	return nil
}

// In 1205, the number of hops precedes the ID.
func (p *ircdPeer) sidParam() int {
	if p.d.cfg.Protocol == oldProtocol {
		return 3
	}
	return 2
}

func (p *ircdPeer) server() {
	sid := p.d.cfg.SID
	if p.d.cfg.Protocol == oldProtocol {
		sid = "0 " + sid
	}
	p.say("SERVER %s %s %s :a test peer", p.d.cfg.Name, p.proof(p.d.cfg.SendPassword, p.theirs), sid)
}

func (p *ircdPeer) ended(m ircmsg.Message) error {
	p.d.received.add(IRCMessage{Source: m.Source, Nick: p.d.cfg.LinkName, Command: m.Command, Params: m.Params})
	return errSaid
}

// The dialling side begins.
func (p *ircdPeer) burst() {
	d := p.d
	p.say(":%s BURST %d", d.cfg.SID, time.Now().Add(d.cfg.Skew).Unix())
	p.say(":%s SINFO version :InspIRCd-3. %s :", d.cfg.SID, d.cfg.Name)
	for _, nick := range slices.Sorted(maps.Keys(d.users)) {
		p.say("%s", d.uid(nick))
	}
	for _, name := range d.cfg.Channels {
		ch := d.channels[strings.ToLower(name)]
		p.say(":%s FJOIN %s %d %s :%s ", d.cfg.SID, name, ch.ts, ch.modes, d.members())
		p.say(":%s METADATA %s %d maxlist :b 100", d.cfg.SID, name, d.started)
	}
	p.say(":%s ENDBURST ", d.cfg.SID)
}

func sidSyntax() *regexp.Regexp { return regexp.MustCompile(`^[0-9][A-Z0-9]{2}$`) }

func nickSyntax() *regexp.Regexp {
	return regexp.MustCompile("^[A-Za-z\\[\\]\\\\`_^{|}][A-Za-z0-9\\[\\]\\\\`_^{|}-]{0,29}$")
}

func (p *ircdPeer) command(m ircmsg.Message) error {
	fewest := map[string]int{
		"BURST": 0, "ENDBURST": 0, "SINFO": 2, "UID": len(strings.Fields(p.d.idents("x"))) + 9, "NICK": 2, "QUIT": 0, "PART": 1, "FJOIN": 4, "FMODE": 3, "NUM": 4,
		"IDLE": 3, "SQUIT": 2, "TAGMSG": 1, "PRIVMSG": 2, "NOTICE": 2, "METADATA": 3, "INVITE": 3, "RESYNC": 1,
	}
	least, known := fewest[m.Command]
	switch {
	case !known:
		return p.fail("Unrecognised command %s", m.Command)
	case len(m.Params) < least:
		return p.fail("Insufficient parameters for %s: %q", m.Command, m.Params)
	}
	switch m.Command {
	case "BURST":
		if !p.dialled {
			p.burst()
		}
	case "ENDBURST":
		p.bursting = false
		close(p.d.linked)
	case "UID":
		return p.introduce(m)
	case "NICK":
		return p.rename(m)
	case "QUIT":
		p.d.forget(m.Source)
	case "FJOIN":
		return p.join(m)
	case "PART":
		p.part(m)
	case "FMODE":
		return p.mode(m)
	case "SQUIT":
		return errSaid // it left properly
	case "TAGMSG":
		if p.d.cfg.Tagless {
			return p.fail("Unrecognised command TAGMSG")
		}
	}
	return nil
}

func (p *ircdPeer) introduce(m ircmsg.Message) error {
	last := len(m.Params) - 1 // InspIRCd reads the parameters after the user names from the end
	uuid, nick, ident, ip, modes := m.Params[0], m.Params[2], m.Params[5], m.Params[last-3], m.Params[last-1]
	ts, err := strconv.ParseInt(m.Params[1], 10, 64)
	_, badIP := netip.ParseAddr(ip)
	switch {
	case m.Source != p.sid || len(uuid) != 9 || uuid[:3] != p.sid || uuid != strings.ToUpper(uuid):
		return p.fail("Bogus UUID %s", uuid)
	case p.d.guests[uuid] != nil:
		return p.fail("Collision of UUID %s", uuid)
	case err != nil || ts <= 0:
		return p.fail("Invalid TS in UID: %q", m.Params)
	case badIP != nil:
		return p.fail("Invalid IP in UID: %s", ip)
	case modes != "+i":
		return p.fail("Unknown modes in UID: %s", modes)
	case !nickSyntax().MatchString(nick) && nick != uuid:
		p.wrong("%q is no nick", nick)
	case len(ident) > 10 || len(m.Params[3]) > 64 || len(m.Params[last]) > 128:
		p.wrong("longer than the limits of CAPAB: %q", m.Params)
	}
	p.d.guests[uuid] = &guest{nick: nick, ts: ts}
	p.collide(uuid, nick, ts)
	return nil
}

func (p *ircdPeer) rename(m ircmsg.Message) error {
	ts, err := strconv.ParseInt(m.Params[1], 10, 64)
	if err != nil || p.d.guests[m.Source] == nil {
		return p.fail("bad NICK: %q", m.Params)
	}
	if nick := m.Params[0]; !nickSyntax().MatchString(nick) && nick != m.Source {
		p.wrong("%q is no nick", nick)
	}
	*p.d.guests[m.Source] = guest{nick: m.Params[0], ts: ts}
	p.collide(m.Source, m.Params[0], ts)
	return nil
}

func (p *ircdPeer) collide(uuid, nick string, ts int64) {
	for ours := range p.d.users {
		if strings.EqualFold(ours, nick) {
			p.say(":%s SAVE %s %d", p.d.cfg.SID, uuid, ts)
			*p.d.guests[uuid] = guest{nick: uuid, ts: 100}
		}
	}
}

// A channel ends with its last member.
func (p *ircdPeer) part(m ircmsg.Message) {
	name := strings.ToLower(m.Params[0])
	ch := p.d.channels[name]
	if ch == nil || ch.guests[m.Source] == "" {
		p.wrong("PART of %s by %s, which is not there", m.Params[0], m.Source)
		return
	}
	delete(ch.guests, m.Source)
	if len(ch.guests) == 0 && len(ch.members) == 0 {
		delete(p.d.channels, name)
	}
}

func (p *ircdPeer) mode(m ircmsg.Message) error {
	ts, err := strconv.ParseInt(m.Params[1], 10, 64)
	if err != nil {
		return p.fail("Invalid TS in FMODE: %q", m.Params)
	}
	if ch := p.d.channels[strings.ToLower(m.Params[0])]; ch == nil || ts != ch.ts {
		p.wrong("FMODE with age %d for a channel of another age", ts)
	}
	return nil
}

func (p *ircdPeer) join(m ircmsg.Message) error {
	ts, err := strconv.ParseInt(m.Params[1], 10, 64)
	if err != nil || ts <= 0 {
		return p.fail("Invalid TS in FJOIN: %q", m.Params)
	}
	ch := p.d.channels[strings.ToLower(m.Params[0])]
	if ch == nil {
		ch = &ircdChannel{ts: ts, guests: map[string]string{}, members: map[string]bool{}}
		p.d.channels[strings.ToLower(m.Params[0])] = ch
	}
	if ts != ch.ts {
		p.wrong("FJOIN with age %d for a channel of age %d", ts, ch.ts)
	}
	for member := range strings.FieldsSeq(m.Params[len(m.Params)-1]) {
		_, uuid, _ := strings.Cut(member, ",")
		uuid, membership, _ := strings.Cut(uuid, ":")
		if p.d.guests[uuid] == nil {
			p.wrong("FJOIN of unknown %s", uuid)
		}
		ch.guests[uuid] = membership
	}
	return nil
}

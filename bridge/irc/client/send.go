package client

import (
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge/irc"
)

// During a labelled command of the client, the message becomes part of the answer.
func (s *server) send(u *user, m message) {
	if u.answer != nil {
		u.answer.messages = append(u.answer.messages, m)
		return
	}
	s.put(u, m, "")
}

func (s *server) put(u *user, m message, label string) {
	s.write(u, m.line(u.caps, label, time.Now()))
}

func (s *server) write(u *user, lines []byte) {
	if u.over || u.remote != "" {
		return
	}
	if len(u.pending)+u.flying+len(lines) > s.link.cfg.SendQueueBytes {
		u.pending, u.full = nil, true
		s.quit(u, "SendQ exceeded")
		return
	}
	u.pending = append(u.pending, lines...)
	s.touch(u)
}

func (s *server) touch(u *user) {
	if !u.dirty {
		u.dirty = true
		s.unwritten = append(s.unwritten, u)
	}
}

// flush uses one writer per client, and closes connections after their last line.
func (s *server) flush() {
	for _, u := range s.unwritten {
		u.dirty = false
		switch {
		case u.flying > 0:
		case len(u.pending) > 0:
			s.fly(u)
		case u.over:
			_ = u.wire.Close() // ends its reader
		}
		if u.written != nil && (u.over || u.flying == 0 && len(u.pending) == 0) {
			close(u.written)
			u.written = nil
		}
	}
	s.unwritten = s.unwritten[:0]
}

func (s *server) fly(u *user) {
	piece := u.pending
	u.pending, u.flying = nil, len(piece)
	s.flights++
	s.writers.Go(func() {
		err := u.wire.Write(piece)
		s.post(func() {
			u.flying = 0
			s.flights--
			if err != nil {
				s.quit(u, "Write error")
				u.pending = nil
			}
			s.touch(u)
		})
	})
}

func (s *server) spread(m message, to iter.Seq[*user]) {
	lines, now := make(map[capability][]byte), time.Now()
	to(func(u *user) bool {
		if u.answer != nil {
			s.send(u, m)
			return true
		}
		seen := seenBy(u.caps)
		if lines[seen] == nil {
			lines[seen] = m.line(u.caps, "", now)
		}
		s.write(u, lines[seen])
		return true
	})
}

// messageBytes is the maximum size of a step for a client: its tags, the tags of the server, and the
// line.
const messageBytes = 6 << 10

// atOnce limits the steps sent to a client at once to half of its queue.
func (l *Link) atOnce(steps int) int { return min(steps, l.cfg.SendQueueBytes/2/messageBytes) }

func (s *server) reply(u *user, numeric string, params ...string) {
	s.send(u, textMessage(s.name, numeric, append([]string{u.named()}, params...)...))
}

func (s *server) numeric(u *user, numeric string, params ...string) {
	s.send(u, newMessage(s.name, numeric, append([]string{u.named()}, params...)...))
}

// A client without FAIL gets a NOTICE. Each word of the subject is a parameter.
//
// spec: ircv3 standard-replies; handofftag "The client's side"
func (s *server) fail(u *user, command, code, subject, sentence string) {
	if u.caps&(capReplies|failsWith(command)) == 0 {
		text := strings.Join(append([]string{command, code}, strings.Fields(subject)...), " ")
		s.send(u, textMessage(s.name, "NOTICE", u.named(), irc.Plain(text+" "+sentence)))
		return
	}
	s.failAlways(u, command, code, subject, sentence)
}

func (s *server) failAlways(u *user, command, code, subject, sentence string) {
	params := append([]string{command, code}, strings.Fields(subject)...)
	s.send(u, textMessage(s.name, "FAIL", append(params, irc.Plain(sentence))...))
}

// failsWith returns the capabilities whose specifications use FAIL to report errors of a command.
func failsWith(command string) capability {
	switch command {
	case "TAGMSG":
		return capHandoff | capAct
	case "BATCH":
		return capMultiline
	case "REGISTER":
		return capRegister
	case "MARKREAD":
		return capReadMarker
	case "CHATHISTORY":
		return capHistory
	case "SETNAME":
		return capSetname
	}
	return 0
}

// spec: ircv3 labeled-response
func (s *server) open(u *user, m ircmsg.Message) {
	if _, label := m.GetTag("label"); label != "" && len(label) <= maxLabelBytes && u.caps.has(capLabels) {
		u.answer = &answers{label: label}
	}
}

// spec: ircv3 labeled-response
const maxLabelBytes = 64

func (s *server) close(u *user) {
	a := u.answer
	u.answer = nil
	if a == nil || u.over {
		return
	}
	switch {
	case len(a.messages) == 0:
		s.put(u, newMessage(s.name, "ACK"), a.label)
	case len(a.messages) == 1, a.batched():
		s.put(u, a.messages[0], a.label)
		for _, m := range a.messages[1:] {
			s.put(u, m, "")
		}
	case !u.caps.has(capBatch):
		for _, m := range a.messages {
			s.put(u, m, a.label)
		}
	default:
		ref := s.reference()
		s.put(u, newMessage(s.name, "BATCH", "+"+ref, "labeled-response"), a.label)
		for _, m := range a.messages {
			if m.batch == "" { // else part of a nested batch
				m.batch = ref
			}
			s.put(u, m, "")
		}
		s.put(u, newMessage(s.name, "BATCH", "-"+ref), "")
	}
}

func (a *answers) batched() bool {
	first, last := a.messages[0], a.messages[len(a.messages)-1]
	return first.command == "BATCH" && last.command == "BATCH" && last.params[0] == "-"+first.params[0][1:]
}

func (s *server) reference() string {
	s.batches++
	return "b" + strconv.FormatUint(s.batches, 36)
}

package client

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ergochat/irc-go/ircmsg"

	"github.com/baton-gateway/baton/bridge/irc"
)

// spec: ircv3 multiline (draft)
const (
	multilineBatch = "draft/multiline"
	concatTag      = "draft/multiline-concat"
)

// Text for other networks has the same limit on characters.
const (
	maxMultilineBytes = 4096
	maxMultilineLines = 32
)

type piece struct {
	text   string
	joined bool // continues the previous line
}

type multiline struct {
	ref, target string
	command     string // "" before the first line
	tags        map[string]string
	pieces      []piece
	answer      *answers // to the opening BATCH; nil without a label
}

func textOf(pieces []piece) string {
	var text strings.Builder
	for i, p := range pieces {
		if i > 0 && !p.joined {
			text.WriteByte('\n')
		}
		text.WriteString(p.text)
	}
	return text.String()
}

func (s *server) onBatch(ctx context.Context, u *user, m ircmsg.Message) {
	ref, begins := strings.CutPrefix(m.Params[0], "+")
	ends := !begins && u.multiline != nil && m.Params[0] == "-"+u.multiline.ref
	switch {
	case !u.caps.has(capMultiline):
		s.reply(u, errUnknownCommand, m.Command, "Unknown command")
	case ends:
		s.endMultiline(ctx, u)
	case !begins || ref == "" || len(ref) > maxLabelBytes || u.multiline != nil:
		s.breakMultiline(u, "MULTILINE_INVALID", "", "Want one batch at a time")
	case len(m.Params) < 3 || m.Params[1] != multilineBatch || len(targets(m.Params[2])) != 1:
		s.breakMultiline(u, "MULTILINE_INVALID", "", "Want BATCH +reference "+multilineBatch+" target")
	default:
		u.multiline = &multiline{ref: ref, target: m.Params[2], tags: m.ClientOnlyTags(), answer: u.answer}
		u.answer = nil
	}
}

func (s *server) breakMultiline(u *user, code, subject, sentence string) {
	if u.multiline != nil && u.answer == nil {
		u.answer = u.multiline.answer
	}
	u.multiline = nil
	s.fail(u, "BATCH", code, subject, sentence)
}

// addLine returns false if a message is not part of a multiline message.
func (s *server) addLine(u *user, m ircmsg.Message) bool {
	has, ref := m.GetTag("batch")
	if !has || !u.caps.has(capMultiline) {
		return false
	}
	b := u.multiline
	concat := m.HasTag(concatTag)
	text := ""
	if len(m.Params) > 1 {
		text = m.Params[1]
	}
	var pieces []piece
	if b != nil {
		pieces = append(b.pieces, piece{text, concat})
	}
	switch {
	case b == nil || ref != b.ref || m.Command == "TAGMSG" || b.command != "" && b.command != m.Command || concat && text == "":
		s.breakMultiline(u, "MULTILINE_INVALID", "", "The line is not part of that message")
	case len(m.Params) == 0 || fold(m.Params[0]) != fold(b.target):
		s.breakMultiline(u, "MULTILINE_INVALID_TARGET", clipParam(b.target), "The line is for another target")
	case len(pieces) > maxMultilineLines:
		s.breakMultiline(u, "MULTILINE_MAX_LINES", itoa(maxMultilineLines), "Too many lines")
	case len(textOf(pieces)) > maxMultilineBytes:
		s.breakMultiline(u, "MULTILINE_MAX_BYTES", itoa(maxMultilineBytes), "Too much text")
	default:
		answer := u.answer
		if u.answer = cmp.Or(answer, b.answer); !s.allow(u, "BATCH") { // a refusal answers the BATCH
			u.multiline = nil
			return true
		}
		u.answer = answer
		b.command, b.pieces = m.Command, pieces
	}
	return true
}

func (s *server) endMultiline(ctx context.Context, u *user) {
	b := u.multiline
	u.answer = b.answer
	text := textOf(b.pieces)
	if strings.TrimSpace(text) == "" {
		s.breakMultiline(u, "MULTILINE_INVALID", "", "There is no text")
		return
	}
	u.multiline = nil
	s.relay(ctx, u, ircmsg.MakeMessage(b.tags, "", b.command, b.target, text), b.target, b.pieces)
}

// block returns a batch, or separate lines of which only the first has the ID.
func (m message) block(c capability, label string, now time.Time) []byte {
	pieces := m.pieces
	m.pieces = nil
	if m.at.IsZero() {
		m.at = now // the same for all lines
	}
	var all []byte
	if !c.has(capMultiline) || !c.has(capBatch) {
		for _, p := range pieces {
			if p.text == "" {
				continue
			}
			line := m
			if line.params = []string{m.params[0], p.text}; len(all) > 0 {
				line.msgid, label = "", ""
			}
			all = append(all, line.line(c, label, now)...)
		}
		return all
	}
	start := m
	start.command, start.params, start.trailing = "BATCH", []string{"+" + m.ref, multilineBatch, m.params[0]}, false
	all = start.line(c, label, now)
	for _, p := range pieces {
		line := textMessage(m.source, m.command, m.params[0], p.text)
		line.at, line.account, line.batch, line.joined = m.at, m.account, m.ref, p.joined
		all = append(all, line.line(c, "", now)...)
	}
	return append(all, newMessage(m.source, "BATCH", "-"+m.ref).line(c&^capTime, "", now)...)
}

func inPieces(text string) []piece {
	var all []piece
	for line := range strings.SplitSeq(text, "\n") {
		joined := false
		for len(line) > irc.MaxTextBytes {
			end := irc.MaxTextBytes
			for !utf8.RuneStart(line[end]) {
				end--
			}
			all, line, joined = append(all, piece{line[:end], joined}), line[end:], true
		}
		all = append(all, piece{line, joined})
	}
	return slices.Clip(all)
}

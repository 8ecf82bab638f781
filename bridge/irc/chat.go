package irc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate"
)

// The longest emoji, those for families, have about 40 bytes.
const maxReactionBytes = 64

// Servers use about 30 bytes.
const maxMessageIDBytes = 256

// Chat is a user's message in a relayed channel.
type Chat struct {
	From    federation.DID // "" for an unauthenticated user
	Venue   string
	Command string // TAGMSG for a reaction
	Text    string
	Line    string
	Refs    Refs
	// Formatting reports whether the link forwards formatting codes.
	Formatting bool
	// History reports whether the line may be kept in a history.
	History bool
	Away    string // "" while not away

	Arrival federation.Arrival
}

// ErrNoMessageID is returned for a line without a message ID, which would loop between two gateways
// that link the same networks.
var ErrNoMessageID = errors.New("irc: the line has no message ID: its server must load the module for msgid")

// Relay files a user's message for other links. It returns [ErrNoMessageID] or the errors of
// [bridge.Messages]. It ignores CTCP messages other than actions, readable lines of steps from
// other gateways, and empty messages without a reaction.
func Relay(ctx context.Context, p bridge.Ports, c Chat) error {
	text, manner := manner(c.Command, c.Text)
	if c.Command == "TAGMSG" {
		text, manner = c.Refs.reaction()
	}
	switch {
	case text == "" || p.Messages == nil, strings.HasSuffix(c.Arrival.MessageID, LineSuffix):
		return nil
	case c.Arrival.MessageID == "" || len(c.Arrival.MessageID) > maxMessageIDBytes:
		return ErrNoMessageID
	}
	if c.From == "" {
		c.From = p.Messages.Guest(c.Arrival.Link, c.Arrival.Name)
	}
	about, err := c.Refs.handoff(ctx, p)
	if err != nil {
		return err
	}
	line := federation.Text{Author: c.From, Venue: c.Venue, About: about, Arrival: c.Arrival}
	var refused error // from one full link; the other links have the line
	for i, part := range SplitFormatted(text, federation.MaxChatBytes) {
		line.ID = federation.ChatID(partID(c.Arrival.MessageID, i))
		line.Body, line.Fields = written(part, manner, c.Formatting, c.History)
		if c.Away != "" {
			line.Fields[federation.Away] = c.Away
		}
		if c.Refs.Reply != "" && len(c.Refs.Reply) <= maxMessageIDBytes {
			line.Fields[federation.Reply] = federation.ChatID(c.Refs.Reply).String()
		}
		err := p.Messages.Relay(ctx, line, originalOf(c.Arrival, c.Line))
		if _, ok := errors.AsType[*federation.RefusalError](err); err != nil && !ok {
			return err
		}
		refused = errors.Join(refused, err)
	}
	return refused
}

// Reacts reports whether a message without text is a reaction that [Relay] files.
func (r Refs) Reacts() bool {
	emoji, _ := r.reaction()
	return emoji != ""
}

func (r Refs) reaction() (emoji, manner string) {
	emoji, manner = Plain(r.React), federation.React
	if r.React == "" {
		emoji, manner = Plain(r.Unreact), federation.Unreact
	}
	if r.Reply == "" || len(emoji) > maxReactionBytes {
		return "", ""
	}
	return emoji, manner
}

// IsReaction reports whether channel text is a reaction. A link shows it with [TextRefs].
func IsReaction(t federation.Text) bool {
	how := t.Fields[federation.Manner]
	return how == federation.React || how == federation.Unreact
}

// Shows reports whether a link shows text returned by [Answering]. A reaction is shown only if the
// link has its target message.
func Shows(t federation.Text) bool { return !IsReaction(t) || t.Answers != "" }

func originalOf(at federation.Arrival, line string) signing.Original {
	return signing.Original{Network: at.Network, Received: at.Received, Document: line}
}

func partID(messageID string, part int) string {
	if part == 0 {
		return messageID
	}
	return messageID + "." + strconv.Itoa(part)
}

func written(text, manner string, formatting, history bool) (body string, fields map[string]string) {
	body, fields = Unformatted(text), map[string]string{}
	if manner != "" {
		fields[federation.Manner] = manner
	}
	if formatting && body != text {
		fields[federation.Formatted] = text
	}
	if !history {
		fields[federation.Unkept] = "1"
	}
	return body, fields
}

// Each character may have a formatting code.
const maxFormattedBytes = 4 * federation.MaxMessageChars

// readable ignores formatting that does not match the body.
func readable(t federation.Text, formatting bool) string {
	formatted := t.Fields[federation.Formatted]
	if !formatting || len(formatted) > maxFormattedBytes || Unformatted(formatted) != t.Body {
		formatted = t.Body
	}
	lines := strings.FieldsFunc(formatted, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, line := range lines {
		if lines[i] = clean(line); !formatting {
			lines[i] = Unformatted(lines[i])
		}
	}
	return strings.Join(lines, "\n")
}

// manner returns the text "" for a CTCP message.
func manner(command, text string) (shown, manner string) {
	if command == "NOTICE" {
		manner = federation.NoticeText
	}
	if rest, isCTCP := strings.CutPrefix(text, ctcp); isCTCP {
		action, isAction := strings.CutPrefix(strings.TrimSuffix(rest, ctcp), "ACTION ")
		if !isAction {
			return "", ""
		}
		text, manner = action, federation.Action
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") { // freeq has multi-line messages
		lines = append(lines, clean(line))
	}
	return strings.Join(lines, "\n"), manner
}

// ChatLine returns the command and text of a line shown in a channel.
func ChatLine(t federation.Text, formatting bool) (command, text string) {
	return inManner(t, readable(t, formatting))
}

func inManner(t federation.Text, line string) (command, text string) {
	switch t.Fields[federation.Manner] {
	case federation.Action:
		return "PRIVMSG", ctcp + "ACTION " + line + ctcp
	case federation.NoticeText:
		return "NOTICE", line
	}
	return "PRIVMSG", line
}

// NamedChatLines returns the lines that the gateway's own user sends to a channel on behalf of an
// author.
func NamedChatLines(t federation.Text, formatting bool) (command string, lines []string) {
	name := "<" + Plain(t.Arrival.Name) + "@" + t.Arrival.Link + "> "
	for _, part := range SplitFormatted(name+readable(t, formatting), federation.MaxChatBytes) {
		var line string
		command, line = inManner(t, part)
		lines = append(lines, line)
	}
	return command, lines
}

// Relayed returns the venues of this federation listed in relay_chat. Its error names an entry that
// is not a channel of the link.
func (c Channels) Relayed(entries []string) ([]string, error) {
	return Relayed(entries, c.here)
}

// Relayed returns the venues in relay_chat, which must be among the channels of a link.
func Relayed(entries, channels []string) ([]string, error) {
	var venues []string
	for _, entry := range entries {
		name, _, _ := strings.Cut(entry, called)
		venue, _ := translate.Channel(name)
		switch {
		case !slices.Contains(channels, venue):
			return nil, fmt.Errorf("%q is not in channels", entry)
		case slices.Contains(venues, venue):
			return nil, fmt.Errorf("%q is listed twice", entry)
		}
		venues = append(venues, venue)
	}
	return venues, nil
}

// Words is private text from a user to the nick of a user of another network.
type Words struct {
	From federation.DID // "" for an unauthenticated user
	To   federation.DID
	At   federation.ChannelRef // place of a user without a DID, else zero
	Text string
	Line string // the received message, as evidence
	Refs Refs
	// Formatting and History are as in [Chat].
	Formatting bool
	History    bool

	Arrival federation.Arrival
}

const ctcp = "\x01"

// formattedText has "/me" for an action, and is "" for a CTCP message.
func formattedText(text string) string {
	text, how := manner("PRIVMSG", text)
	if strings.TrimSpace(Unformatted(text)) == "" {
		return ""
	}
	if how == federation.Action {
		return "/me " + text
	}
	return text
}

// HolderLeft is the reason for refusing a message to a user without a DID, after that user left.
const HolderLeft = "the user left before reading the message, and another user may have the nick now"

// Say stores private text of a user. A user without a DID gets the gateway's DID for its nick on
// the link. If the message waits for a recipient of this gateway, waits is a sentence for the user
// that calls the recipient name. Otherwise waits is "". The error is a refusal if no link reaches
// the recipient.
func Say(ctx context.Context, p bridge.Ports, w Words, name string) (waits string, err error) {
	text := formattedText(w.Text)
	if text == "" || p.Messages == nil {
		return "", nil
	}
	if w.From == "" {
		w.From = p.Messages.Guest(w.Arrival.Link, w.Arrival.Name)
	}
	about, err := w.Refs.handoff(ctx, p)
	if err != nil {
		return "", err
	}
	w.Arrival.Place = w.At
	body, fields := written(text, "", w.Formatting, w.History)
	if w.Refs.Reply != "" && len(w.Refs.Reply) <= maxMessageIDBytes {
		fields[federation.Reply] = w.Refs.Reply // the gateway replaces it with its own message ID
	}
	said, err := p.Messages.Say(ctx, federation.Text{Author: w.From, To: w.To, Body: body, Fields: fields, About: about, Arrival: w.Arrival}, originalOf(w.Arrival, w.Line))
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return "", &federation.RefusalError{Code: federation.InvalidTarget, Detail: "no link of this gateway reaches that user"}
	case err != nil || !said.Away || said.Forwarded:
		return "", err
	case said.ToNick:
		return name + " is not connected and has no account: your message waits, and the next user with that nick will read it", nil
	}
	return name + " is not connected or not logged in: your message waits for " + name, nil
}

// TextLines returns the lines of a message for its reader. The sender's first message starts with a
// line that introduces the sender. The names are the nicks of the sender and of the gateway's own
// user.
func TextLines(t federation.Text, sender, self string, formatting bool) []string {
	lines := SplitFormatted(readable(t, formatting), MaxTextBytes)
	if t.Fields[federation.Introduces] == "" {
		return lines
	}
	return append([]string{Text(fmt.Sprintf("[%s] is %s on %s, and writes to you for the first time. Say /msg %s allow %s or /msg %s block %s",
		sender, t.Author, t.Arrival.Network, self, sender, self, sender))}, lines...)
}

// TextID returns the message ID of a line of a message. It is the same on each attempt.
func TextID(t federation.Text, line int) string {
	if line == 0 {
		return t.ID.String()
	}
	return t.ID.String() + "." + strconv.Itoa(line)
}

// TextTags returns the tags of a line of a message, with its ID.
func TextTags(t federation.Text, line int) map[string]string {
	tags := TextRefs(t)
	tags["msgid"] = TextID(t, line)
	return tags
}

// TextRefs returns the tags for a message's handoff, its answered message and its reaction.
func TextRefs(t federation.Text) map[string]string {
	tags := map[string]string{}
	if !t.About.IsZero() {
		tags[RefTag] = t.About.String()
	}
	if t.Answers != "" {
		tags[draftReplyTag] = t.Answers
	}
	switch t.Fields[federation.Manner] {
	case federation.React:
		tags[reactTag] = t.Body
	case federation.Unreact:
		tags[unreactTag] = t.Body
	}
	return tags
}

package irc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"baton/bridge"
	"baton/federation"
	"baton/federation/signing"
)

// Words is private text that a user wrote to the nick of a participant of another network.
type Words struct {
	From federation.DID // "" for a user that has proved none
	To   federation.DID
	At   federation.Place // where a user without a DID of its own is; zero for a DID
	Text string
	Line string // the message as it came: the evidence
	Refs Refs

	Arrival federation.Arrival // names the network, the link and the nick
}

// ctcp begins and ends what programs say to programs, and actions of people.
const ctcp = "\x01"

// Spoken returns the text of a PRIVMSG as another network shows it, without formatting, and
// false for what only a program would read. An action begins with "/me".
func Spoken(text string) (string, bool) {
	if rest, isCTCP := strings.CutPrefix(text, ctcp); isCTCP {
		action, isAction := strings.CutPrefix(strings.TrimSuffix(rest, ctcp), "ACTION ")
		if !isAction {
			return "", false
		}
		text = "/me " + action
	}
	text = Plain(text)
	return text, text != ""
}

// Say files what a user wrote. A user without a DID has the one that the gateway keeps for its
// nick on the link. The error is that of [bridge.Messages], as a refusal where no link reaches
// the recipient.
func Say(ctx context.Context, p bridge.Ports, w Words) error {
	text, ok := Spoken(w.Text)
	if !ok || p.Messages == nil {
		return nil
	}
	if w.From == "" {
		w.From = p.Messages.Guest(w.Arrival.Link, w.Arrival.Name)
	}
	about, err := w.Refs.handoff(ctx, p)
	if err != nil {
		return err
	}
	_, err = p.Messages.Say(ctx, bridge.Message{
		From: w.From, To: bridge.Recipient{DID: w.To, Place: w.At}, Text: text, About: about, Arrival: w.Arrival,
		Original: signing.Original{Network: w.Arrival.Network, Received: w.Arrival.Received, Document: w.Line},
	})
	if errors.Is(err, federation.ErrNotFound) {
		return &federation.RefusalError{Code: federation.InvalidTarget, Detail: "no link of this gateway reaches that user"}
	}
	return err
}

// TextLines returns the lines of a message for its reader. A line that introduces the sender precedes
// the sender's first message. The names belong to the sender and to the gateway's own user.
func TextLines(ev federation.Event, sender, self string) []string {
	lines := federation.SplitText(ev.Text(), MaxTextBytes)
	for i := range lines {
		lines[i] = Text(lines[i])
	}
	if ev.Fields[federation.Introduces] == "" {
		return lines
	}
	return append([]string{Text(fmt.Sprintf("[%s] is %s on %s, and writes to you for the first time. Say /msg %s allow %s or /msg %s block %s",
		sender, ev.Actor(), ev.Arrival.Network, self, sender, self, sender))}, lines...)
}

// TextID returns the message id of a line of a message: the same one however often it is written.
func TextID(ev federation.Event, line int) string {
	if line == 0 {
		return ev.ID.String()
	}
	return ev.ID.String() + "." + strconv.Itoa(line)
}

// TextTags returns the tags of a line of a message.
func TextTags(ev federation.Event, line int) map[string]string {
	tags := map[string]string{"msgid": TextID(ev, line)}
	if ev.ReplyTo != "" {
		tags[RefTag] = ev.ReplyTo
	}
	return tags
}

package irc_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/irc"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/signing"
)

// heard is a [bridge.Messages] that keeps relayed text. The record knows one message.
type heard struct {
	bridge.Messages

	known   map[string]federation.HandoffID
	lines   []federation.Text
	refusal error // of each line
}

func (h *heard) Guest(link, nick string) federation.DID {
	return federation.DID("did:key:" + link + "-" + nick)
}

func (h *heard) Relay(_ context.Context, t federation.Text, _ signing.Original) error {
	h.lines = append(h.lines, t)
	return h.refusal
}

func (h *heard) Answered(_ context.Context, messageID string) (federation.HandoffID, error) {
	if id, ok := h.known[messageID]; ok {
		return id, nil
	}
	return federation.HandoffID{}, federation.ErrNotFound
}

// said is a line of alice on lab.
func said(command, text, messageID string) irc.Chat {
	return irc.Chat{Venue: "#ops", Command: command, Text: text, Arrival: federation.Arrival{Network: "spanningtree", Link: "lab", Name: "alice", MessageID: messageID}}
}

func TestRelayChatKeepsALine(t *testing.T) {
	t.Parallel()
	type line struct{ Manner, Text, Formatted string }
	for text, c := range map[string]struct {
		command, text string
		want          []line
	}{
		"a line":           {"PRIVMSG", "hello \x02you\x02", []line{{"", "hello you", "hello \x02you\x02"}}},
		"colours":          {"PRIVMSG", "\x0304,02red\x03 5", []line{{"", "red 5", "\x0304,02red\x03 5"}}},
		"an action":        {"PRIVMSG", "\x01ACTION \x1Dwaves\x01", []line{{federation.Action, "waves", "\x1Dwaves"}}},
		"a notice":         {"NOTICE", "be warned", []line{{federation.NoticeText, "be warned", ""}}},
		"a question":       {"PRIVMSG", "\x01VERSION\x01", nil},
		"an answer":        {"NOTICE", "\x01VERSION x\x01", nil},
		"formatting alone": {"PRIVMSG", "\x02\x0f", nil},
		"lines of freeq":   {"PRIVMSG", "one\ntwo", []line{{"", "one", ""}, {"", "two", ""}}},
		"Latin-1":          {"PRIVMSG", "caf\xe9 \x93so\x94", []line{{"", "café “so”", ""}}},
		"a cut character":  {"PRIVMSG", "schön\xc3", []line{{"", "schön", ""}}},
		"space before it":  {"PRIVMSG", "  code\tx ", []line{{"", "  code x ", ""}}},
	} {
		var h heard
		chat := said(c.command, c.text, "1LA~1")
		chat.Formatting = true
		if err := irc.Relay(t.Context(), bridge.Ports{Messages: &h}, chat); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		var got []line
		for _, each := range h.lines {
			got = append(got, line{each.Fields[federation.Manner], each.Body, each.Fields[federation.Formatted]})
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestRelayChatDerivesStableIDsOfParts(t *testing.T) {
	t.Parallel()
	var h heard
	if err := irc.Relay(t.Context(), bridge.Ports{Messages: &h}, said("PRIVMSG", "one\ntwo", "1LA~1")); err != nil {
		t.Fatal(err)
	}
	if len(h.lines) != 2 || h.lines[0].ID != federation.ChatID("1LA~1") || h.lines[1].ID == h.lines[0].ID {
		t.Fatalf("the lines are %+v", h.lines)
	}
	for _, each := range h.lines { // the line has the ID of another network, if one has it
		if again := federation.ChatID(each.ID.String()); again != each.ID {
			t.Errorf("%s becomes %s", each.ID, again)
		}
	}
	if from := h.lines[0].Author; from != "did:key:lab-alice" {
		t.Errorf("the author is %s", from)
	}
}

func TestRelayChatSkipsLinesWithoutIDAndLinesOfSteps(t *testing.T) {
	t.Parallel()
	var h heard
	if err := irc.Relay(t.Context(), bridge.Ports{Messages: &h}, said("PRIVMSG", "hello", "")); !errors.Is(err, irc.ErrNoMessageID) {
		t.Errorf("without a message ID: %v", err)
	}
	if err := irc.Relay(t.Context(), bridge.Ports{Messages: &h}, said("NOTICE", "offered: x", "01K0A3V9M7Q2X5R8T1W4Y6Z0AB"+irc.LineSuffix)); err != nil {
		t.Errorf("beside a step: %v", err)
	}
	if len(h.lines) > 0 {
		t.Errorf("relayed: %+v", h.lines)
	}
}

func TestRelayChatSendsAllPartsToAFullLink(t *testing.T) {
	t.Parallel()
	h := heard{refusal: &federation.RefusalError{Code: federation.InboxFull}}
	err := irc.Relay(t.Context(), bridge.Ports{Messages: &h}, said("PRIVMSG", "one\ntwo", "1LA~1"))
	if _, ok := errors.AsType[*federation.RefusalError](err); !ok || len(h.lines) != 2 {
		t.Errorf("%d lines, %v", len(h.lines), err)
	}
}

func TestRelayChatNamesTheHandoffOfAReply(t *testing.T) {
	t.Parallel()
	id, err := federation.ParseEventID("01K0A3V9M7Q2X5R8T1W4Y6Z0AB")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		tags map[string]string
		want federation.HandoffID
	}{
		"by its ID":      {map[string]string{irc.RefTag: id.String()}, id},
		"by an answer":   {map[string]string{"+draft/reply": "1LA~9"}, id},
		"by +reply":      {map[string]string{"+reply": "1LA~9"}, id},
		"another answer": {map[string]string{"+draft/reply": "1LA~8"}, federation.HandoffID{}},
		"no ID":          {map[string]string{irc.RefTag: "the first one"}, federation.HandoffID{}},
		"none":           {nil, federation.HandoffID{}},
	} {
		h := heard{known: map[string]federation.HandoffID{"1LA~9": id}}
		chat := said("PRIVMSG", "about that", "1LA~1")
		chat.Refs = irc.RefsIn(c.tags)
		if err := irc.Relay(t.Context(), bridge.Ports{Messages: &h}, chat); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(h.lines) != 1 || h.lines[0].About != c.want {
			t.Errorf("%s: %+v, want %s", name, h.lines, c.want)
		}
	}
}

func TestRelayChatFitsTheAuthorIntoALine(t *testing.T) {
	t.Parallel()
	line := federation.Text{Body: "waves", Arrival: federation.Arrival{Name: "alice", Link: "lab"}, Fields: map[string]string{federation.Manner: federation.Action}}
	if command, texts := irc.NamedChatLines(line, true); command != "PRIVMSG" || !slices.Equal(texts, []string{"\x01ACTION <alice@lab> waves\x01"}) {
		t.Errorf("%s %q", command, texts)
	}
	line.Fields[federation.Manner] = federation.NoticeText
	if command, texts := irc.NamedChatLines(line, true); command != "NOTICE" || !slices.Equal(texts, []string{"<alice@lab> waves"}) {
		t.Errorf("%s %q", command, texts)
	}
	line.Body = strings.Repeat("word ", 63) + "end"
	if _, texts := irc.NamedChatLines(line, true); len(texts) != 2 || strings.Join(texts, " ") != "<alice@lab> "+line.Body {
		t.Errorf("a long line is shown as %q", texts)
	}
}

func TestRelayChatNamesChannelsOfTheLink(t *testing.T) {
	t.Parallel()
	channels, err := irc.ParseChannels([]string{"#ops as #agents", "#Dev"}, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, entries := range [][]string{{"#ops", "#dev"}, {"#OPS as #agents", "#Dev"}} {
		got, err := channels.Relayed(entries)
		if diff := cmp.Diff([]string{"#ops", "#dev"}, got); err != nil || diff != "" {
			t.Errorf("%q: %v %s", entries, err, diff)
		}
	}
	for _, entries := range [][]string{{"#agents"}, {"#other"}, {"ops"}, {"#ops", "#ops"}} {
		if got, err := channels.Relayed(entries); err == nil {
			t.Errorf("%q gives %q", entries, got)
		}
	}
}

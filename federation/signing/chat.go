package signing

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"baton/federation"
)

// The kinds of [ChatLine]. A message has no kind on the wire.
const (
	ChatMessage      = "message"
	ChatDelete       = "delete"
	ChatReact        = "react"
	ChatUnreact      = "unreact"
	ChatCoordination = "coordination"
)

// ChatLine is the signed part of a message or an action on a freeq server. An empty member is absent.
type ChatLine struct {
	Kind   string
	From   federation.DID
	ID     string // the message id
	Target string // the venue, as in [federation.Event]

	Body        string            // of a message, all lines of it
	Edit, Reply string            // of a message: ids of the first version of others
	Tags        map[string]string // of a message: its client tags; unsigned ones are skipped

	Subject string // of a delete, react or unreact: the id of the message
	Emoji   string // of a react or unreact

	Event, Payload, Ref, Evidence string // of a coordination event
}

// Chat is the scheme of chat. Its message is the document that [ChatLine.Document] returns.
//
// spec: freeq-act "Chat documents"
func Chat() Scheme {
	return Scheme{Name: "chat", Document: chatDocument, Encoding: inTag(), KeyID: federation.KeyID}
}

// Document returns the canonical document of a line. Long members are in it as their SHA-256.
func (c ChatLine) Document() ([]byte, error) {
	members := map[string]any{}
	for name, value := range map[string]string{"from": string(c.From), "msgid": c.ID, "target": c.Target} {
		members[name] = value
	}
	optional := map[string]string{}
	switch c.Kind {
	case ChatMessage:
		members["body"] = hashOf(c.Body)
		optional["edit"], optional["reply"] = c.Edit, c.Reply
		if coord := c.coordination(); len(coord) > 0 {
			members["coord"] = coord
		}
	case ChatDelete, ChatReact, ChatUnreact:
		members["kind"] = c.Kind
		optional["subject"], optional["emoji"] = c.Subject, c.Emoji
	case ChatCoordination:
		members["kind"] = c.Kind
		optional["event"], optional["ref"], optional["evidence"] = c.Event, c.Ref, c.Evidence
		if c.Payload != "" {
			optional["payload"] = hashOf(c.Payload)
		}
	default:
		return nil, fmt.Errorf("canonical chat: no kind %q", c.Kind)
	}
	for name, value := range optional {
		if value != "" {
			members[name] = value
		}
	}
	text, err := json.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("canonical chat: %w", err)
	}
	return chatDocument(text)
}

// coordination returns the tags of a message that its signature covers.
func (c ChatLine) coordination() map[string]string {
	covered := map[string]string{}
	for tag, value := range c.Tags {
		name, ours := strings.CutPrefix(tag, "+freeq.at/")
		if ours && value != "" && slices.Contains(coordinationTags(), name) {
			covered[name] = value
		}
	}
	return covered
}

// coordinationTags returns the names of the tags that the signature of a message covers.
func coordinationTags() []string {
	return []string{
		"event", "evidence-type", "link-desc", "link-image", "link-title", "link-url",
		"media-alt", "media-blurhash", "media-duration", "media-filename", "media-h", "media-mime", "media-size", "media-url", "media-w",
		"payload", "ref", "task-id",
	}
}

// hashOf returns the SHA-256 of a text, as documents write it.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// chatDocument canonicalises a document of chat. It refuses members that the kind does not have.
func chatDocument(message []byte) ([]byte, error) {
	canonical, err := JCS(message)
	if err != nil {
		return nil, fmt.Errorf("canonical chat: %w", err)
	}
	var members map[string]json.RawMessage
	if err := federation.DecodeJSON(canonical, &members); err != nil {
		return nil, fmt.Errorf("canonical chat: %w", err)
	}
	var kind string
	if value, ok := members["kind"]; ok {
		if err := federation.DecodeJSON(value, &kind); err != nil {
			return nil, fmt.Errorf("canonical chat: kind: %w", err)
		}
	}
	required, optional, err := chatMembers(kind)
	if err != nil {
		return nil, err
	}
	for name, value := range members {
		if !slices.Contains(required, name) && !slices.Contains(optional, name) {
			return nil, fmt.Errorf("canonical chat: %q is no member of this kind", name)
		}
		if name == "coord" {
			err = checkCoordination(value)
		} else {
			err = checkFilled(value)
		}
		if err != nil {
			return nil, fmt.Errorf("canonical chat: %q: %w", name, err)
		}
	}
	for _, name := range required {
		if members[name] == nil {
			return nil, fmt.Errorf("canonical chat: no %s", name)
		}
	}
	return canonical, nil
}

// chatMembers returns the members of a kind; a message has the kind "".
func chatMembers(kind string) (required, optional []string, err error) {
	always := []string{"from", "msgid", "target"}
	switch kind {
	case "":
		return append(always, "body"), []string{"coord", "edit", "reply"}, nil
	case ChatDelete:
		return append(always, "kind", "subject"), nil, nil
	case ChatReact, ChatUnreact:
		return append(always, "kind", "subject", "emoji"), nil, nil
	case ChatCoordination:
		return append(always, "kind", "event"), []string{"payload", "ref", "evidence"}, nil
	}
	return nil, nil, fmt.Errorf("canonical chat: no kind %q", kind)
}

// checkFilled refuses a value that is not a string, and the empty string: an absent member is the one form
// of no value.
func checkFilled(value json.RawMessage) error {
	var text *string
	if err := federation.DecodeJSON(value, &text); err != nil {
		return err
	}
	if text == nil || *text == "" {
		return errors.New("it is empty")
	}
	return nil
}

func checkCoordination(value json.RawMessage) error {
	_, tags, err := canonicalStrings(value)
	if err != nil {
		return err
	}
	for name := range tags {
		if !slices.Contains(coordinationTags(), name) {
			return fmt.Errorf("%q is no signed tag of a message", name)
		}
	}
	return nil
}

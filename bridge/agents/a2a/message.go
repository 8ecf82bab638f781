package a2a

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	wire "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

type received struct {
	wire.Message

	raw   json.RawMessage
	parts json.RawMessage
}

// parseMessage keeps the text of the parts, to preserve numbers and unknown members.
func parseMessage(text json.RawMessage) (received, error) {
	var m received
	var raw struct {
		Parts json.RawMessage `json:"parts"`
	}
	if err := federation.DecodeJSON(text, &raw); err != nil {
		return m, badParams("message: " + err.Error())
	}
	if err := federation.DecodeJSON(text, &m.Message); err != nil {
		return m, badParams("message: " + err.Error())
	}
	m.raw, m.parts = text, raw.Parts
	if err := checkParts(raw.Parts); err != nil {
		return m, badParams("message.parts: " + err.Error())
	}
	switch {
	case m.ID == "":
		return m, badParams("message.messageId is required")
	case m.Role != wire.MessageRoleUser:
		return m, badParams("message.role: want " + string(wire.MessageRoleUser))
	case len(m.Parts) == 0 || slices.Contains(m.Parts, nil):
		return m, badParams("message.parts: want one part or more")
	case m.ContextID != "" && !validContextID(m.ContextID):
		return m, badParams("message.contextId: want 1 to 128 characters of A-Z a-z 0-9 . _ : -")
	case slices.ContainsFunc(m.Parts, func(p *wire.Part) bool { return p.Raw() != nil }):
		return m, fault(codeContentType, "a part with raw bytes is not carried; send a url or data")
	}
	return m, nil
}

// checkParts is needed because the library decodes parts with encoding/json.
func checkParts(parts json.RawMessage) error {
	var list []json.RawMessage
	if parts == nil {
		return nil
	}
	if err := federation.DecodeJSON(parts, &list); err != nil {
		return err
	}
	for _, part := range list {
		if err := federation.ExactNames(part, "text", "raw", "data", "url", "filename", "mediaType", "metadata"); err != nil {
			return err
		}
	}
	return nil
}

// A client's contextId is stored with each of its offers.
const maxContextID = 128

func validContextID(id string) bool {
	return len(id) <= maxContextID && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._:-", r)
	})
}

type wishes struct {
	Title    string    `json:"title"`
	Deadline time.Time `json:"deadline"`
	Caps     []string  `json:"caps"`
	Channel  string    `json:"channel"`
	Replaces string    `json:"replaces"`
}

// offerOf returns an offer to any claimant if to is "".
func offerOf(m received, to federation.DID) (participant.Offer, error) {
	w, err := wishesOf(m)
	if err != nil {
		return participant.Offer{}, err
	}
	o := participant.Offer{To: string(to), Title: w.Title, Deadline: w.Deadline, Caps: w.Caps, Channel: w.Channel, Replaces: w.Replaces}
	if o.Title == "" {
		o.Title = titleOf(m.Parts)
	}
	if o.Title == "" {
		return o, badParams("an offer needs a part with text, or metadata.handoff.title")
	}
	title, _, _ := translate.FitTitle(o.Title, "")
	o.Context, err = contextOf(m, title)
	return o, err
}

func wishesOf(m received) (wishes, error) {
	var w wishes
	wanted, given := m.Metadata["handoff"]
	if !given {
		return w, nil
	}
	text, err := json.Marshal(wanted)
	if err != nil {
		return w, err
	}
	if err := federation.DecodeStrictJSON(text, &w); err != nil { // a misspelt deadline must not be dropped
		return w, badParams("metadata.handoff: " + err.Error())
	}
	return w, nil
}

// titleOf returns the first non-empty line of the first text part, or "".
func titleOf(parts wire.ContentParts) string {
	for _, p := range parts {
		for line := range strings.Lines(p.Text()) {
			if title, _, _ := translate.FitTitle(line, ""); title != "" {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}

// contextOf returns the whole message except the title.
func contextOf(m received, title string) (json.RawMessage, error) {
	others := slices.Clone(m.Parts)
	if i := slices.IndexFunc(others, func(p *wire.Part) bool { return p.Text() != "" }); i >= 0 && strings.TrimSpace(others[i].Text()) == title {
		others = slices.Delete(others, i, i+1)
	}
	if len(others) == 0 {
		return nil, nil
	}
	text := []byte(`{"parts":` + string(m.parts) + `}`)
	if len(others) == 1 && others[0].Data() != nil {
		data, err := dataOf(m.parts)
		if err != nil {
			return nil, err
		}
		if federation.InlineContext(strings.TrimSpace(string(data))) {
			text = data
		}
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return nil, fmt.Errorf("write context: %w", err)
	}
	return compact.Bytes(), nil
}

func dataOf(parts json.RawMessage) (json.RawMessage, error) {
	var raw []struct {
		Data json.RawMessage `json:"data"`
	}
	if err := federation.DecodeJSON(parts, &raw); err != nil {
		return nil, fmt.Errorf("read parts: %w", err)
	}
	for _, p := range raw {
		if p.Data != nil {
			return p.Data, nil
		}
	}
	return nil, nil
}

type sendRequest struct {
	Message json.RawMessage        `json:"message"`
	Config  wire.SendMessageConfig `json:"configuration"`
}

// send also returns the client's configuration.
func (l *Link) send(ctx context.Context, req request) (*fold, wire.SendMessageConfig, error) {
	p, err := params[sendRequest](req)
	if err == nil {
		err = checkLength(p.Config.HistoryLength)
	}
	if err != nil {
		return nil, p.Config, err
	}
	m, err := parseMessage(p.Message)
	if err == nil && m.TaskID != "" {
		err = l.refuseFollowUp(ctx, req, m)
	}
	if err == nil && p.Config.PushConfig != nil {
		err = l.checkPush(ctx, *p.Config.PushConfig)
	}
	if err != nil {
		return nil, p.Config, err
	}
	view, err := l.offer(ctx, req, m)
	if err == nil && p.Config.PushConfig != nil {
		_, err = l.keepPush(ctx, req.caller, view, *p.Config.PushConfig)
	}
	if err != nil {
		return nil, p.Config, err
	}
	f, err := l.readTask(ctx, view)
	return f, p.Config, err
}

// refuseFollowUp rejects a message to an existing task: a handoff has steps, not a conversation.
func (l *Link) refuseFollowUp(ctx context.Context, req request, m received) error {
	view, err := l.find(ctx, req, m.TaskID)
	if err != nil {
		return err
	}
	f, err := l.fold(ctx, view)
	if err != nil {
		return err
	}
	if m.ContextID != "" && m.ContextID != f.info.ContextID {
		return badParams("message.contextId differs from the one of the task")
	}
	return fault(codeUnsupported, "the task accepts no further messages; send a new offer")
}

// offer returns the earlier handoff if the endpoint already has a message with this ID.
func (l *Link) offer(ctx context.Context, req request, m received) (federation.View, error) {
	o, err := offerOf(m, req.agent)
	if err != nil {
		return federation.View{}, err
	}
	from := participant.Request{Key: keyOf(req.agent, m.ID), Path: requestPath(req.agent), Body: m.raw}
	filed, err := l.access.Offer(ctx, req.caller, o, from)
	if err != nil {
		return federation.View{}, err
	}
	id, err := federation.ParseEventID(filed.ID)
	if err != nil {
		return federation.View{}, fmt.Errorf("read filed offer: %w", err)
	}
	view, err := l.deps.Gateway.View(ctx, id)
	switch {
	case err != nil:
		return federation.View{}, fmt.Errorf("read handoff %s: %w", id, err)
	case !view.Exists():
		return federation.View{}, &federation.UnavailableError{What: "the judgement of the offer", Err: errors.New(filed.Waits)}
	}
	return view, nil
}

// keyOf includes the agent: message IDs are unique only per endpoint.
func keyOf(agent federation.DID, messageID string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s", agent, messageID))
	return network + ":" + hex.EncodeToString(sum[:])
}

func isNoHandoff(err error) bool {
	refused, ok := errors.AsType[*federation.RefusalError](err)
	return ok && refused.Code == federation.UnknownHandoff
}

func errNotCancelable(v federation.View) error {
	return fault(codeNotCancelable, "the task is over: "+string(v.State))
}

// cancelError accepts a refusal if another step ended the task first.
func cancelError(err error, v federation.View) error {
	refused, ok := errors.AsType[*federation.RefusalError](err)
	if ok && refused.Code == federation.TerminalHandoff {
		return errNotCancelable(v)
	}
	return err
}

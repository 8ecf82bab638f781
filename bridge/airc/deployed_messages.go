package airc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/baton-gateway/baton/bridge/airc/wire"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/agents"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate/aircmsg"
)

// Clients skip messages older than the newest they saw, so a conversation is read as a whole.
const (
	maxConversations = 500
	conversationPage = 500
)

// assuranceToken means that the registry vouches for a message because of its token.
const assuranceToken = "token"

type draft struct {
	id, to, text, replyTo string
	payload               json.RawMessage
	scheme                scheme
}

func parseDraft(o *wire.Object, body []byte, header http.Header, agent agents.Agent, now time.Time) (draft, error) {
	d := draft{
		id: o.First("id", "idempotency_key", "idempotencyKey", "client_id"), to: wire.PlainHandle(o.First("to", "handle")),
		text: o.First("body", "text", "content"), replyTo: o.First("reply_to", "replyTo"),
		payload: o.Nested("payload"), scheme: findScheme(body, header, goodKeys(agent, now)),
	}
	kind := o.First("type")
	if err := d.readPayload(kind); err != nil && o.Err == nil {
		return d, err
	}
	if kind != "" && kind != "text" && d.payload == nil {
		d.payload = json.RawMessage(`{"type":` + string(wire.JSONString(kind)) + `,"data":{"text":` + string(wire.JSONString(d.text)) + `}}`)
	}
	switch {
	case o.Err != nil:
		return d, o.Err
	case d.to == "":
		return d, wire.Refuse(wire.CodeBadRequest, `Missing "to" field`)
	case d.text == "" && d.payload == nil:
		return d, wire.Refuse(wire.CodeBadRequest, `Missing "body" field`)
	case utf8.RuneCountInString(d.text) > wire.MaxTextChars:
		return d, wire.Refuse(wire.CodeBadRequest, "the text is at most 4000 characters")
	case d.id != "" && (len(d.id) < 8 || len(d.id) > 128 || strings.Trim(d.id, wire.IDChars) != ""):
		return d, wire.Refuse(wire.CodeBadRequest, "id is not 8 to 128 characters of A-Z a-z 0-9 _ . : -")
	case o.Has("approved_sha256"):
		return d, checkApproved(o.First("approved_sha256"), o.First("to", "handle"), d.text)
	}
	return d, nil
}

// checkApproved compares the digest a person approved: of the stored text, and of the recipient in lower
// case without "@".
//
// spec: wire/airc §1.3
func checkApproved(digest, to, text string) error {
	approved, err := hex.DecodeString(digest)
	if err != nil || len(approved) != sha256.Size {
		return wire.Refuse(wire.CodeApprovedMalformed, "approved_sha256 is not the SHA-256 of a recipient and a text, in hexadecimal")
	}
	kept := sha256.Sum256([]byte(strings.TrimPrefix(wire.LowerASCII(to), "@") + "\n" + text))
	if bytes.Equal(approved, kept[:]) {
		return nil
	}
	return &wire.ProblemError{
		Code: wire.CodeApprovedMismatch, Message: "approved_sha256 does not match the recipient and text: nothing was sent",
		Approval: &wire.Approval{Reason: "content_differs", Text: text, SHA256: hex.EncodeToString(kept[:])},
	}
}

// readPayload requires a type in the message or the payload, unless the payload has a text: the first
// clients send no type.
func (d *draft) readPayload(kind string) error {
	if d.payload == nil {
		return nil
	}
	content, err := wire.ParseObject(d.payload)
	if err != nil {
		return err
	}
	said := content.First("content", "text")
	if d.text == "" {
		d.text = said
	}
	if kind == "" && said == "" && content.First("type") == "" {
		return wire.Refuse(wire.CodeBadRequest, `Missing "type" in "payload"`)
	}
	return nil
}

func (l *Link) postDeployedMessage(c *call) (answer, error) {
	body, err := l.readBody(c)
	if err != nil {
		return answer{}, err
	}
	o, err := wire.ParseObject(body)
	if err != nil {
		return answer{}, err
	}
	agent, err := c.self(o.First("from", "username"))
	if err != nil {
		return answer{}, err
	}
	now := time.Now()
	if err := l.mayWrite(c.Context(), agent.DID, now); err != nil {
		return answer{}, err
	}
	m, err := parseDraft(o, body, c.Header, agent, now)
	if err != nil {
		return answer{}, err
	}
	if again, err := l.repeated(c.Context(), agent.Handle, m, now); err != nil || again.body != nil {
		return again, err
	}
	return l.postDraft(c.Context(), agent, m, now)
}

// repeated succeeds if the contents match, because deployed clients treat any refusal as a failure.
func (l *Link) repeated(ctx context.Context, from string, m draft, now time.Time) (answer, error) {
	if m.id == "" {
		return answer{}, nil
	}
	sent, err := l.deps.Record.Sent(ctx, from, m.id, now.Add(-agents.MessageIDWindow))
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return answer{}, nil
	case err != nil:
		return answer{}, fmt.Errorf("look up message: %w", err)
	}
	before := l.readStored(sent)
	if sent.To != m.to || before.Body != m.text || !sameJSON(before.Payload, m.payload) {
		return answer{}, agents.ErrDuplicate
	}
	said := l.describeSent(sent, nil)
	said["duplicate"], said["idempotentReplay"] = true, true
	return answer{status: http.StatusOK, body: said}, nil
}

func sameJSON(a, b json.RawMessage) bool {
	first, errA := signing.JCS(wire.OrNull(a))
	second, errB := signing.JCS(wire.OrNull(b))
	return errA == nil && errB == nil && bytes.Equal(first, second)
}

func orNone(payload json.RawMessage) any {
	if payload == nil {
		return nil
	}
	return payload
}

func (l *Link) postDraft(ctx context.Context, agent agents.Agent, m draft, now time.Time) (answer, error) {
	if m.id == "" {
		m.id = wire.NewMessageID("msg_")
	}
	sealed, err := l.sign(ctx, outgoing{
		ID: m.id, From: agent.Handle, To: m.to, Body: m.text, Payload: orNone(m.payload), ReplyTo: m.replyTo,
		Assurance: assuranceToken, Scheme: m.scheme,
	}, now)
	if err != nil {
		return answer{}, err
	}
	d := l.sealedDelivery(agent, sealed, envelope{to: m.to, body: m.text, payload: m.payload, replyTo: m.replyTo}, now)
	status, done, err := l.dispatchCharged(ctx, d)
	if err != nil {
		return answer{}, err
	}
	filed := sealed
	filed.Seq, filed.To, filed.Told = done.Seq, d.recipient.handle, now
	said := l.describeSent(filed, done.Handoff)
	if done.Consent != "" {
		said["consent"], said["held"], said["pendingConsent"] = done.Consent, true, true
		said["notice"] = heldNotice(deployedConsentPath, shownHandle(agent.Handle), shownHandle(filed.To))
	}
	return answer{status: status, body: said}, nil
}

func (l *Link) sealedDelivery(sender agents.Agent, sealed agents.Message, read envelope, now time.Time) *inbound {
	key := l.deps.Keyring.Registry()
	d := &inbound{sender: sender, received: now, key: agents.Key{ID: signing.RegistryKeyID(key.Public), Public: key.Public}, envelope: read}
	d.id, d.kid, d.aud, d.from, d.timestamp, d.raw = sealed.ID, d.key.ID, l.domain, sender.Handle, now, sealed.Envelope
	return d
}

// dispatchCharged counts the message in its sender's rate, whatever the outcome.
func (l *Link) dispatchCharged(ctx context.Context, d *inbound) (status int, done posted, err error) {
	a, err := l.dispatch(ctx, d)
	if !d.charged {
		_ = l.charge(ctx, d) // the message is already refused for another reason
	}
	done, _ = a.body.(posted)
	return a.status, done, err
}

func (l *Link) describeSent(m agents.Message, step *filed) wire.Members {
	said := wire.Members{
		"success": true, "message": l.describeMessage(m, m.From, false), "messageId": m.ID, "id": m.ID,
		"consent": agents.ConsentAccepted, "storage": "record",
	}
	if step != nil {
		said["handoff"] = step
	}
	return said
}

type stored struct {
	KeyID     string          `json:"kid"`
	Body      string          `json:"body"`
	Payload   json.RawMessage `json:"payload"`
	Type      string          `json:"-"`
	ReplyTo   string          `json:"reply_to"`
	Assurance string          `json:"assurance"`
	Origin    json.RawMessage `json:"origin"`

	updated bool // Payload shows a newer state of the handoff than the envelope
}

func (*Link) readStored(m agents.Message) stored {
	var s stored
	_ = federation.DecodeJSON(m.Envelope, &s) // decoded before it was filed
	if m.Now != "" && strings.HasPrefix(s.KeyID, registryKeyPrefix) && s.Assurance == "" && s.Origin == nil {
		s.Payload, s.updated = aircmsg.Update(s.Payload, m.Now)
	}
	var payload struct {
		Type string `json:"type"`
	}
	if federation.DecodeJSON(s.Payload, &payload) != nil || payload.Type == "" {
		payload.Type = "text"
	}
	s.Type = payload.Type
	return s
}

func (l *Link) describeMessage(m agents.Message, reader string, read bool) wire.Members {
	s := l.readStored(m)
	direction := "received"
	if m.From == reader && m.To != reader {
		direction = "sent"
	}
	delivered := m.Told
	if delivered.IsZero() { // held
		delivered = m.Received
	}
	at := wire.ISOTime(delivered)
	entry := wire.Members{
		"id": m.ID, "messageId": m.ID, "from": shownHandle(m.From), "to": shownHandle(m.To),
		"from_handle": shownHandle(m.From), "to_handle": shownHandle(m.To),
		"body": s.Body, "text": s.Body, "content": s.Body, "type": s.Type, "payload": wire.OrNull(s.Payload),
		"thread_id": threadID(m.From, m.To), "seq": m.Seq, "reply_to": nil, "created_at": at, "createdAt": at,
		"timestamp": delivered.Unix(), "direction": direction, "read": read, "signed": !strings.HasPrefix(s.KeyID, registryKeyPrefix),
	}
	if s.ReplyTo != "" {
		entry["reply_to"] = wire.Members{"id": s.ReplyTo}
	}
	if s.Assurance != "" {
		entry["assurance"] = s.Assurance
	}
	return entry
}

func threadID(a, b string) string { return min(a, b) + ":" + max(a, b) }

func (l *Link) getDeployedMessages(c *call) (answer, error) {
	query := c.URL.Query()
	agent, err := c.self(query.Get("user"))
	if err != nil {
		return answer{}, err
	}
	peer := c.PathValue("handle")
	if peer == "" {
		peer = query.Get("with")
	}
	if peer != "" {
		return l.readConversation(c.Context(), agent, wire.PlainHandle(peer))
	}
	limit, err := pageSize(query.Get("limit"))
	if err != nil {
		return answer{}, err
	}
	messages, err := l.readNew(c.Context(), agent, query.Get("since"), query.Has("to"), limit)
	if err != nil {
		return answer{}, err
	}
	return l.answerInbox(c.Context(), agent, messages)
}

// readNew marks messages as fetched only without since and with looks, because a client that lists its
// conversations rereads them. The mark is on disk before the response; otherwise, a bot that polls at once
// would answer some messages twice.
func (l *Link) readNew(ctx context.Context, agent agents.Agent, since string, looks bool, limit int) ([]agents.Message, error) {
	if since != "" && since != "0" {
		seconds, err := strconv.ParseInt(since, 10, 64)
		if err != nil || seconds < 0 {
			return nil, wire.Refuse(wire.CodeBadRequest, "since is not a time in Unix seconds")
		}
		return l.deps.Record.Since(ctx, agent.Handle, time.Unix(seconds, 0), limit)
	}
	messages, err := l.deps.Record.Fresh(ctx, agent.Handle, limit)
	if err != nil || looks || len(messages) == 0 {
		return messages, err
	}
	return messages, l.shown(agent, page{messages: messages})(context.WithoutCancel(ctx))
}

func (l *Link) answerInbox(ctx context.Context, agent agents.Agent, messages []agents.Message) (answer, error) {
	conversations, err := l.deps.Record.Conversations(ctx, agent.Handle, maxConversations)
	if err != nil {
		return answer{}, fmt.Errorf("read conversations: %w", err)
	}
	inbox, threads, bySender, unread := []wire.Members{}, []wire.Members{}, map[string]int{}, 0
	for _, m := range messages {
		inbox = append(inbox, l.describeMessage(m, agent.Handle, false))
	}
	for _, conversation := range conversations {
		threads = append(threads, l.describeConversation(conversation, agent.Handle))
		unread += conversation.Unread
		if conversation.Unread > 0 {
			bySender[shownHandle(conversation.With)] = conversation.Unread
		}
	}
	return answer{status: http.StatusOK, body: wire.Members{
		"success": true, "user": agent.Handle, "messages": inbox, "inbox": inbox, "threads": threads,
		"bySender": bySender, "unread": unread, "total": len(threads), "count": len(threads),
	}}, nil
}

func (l *Link) describeConversation(conversation agents.Conversation, reader string) wire.Members {
	last := l.describeMessage(conversation.Last, reader, conversation.Unread == 0)
	body, _ := last["body"].(string)
	id, with := threadID(reader, conversation.With), shownHandle(conversation.With)
	return wire.Members{
		"id": id, "thread_id": id, "with": with, "handle": with, "unread": conversation.Unread,
		"message_count": conversation.Count, "last_message_at": last["created_at"], "last_seen": last["created_at"],
		"last_message": last, "latest": wire.Members{"timestamp": conversation.Last.Told.UnixMilli(), "body": body}, "preview": body,
	}
}

func (l *Link) readConversation(ctx context.Context, agent agents.Agent, with string) (answer, error) {
	peer, err := l.correspondent(ctx, l.unmangled(ctx, agent.Handle, with))
	if err != nil {
		return answer{}, err
	}
	messages, err := l.deps.Record.Recent(ctx, agent.Handle, peer, conversationPage)
	if err != nil {
		return answer{}, fmt.Errorf("read conversation: %w", err)
	}
	thread := []wire.Members{}
	for _, m := range messages {
		thread = append(thread, l.describeMessage(m, agent.Handle, true))
	}
	seen := l.shown(agent, page{messages: messages})
	return answer{status: http.StatusOK, body: wire.Members{
		"success": true, "user": agent.Handle, "with": shownHandle(peer), "thread_id": threadID(agent.Handle, peer),
		"messages": thread, "thread": thread, "count": len(thread),
	}, after: func(ctx context.Context) error {
		if err := l.deps.Record.ReadConversation(ctx, agent.Handle, peer, time.Now()); err != nil || seen == nil {
			return err
		}
		return seen(ctx)
	}}, nil
}

// unmangled restores the "@" that a client dropped from a handle of another registry.
func (l *Link) unmangled(ctx context.Context, reader, handle string) string {
	if !strings.Contains(handle, ".") || strings.Contains(handle, "@") {
		return handle
	}
	conversations, err := l.deps.Record.Conversations(ctx, reader, maxConversations)
	if err != nil {
		return handle
	}
	for _, c := range conversations {
		if strings.Replace(c.With, "@", "", 1) == handle {
			return c.With
		}
	}
	return handle
}

// getDeployedInbox serves older clients.
func (l *Link) getDeployedInbox(c *call) (answer, error) {
	agent, err := c.self(c.URL.Query().Get("handle"))
	if err != nil {
		return answer{}, err
	}
	return l.answerInbox(c.Context(), agent, nil)
}

func (l *Link) deleteDeployedMessage(c *call) (answer, error) {
	o, err := l.readObject(c)
	if err != nil {
		return answer{}, err
	}
	agent, err := c.self(o.First("user"))
	if err != nil {
		return answer{}, err
	}
	id := o.Text("messageId")
	if o.Err != nil {
		return answer{}, o.Err
	}
	err = l.deps.Record.Delete(c.Context(), agent.Handle, id)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		return answer{}, wire.Refuse(wire.CodeNotFound, "you have no message with this id")
	case err != nil:
		return answer{}, fmt.Errorf("delete message: %w", err)
	}
	return answer{status: http.StatusOK, body: wire.Members{"success": true, "deleted": id}}, nil
}

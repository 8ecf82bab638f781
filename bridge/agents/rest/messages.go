package rest

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/federation"
)

func (l *Link) createMessage(ctx context.Context, req contract.MessageOnce) (contract.Sent, error) {
	body, err := req.Body.Read()
	if err != nil {
		return contract.Sent{}, err
	}
	return l.access.Say(ctx, callerOf(ctx).Caller, body, req.IdempotencyKey)
}

const (
	typeStep    = "step"
	typeMessage = "message"
)

func typeOf(e federation.Entry) string {
	if e.Text != nil {
		return typeMessage
	}
	return typeStep
}

func (l *Link) shapeMessage(ctx context.Context, t federation.Text, filed time.Time) contract.Message {
	m := contract.Message{
		ID: t.ID.String(), From: string(t.Author), Name: l.access.Name(ctx, t.Author), To: string(t.To), Text: t.Body, Handoff: t.About.String(),
		Network: t.Arrival.Network, Time: participant.Timestamp(t.Arrival.Received), Filed: participant.Timestamp(filed),
		Introduction: introduction(t),
	}
	if t.Evidence != nil {
		m.Evidence = contract.Evidence{URL: t.Evidence.URL, Sha256: hex.EncodeToString(t.Evidence.Digest[:])}
	}
	return m
}

const contactsPath = Prefix + "contacts/"

func (l *Link) listContacts(ctx context.Context, p contract.Paging) (contract.ContactPage, error) {
	found, err := l.access.Contacts(ctx, callerOf(ctx).Caller, p.Cursor, p.Limit)
	if err != nil {
		return contract.ContactPage{}, err
	}
	page := contract.ContactPage{Items: make([]contract.Contact, len(found.Items)), NextCursor: found.Next}
	for i, c := range found.Items {
		page.Items[i] = shapeContact(c)
	}
	return page, nil
}

func (l *Link) putContact(ctx context.Context, req contract.ContactChange) (contract.Contact, error) {
	body, err := req.Body.Read()
	if err != nil {
		return contract.Contact{}, err
	}
	c, err := l.access.Decide(ctx, callerOf(ctx).Caller, req.Sender, federation.ContactState(body.State))
	return shapeContact(c), err
}

func shapeContact(c participant.Contact) contract.Contact {
	return contract.Contact{DID: string(c.DID), Name: c.Name, State: string(c.State), Since: participant.Timestamp(c.Since)}
}

// introduction returns the zero Introduction unless the message is an unknown sender's first.
func introduction(t federation.Text) contract.Introduction {
	if t.Fields[federation.Introduces] == "" {
		return contract.Introduction{}
	}
	contact := contactsPath + url.PathEscape(string(t.Author))
	return contract.Introduction{Contact: contact, Text: fmt.Sprintf(
		`%s writes to you for the first time. PUT {"state":"blocked"} to %s to refuse its messages on every network; {"state":"allowed"}, or an answer, allows it.`,
		t.Author, contact)}
}

var _ bridge.Notifier = (*Link)(nil)

// Notify implements [bridge.Notifier]. Later readers find the notice in the record.
func (l *Link) Notify(_ context.Context, n federation.Notice) error {
	if reader := n.Reader(); reader != "" {
		l.deps.PubSub.Wake(bridge.DIDTopic(reader), bridge.WebhooksTopic)
	}
	return nil
}

func (l *Link) listNotices(ctx context.Context, p contract.Paging) (contract.NoticePage, error) {
	var page contract.NoticePage
	did, err := person(ctx)
	if err != nil {
		return page, err
	}
	after := federation.Cursor(p.Cursor)
	found, err := l.deps.Record.NoticesTo(ctx, federation.InboxLink, did, after, p.Limit)
	if err != nil {
		return page, err
	}
	page = contract.NoticePage{Items: make([]contract.Notice, len(found)), NextCursor: string(after)}
	for i, n := range found {
		page.Items[i] = shapeNotice(n)
		page.NextCursor = string(n.Cursor)
	}
	return page, nil
}

func shapeNotice(n federation.Notice) contract.Notice {
	shaped := contract.Notice{Cursor: string(n.Cursor), Notice: string(n.Kind), Time: participant.Timestamp(n.At), Text: n.Sentence(), To: n.To, Code: n.Code, Why: n.Why}
	if n.Kind == federation.NoticeDisabled {
		shaped.WebhookID, shaped.URL = n.Webhook.ID.String(), n.Webhook.URL
		return shaped
	}
	if t := n.Text; t != nil {
		shaped.EventID, shaped.HandoffID, shaped.Verb = t.ID.String(), t.About.String(), federation.TextVerb
		return shaped
	}
	shaped.EventID, shaped.HandoffID, shaped.Verb = n.Event.ID.String(), n.Event.Handoff.String(), string(n.Event.Verb)
	return shaped
}

type seen struct{ entries, notices federation.Cursor }

// Cursors do not contain this separator of an event ID.
const seenDot = "."

// parseSeen reads an event ID, or a cursor that covers only entries.
func parseSeen(text string) seen {
	entries, notices, _ := strings.Cut(text, seenDot)
	return seen{federation.Cursor(entries), federation.Cursor(notices)}
}

// String returns the ID of the server-sent event at this position.
func (s seen) String() string {
	if s.notices == "" {
		return string(s.entries)
	}
	return string(s.entries) + seenDot + string(s.notices)
}

package agentapi

import (
	"context"
	"strings"

	"baton/bridge"
	"baton/bridge/agentapi/contract"
	"baton/federation"
)

var _ bridge.Notifier = (*Link)(nil)

// Notify implements [bridge.Notifier]: it wakes the streams and the webhooks of the DID.
// The record keeps the notice for later readers.
func (l *Link) Notify(_ context.Context, n federation.Notice) error {
	if reader := n.Reader(); reader != "" {
		l.deps.Wakes.Wake(bridge.DIDTopic(reader), bridge.WebhooksTopic)
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
	found, err := l.deps.Notices.NoticesTo(ctx, federation.InboxLink, did, after, p.Limit)
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
	shaped := contract.Notice{Cursor: string(n.Cursor), Notice: string(n.Kind), Time: moment(n.At), Text: n.Sentence(), To: n.To, Code: n.Code, Why: n.Why}
	if n.Kind == federation.NoticeDisabled {
		shaped.WebhookID, shaped.URL = n.Webhook.ID.String(), n.Webhook.URL
		return shaped
	}
	shaped.EventID, shaped.HandoffID, shaped.Verb = n.Event.ID.String(), n.Event.Handoff.String(), string(n.Event.Verb)
	if n.Event.IsMessage() {
		shaped.HandoffID = n.Event.ReplyTo
	}
	return shaped
}

// seen is the position of a watching client: the last entry of the inbox, and the last
// notice.
type seen struct{ entries, notices federation.Cursor }

// seenDot is between the two in the id of an event. No cursor has it.
const seenDot = "."

// parseSeen reads the id of an event, or a cursor of entries alone.
func parseSeen(text string) seen {
	entries, notices, _ := strings.Cut(text, seenDot)
	return seen{federation.Cursor(entries), federation.Cursor(notices)}
}

// String returns the id of an event at this position.
func (s seen) String() string {
	if s.notices == "" {
		return string(s.entries)
	}
	return string(s.entries) + seenDot + string(s.notices)
}

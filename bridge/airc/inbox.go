package airc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"baton/federation"
)

// How many messages one answer holds.
const (
	defaultPage = 50
	maxPage     = 100
)

// getInbox answers GET /messages/inbox. Reading changes nothing.
//
// spec: airc-v0.1.1 §7.4
func (l *Link) getInbox(r *http.Request) (answer, error) {
	agent, err := l.authenticate(r)
	if err != nil {
		return answer{}, err
	}
	query := r.URL.Query()
	limit, err := pageSize(query.Get("limit"))
	if err != nil {
		return answer{}, err
	}
	next := federation.Cursor(query.Get("cursor"))
	messages, more, err := l.deps.Registry.Inbox(r.Context(), agent.Handle, next, limit)
	if err != nil {
		return answer{}, fmt.Errorf("read inbox: %w", err)
	}
	var page bytes.Buffer
	page.WriteString(`{"messages":[`)
	for i, m := range messages {
		if i > 0 {
			page.WriteByte(',')
		}
		page.Write(delivered(m))
		next = m.Cursor
	}
	cursor, err := json.Marshal(next)
	if err != nil {
		return answer{}, fmt.Errorf("write cursor: %w", err)
	}
	fmt.Fprintf(&page, `],"nextCursor":%s,"hasMore":%t}`, cursor, more)
	return answer{status: http.StatusOK, body: raw(page.Bytes())}, nil
}

// delivered returns a message with its seq, which nobody signed, before the bytes
// that were signed.
func delivered(m federation.Message) []byte {
	members := bytes.TrimPrefix(bytes.TrimSpace(m.Envelope), []byte("{"))
	return append(fmt.Appendf(nil, `{"seq":%d,`, m.Seq), members...)
}

func pageSize(text string) (int, error) {
	if text == "" {
		return defaultPage, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, refuse(codeBadRequest, "limit is not a number above 0")
	}
	return min(n, maxPage), nil
}

package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/passport"
)

// Watch calls line with each line of a watched list. It returns nil after the gateway closes the
// stream or ctx ends, the error of line, or a [*federation.UnavailableError] for a broken connection.
func Watch[In, Out any](ctx context.Context, c *Client, r route.Route[In, Out], in In, line func(text []byte) error) error {
	response, err := open(ctx, c, r, in)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return eachLine(ctx, response.Body, line)
}

func eachLine(ctx context.Context, answer io.Reader, line func(text []byte) error) error {
	lines := bufio.NewScanner(answer)
	lines.Buffer(nil, maxAnswerBytes)
	for lines.Scan() {
		if err := line(lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		return &federation.UnavailableError{What: "gateway", Err: err}
	}
	return nil
}

// Handoff returns a handoff with all its steps.
func (c *Client) Handoff(ctx context.Context, id string) (admin.Handoff, error) {
	var whole admin.Handoff
	ask := admin.IDPage{ID: id, Paging: admin.Paging{Limit: new(admin.MaxLimit)}}
	for {
		part, err := Call(ctx, c, admin.GetHandoff, ask)
		if err != nil {
			return whole, err
		}
		part.Steps = append(whole.Steps, part.Steps...)
		whole = part
		if part.NextCursor == "" {
			return whole, nil
		}
		ask.Cursor = part.NextCursor
	}
}

// DeadLetters yields all dead letters with their details, newest first. It ends at the first error.
func (c *Client) DeadLetters(ctx context.Context) iter.Seq2[admin.DeadLetter, error] {
	return func(yield func(admin.DeadLetter, error) bool) {
		ask := admin.DeadQuery{Watching: admin.Watching{Paging: admin.Paging{Limit: new(admin.MaxLimit)}}}
		for {
			page, err := Call(ctx, c, admin.ListDead, ask)
			if err != nil {
				yield(admin.DeadLetter{}, err)
				return
			}
			for _, item := range page.Items {
				letter, err := Call(ctx, c, admin.GetDead, admin.ByID{ID: strconv.FormatInt(item.ID, 10)})
				if !yield(letter, err) || err != nil {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			ask.Cursor = page.NextCursor
		}
	}
}

// ExportDeadLetters writes all dead letters with their details as JSON lines, newest first.
func (c *Client) ExportDeadLetters(ctx context.Context, out io.Writer) error {
	lines := json.NewEncoder(out)
	for letter, err := range c.DeadLetters(ctx) {
		if err != nil {
			return err
		}
		if err := lines.Encode(letter); err != nil {
			return err
		}
	}
	return nil
}

// Passport returns the passport of a handoff, with its exact bytes.
func (c *Client) Passport(ctx context.Context, id string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	response, err := open(ctx, c, admin.GetPassport, admin.ByID{ID: id})
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if mediaType := response.Header.Get("Content-Type"); mediaType != passport.MediaType {
		return nil, fmt.Errorf("the gateway answers with %q, want a passport", mediaType)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, passport.MaxBytes+1))
	if err != nil {
		return nil, &federation.UnavailableError{What: "gateway", Err: err}
	}
	return text, nil
}

// Backup returns a backup of the gateway. It has no timeout. The caller closes it, and can detect a
// truncated archive by its content.
func (c *Client) Backup(ctx context.Context) (io.ReadCloser, error) {
	response, err := open(ctx, c, admin.Backup, struct{}{})
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// Readiness returns the answer of /readyz, even if the gateway is not ready. With peers it includes
// the links to other homes.
func (c *Client) Readiness(ctx context.Context, peers bool) (admin.Readiness, error) {
	var ready admin.Readiness
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	query := url.Values{}
	if peers {
		query.Set(admin.PeersParameter, "true")
	}
	address, err := federation.JoinURL(c.base, "/readyz", query)
	if err != nil {
		return ready, fmt.Errorf("ask gateway: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return ready, fmt.Errorf("ask gateway: %w", err)
	}
	response, err := (&http.Client{Transport: c.transport}).Do(request)
	if err != nil {
		return ready, unreachable(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err == nil {
		err = federation.DecodeJSON(text, &ready)
	}
	if err != nil {
		return ready, &federation.UnavailableError{What: "gateway", Err: fmt.Errorf("it answers %s", response.Status)}
	}
	return ready, nil
}

package freeq

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"

	"baton/federation"
)

// taskList is what a server tells of its handoffs, the newest movement first.
//
// spec: freeq-rest "Actions"
type taskList struct {
	Tasks []struct {
		ID      string `json:"act_id"`
		Origin  string `json:"origin"`  // endpoint id of its home; "" for the server itself
		Updated int64  `json:"updated"` // unix seconds
	} `json:"tasks"`
}

// maxTasks is how many handoffs a server lists at most.
const maxTasks = 500

// recollect reads the rows of one second of which a page did not show all: a question
// names seconds, so that no other can be asked for. The web API shows them where they
// are of handoffs in channels that are not over yet.
func (s *session) recollect(ctx context.Context, second int64) {
	s.log.LogAttrs(ctx, slog.LevelWarn, "more steps in one second than a page holds: the rest is read from the web API", slog.Int64("second", second))
	s.catchup.recollecting = true
	s.Running.Go(func() { s.readSecond(second) }) //nolint:contextcheck // it ends with the connection
}

// readSecond reads the rows of one second, and has the owner go on with them.
func (s *session) readSecond(second int64) {
	ctx := s.Asking
	rows, err := s.link.rowsOf(ctx, second)
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "second not read whole", slog.Int64("second", second), slog.Any("err", err))
	}
	s.Post(ctx, func() { s.onRecollected(ctx, rows) })
}

// onRecollected goes on with a replay when the rest of a second is there.
func (s *session) onRecollected(ctx context.Context, rows []replayed) {
	if s.catchup == nil {
		return
	}
	s.catchup.recollecting = false
	s.catchup.rows = append(s.catchup.rows, rows...)
	s.turn(ctx)
}

// rowsOf returns the rows of one second that the web API shows, the rows of each handoff in
// order. With an error it returns the rows that were read before.
func (l *Link) rowsOf(ctx context.Context, second int64) (rows []replayed, err error) {
	var list taskList
	if err := l.ask(ctx, actionsPath, url.Values{"limit": {strconv.Itoa(maxTasks)}}, &list); err != nil {
		return nil, err
	}
	for _, task := range list.Tasks {
		if task.Updated < second {
			break // what moved last before has nothing in it
		}
		id, err := federation.ParseEventID(task.ID)
		if err != nil {
			return rows, fmt.Errorf("actions of %s: %w", l.cfg.ServerName, err)
		}
		var told action
		if err := l.ask(ctx, actionsPath.Join(id.String()), nil, &told); err != nil {
			return rows, err
		}
		for _, e := range told.Events {
			if e.Timestamp == second {
				rows = append(rows, replayed{
					EventID: e.EventID, Kind: "act", Venue: e.Venue, Timestamp: second, Canonical: e.Canonical,
					Signature: e.Signature, Actor: e.Actor, Origin: task.Origin,
				})
			}
		}
	}
	return rows, nil
}

// actionsPath is where the server's web API tells of handoffs, each below its id.
//
// spec: freeq-rest "Actions"
const actionsPath federation.URLPath = "/api/v1/actions"

// ask reads something of the server's web API about handoffs.
func (l *Link) ask(ctx context.Context, path federation.URLPath, query url.Values, into any) error {
	address, err := federation.JoinURL(l.cfg.PeerAPI, path, query)
	if err != nil {
		return err
	}
	body, err := l.deps.Fetch(ctx, address)
	if err != nil {
		return err
	}
	if err := federation.DecodeJSON(body, into); err != nil {
		return fmt.Errorf("actions of %s: %w", l.cfg.ServerName, err)
	}
	return nil
}

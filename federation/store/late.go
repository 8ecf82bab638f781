package store

import (
	"context"
	"time"
)

// Delay files a [federation.NoticeDelayed] for up to limit rows that were filed at or before a
// time and have none, and returns how many. A step that an agent was told then, and has not
// fetched, is one; so is one that waits in an inbox which is its only way to its reader (see
// [federation.InboxLink]).
func (s *Record) Delay(ctx context.Context, before, now time.Time, limit int) (delayed int, err error) {
	delayed, err = s.Outboxes.Delay(ctx, before, now, limit)
	if err != nil || delayed == limit {
		return delayed, err
	}
	if s.db.Tables != nil {
		unfetched, err := s.db.Tables.Delay(ctx, before, now, limit-delayed)
		if delayed += unfetched; err != nil || delayed == limit {
			return delayed, err
		}
	}
	entries, err := s.Inboxes.Delay(ctx, before, now, limit-delayed)
	return delayed + entries, err
}

// Expire gives up to limit rows up that were filed at or before a time, of whatever link, and
// returns how many. Of what an agent was told then, and has not fetched, the delivery is
// [federation.DeliveryExpired].
func (s *Record) Expire(ctx context.Context, before, now time.Time, limit int) (expired int, err error) {
	expired, err = s.Outboxes.Expire(ctx, before, now, limit)
	if err != nil || expired == limit || s.db.Tables == nil {
		return expired, err
	}
	unfetched, err := s.db.Tables.Expire(ctx, before, now, limit-expired)
	return expired + unfetched, err
}

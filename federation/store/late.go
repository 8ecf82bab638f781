package store

import (
	"context"
	"time"
)

// Delay files a [federation.NoticeDelayed] for up to limit rows that were filed at or before a
// time and have none, and returns how many. Rows are also steps that an agent has not
// fetched, and steps in an inbox without another way to its reader (see [federation.InboxLink]).
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
// returns how many. The delivery of a step that an agent has not fetched becomes
// [federation.DeliveryExpired].
func (s *Record) Expire(ctx context.Context, before, now time.Time, limit int) (expired int, err error) {
	expired, err = s.Outboxes.Expire(ctx, before, now, limit)
	if err != nil || expired == limit || s.db.Tables == nil {
		return expired, err
	}
	unfetched, err := s.db.Tables.Expire(ctx, before, now, limit-expired)
	return expired + unfetched, err
}

package store

import (
	"context"
	"time"
)

// Delay implements [federationtest.Outbox].
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

// Expire implements [federationtest.Outbox].
func (s *Record) Expire(ctx context.Context, before, now time.Time, limit int) (expired int, err error) {
	expired, err = s.Outboxes.Expire(ctx, before, now, limit)
	if err != nil || expired == limit || s.db.Tables == nil {
		return expired, err
	}
	unfetched, err := s.db.Tables.Expire(ctx, before, now, limit-expired)
	return expired + unfetched, err
}

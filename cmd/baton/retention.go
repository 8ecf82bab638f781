package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"baton/configs"
	"baton/federation"
)

// pruneEvery is how often the record is looked through for what nobody needs any
// more: nothing of that is due to the minute.
const pruneEvery = time.Minute

// pruneBatch bounds what one write takes away, so that those who file a step at
// that moment wait some milliseconds for it.
const pruneBatch = 32

// answersKept is how long a request with a key of its own is answered as the first
// time: longer than anybody goes on trying.
const answersKept = 24 * time.Hour

// retain ends what waits too long and prunes the record: at once after the start,
// and then every minute.
func (p *program) retain(ctx context.Context) {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		p.retainOnce(ctx, *p.retention.Load(), time.Now())
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (p *program) retainOnce(ctx context.Context, keep configs.Retention, now time.Time) {
	if keep.Undelivered > 0 {
		if err := p.gateway.GiveUp(ctx, now.Add(-keep.Undelivered), now); err != nil && ctx.Err() == nil {
			p.log.LogAttrs(ctx, slog.LevelError, "undelivered steps not ended", slog.Any("err", err))
		}
	}
	gone, err := prune(ctx, p.record, keep, now)
	if gone != (pruned{}) {
		p.log.LogAttrs(ctx, slog.LevelInfo, "record pruned",
			slog.Int("handoffs", gone.handoffs), slog.Int("messages", gone.messages), slog.Int("ids", gone.ids), slog.Int("letters", gone.letters))
	}
	if err != nil && ctx.Err() == nil {
		p.log.LogAttrs(ctx, slog.LevelError, "record not pruned", slog.Any("err", err))
	}
}

// pruned counts what is gone.
type pruned struct{ handoffs, messages, ids, letters int }

// pruner is what is pruned of a record.
type pruner interface {
	federation.Retention
	federation.Notices
	federation.Blobs
	federation.DeadLetters
	federation.Answers
	messagePruner
}

// messagePruner forgets messages of the registry.
type messagePruner interface {
	// PruneMessages looks at up to limit messages that came at or before a time, and
	// deletes those that no agent needs any more. It blocks on the disk.
	PruneMessages(ctx context.Context, before time.Time, after federation.Cursor, limit int) (pruned int, next federation.Cursor, err error)
}

// prune takes from a record what is older than a configuration keeps it, batch by
// batch. What was gone before an error is gone.
func prune(ctx context.Context, record pruner, keep configs.Retention, now time.Time) (gone pruned, err error) {
	if keep.Finished > 0 {
		gone.handoffs, err = inBatches(func(after federation.Cursor) (int, federation.Cursor, error) {
			return record.Prune(ctx, now.Add(-keep.Finished), now, after, pruneBatch)
		})
		if err != nil {
			return gone, fmt.Errorf("finished handoffs: %w", err)
		}
	}
	if keep.AIRCMessages > 0 {
		gone.messages, err = inBatches(func(after federation.Cursor) (int, federation.Cursor, error) {
			return record.PruneMessages(ctx, now.Add(-keep.AIRCMessages), after, pruneBatch)
		})
		if err != nil {
			return gone, fmt.Errorf("AIRC messages: %w", err)
		}
	}
	for keep.IDs > 0 {
		n, err := record.PruneIDs(ctx, now.Add(-keep.IDs), pruneBatch)
		if gone.ids += n; err != nil {
			return gone, fmt.Errorf("spent ids: %w", err)
		}
		if n < pruneBatch {
			break
		}
	}
	if _, err := all(pruneBatch, func(limit int) (int, error) { return record.PruneAnswers(ctx, now.Add(-answersKept), limit) }); err != nil {
		return gone, fmt.Errorf("answers: %w", err)
	}
	if keep.Dead > 0 {
		if gone.letters, err = pruneLetters(ctx, record, now.Add(-keep.Dead)); err != nil {
			return gone, err
		}
	}
	if _, err := all(pruneBatch, func(limit int) (int, error) { return record.PruneBlobs(ctx, now, limit) }); err != nil {
		return gone, fmt.Errorf("blobs: %w", err)
	}
	return gone, err
}

// pruneLetters forgets what was given up, and what signers were told.
func pruneLetters(ctx context.Context, record pruner, before time.Time) (letters int, err error) {
	letters, err = all(pruneBatch, func(limit int) (int, error) { return record.PruneDead(ctx, before, limit) })
	if err != nil {
		return letters, fmt.Errorf("dead letters: %w", err)
	}
	if _, err = all(pruneBatch, func(limit int) (int, error) { return record.PruneNotices(ctx, before, limit) }); err != nil {
		return letters, fmt.Errorf("notices: %w", err)
	}
	return letters, nil
}

// inBatches prunes from one cursor to the next until the end.
func inBatches(batch func(after federation.Cursor) (int, federation.Cursor, error)) (gone int, err error) {
	var after federation.Cursor
	for {
		n, next, err := batch(after)
		gone += n
		if err != nil || next == "" {
			return gone, err
		}
		after = next
	}
}

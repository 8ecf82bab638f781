package storetest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// DueNotices returns up to limit deliveries of notices of a link (see [federation.Notice.Link]) that are
// due, oldest first.
func DueNotices(ctx context.Context, record *registry.Record, link string, now time.Time, limit int) ([]federation.Delivery, error) {
	rows, to := record.Rows(), federation.NoticesOf(link)
	lanes, err := rows.Heads(ctx, to, now, limit)
	var due []federation.Delivery
	for _, lane := range lanes {
		waiting, err := rows.PendingOf(ctx, to, lane, limit)
		if err != nil {
			return nil, err
		}
		due = append(due, waiting...)
	}
	slices.SortFunc(due, func(a, b federation.Delivery) int { return cmp.Compare(a.Row, b.Row) })
	return due[:min(limit, len(due))], err
}

// EndNotices marks notices of a link as delivered.
func EndNotices(ctx context.Context, record *registry.Record, link string, now time.Time, notices ...federation.Delivery) error {
	var rows []int64
	for _, d := range notices {
		rows = append(rows, d.Row)
	}
	return record.Rows().Settle(ctx, federation.NoticesOf(link), rows, federation.Settlement{At: now})
}

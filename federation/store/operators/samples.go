package operators

import (
	"context"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
)

// KeepSample stores a sample with the number of the newest step, at most one per
// [federation.ChartEvery]. It deletes samples older than [federation.ChartAge], and future ones,
// which come from a wrong clock.
func (s *Operators) KeepSample(ctx context.Context, sample federation.Sample) error {
	sample.At = sample.At.Truncate(federation.ChartEvery) // restarts store no additional samples
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		oldest := engine.Stamp(sample.At.Add(-federation.ChartAge))
		if err := q.Put(ctx, `DELETE FROM sample WHERE at < ? OR at > ?`, oldest, engine.Stamp(sample.At)); err != nil {
			return err
		}
		return q.Put(ctx, `INSERT INTO sample (at, step, waiting, dead, down, disk)
			VALUES (?, (SELECT coalesce(max(seq), 0) FROM event), ?, ?, ?, ?) ON CONFLICT (at) DO NOTHING`,
			engine.Stamp(sample.At), sample.Waiting, sample.Dead, sample.Down, sample.Disk)
	})
	if err != nil {
		return fmt.Errorf("keep sample: %w", err)
	}
	return nil
}

// Samples returns the samples since a given time, oldest first.
func (s *Operators) Samples(ctx context.Context, since time.Time) ([]federation.Sample, error) {
	scan := func(row engine.Scanner) (sample federation.Sample, err error) {
		var at int64
		err = row.Scan(&at, &sample.Step, &sample.Waiting, &sample.Dead, &sample.Down, &sample.Disk)
		sample.At = engine.Moment(at)
		return sample, err
	}
	found, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT at, step, waiting, dead, down, disk FROM sample WHERE at >= ? ORDER BY at`, engine.Stamp(since))
	if err != nil {
		return nil, fmt.Errorf("read samples: %w", err)
	}
	return found, nil
}

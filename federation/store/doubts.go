package store

import (
	"context"
	"fmt"

	"baton/federation"
)

// KeepDoubt implements [federation.Homes].
func (s *Record) KeepDoubt(ctx context.Context, d federation.Doubt) error {
	err := s.write(ctx, func(ctx context.Context, q *statements) error {
		_, err := q.exec(ctx, `INSERT INTO doubt (home, kind, times, first, last, why) VALUES (?1, ?2, 1, ?3, ?3, ?4)
			ON CONFLICT (home, kind) DO UPDATE SET times = doubt.times + 1, last = excluded.last, why = excluded.why`,
			string(d.Home), string(d.Kind), stamp(d.Last), d.Why)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep doubt about %s: %w", d.Home, err)
	}
	return nil
}

// Doubts implements [federation.Homes].
func (s *Record) Doubts(ctx context.Context, home federation.HomeID) ([]federation.Doubt, error) {
	scan := func(row scanner) (federation.Doubt, error) {
		d := federation.Doubt{Home: home}
		var first, last int64
		err := row.Scan(&d.Kind, &d.Times, &first, &last, &d.Why)
		d.First, d.Last = moment(first), moment(last)
		return d, err
	}
	doubts, err := rows(ctx, s.reads, scan, `SELECT kind, times, first, last, why FROM doubt WHERE home = ? ORDER BY kind`, string(home))
	if err != nil {
		return nil, fmt.Errorf("read doubts about %s: %w", home, err)
	}
	return doubts, nil
}

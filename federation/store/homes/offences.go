package homes

import (
	"context"
	"fmt"

	"baton/federation"
	"baton/federation/store/engine"
)

// KeepOffence counts an offence of a home, at o.Last. Of a home there is one offence of each
// kind, which counts the times, and has the last reason.
func (s *Homes) KeepOffence(ctx context.Context, d federation.Offence) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		return q.Put(ctx, `INSERT INTO offence (home, kind, times, first, last, why) VALUES (?1, ?2, 1, ?3, ?3, ?4)
			ON CONFLICT (home, kind) DO UPDATE SET times = offence.times + 1, last = excluded.last, why = excluded.why`,
			string(d.Home), string(d.Kind), engine.Stamp(d.Last), d.Why)
	})
	if err != nil {
		return fmt.Errorf("keep offence about %s: %w", d.Home, err)
	}
	return nil
}

// Offences returns the offences of a home, in the order of their kinds.
func (s *Homes) Offences(ctx context.Context, home federation.HomeID) ([]federation.Offence, error) {
	scan := func(row engine.Scanner) (federation.Offence, error) {
		d := federation.Offence{Home: home}
		var first, last int64
		err := row.Scan(&d.Kind, &d.Times, &first, &last, &d.Why)
		d.First, d.Last = engine.Moment(first), engine.Moment(last)
		return d, err
	}
	offences, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT kind, times, first, last, why FROM offence WHERE home = ? ORDER BY kind`, string(home))
	if err != nil {
		return nil, fmt.Errorf("read offences about %s: %w", home, err)
	}
	return offences, nil
}

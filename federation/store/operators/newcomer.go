package operators

import (
	"context"
	"fmt"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
)

// Meet notes that the record knows a DID from now on; "" is none.
func Meet(ctx context.Context, q engine.Tx, did federation.DID, now time.Time) error {
	if did == "" {
		return nil
	}
	if err := q.Put(ctx, `INSERT INTO newcomer (did, met) VALUES (?, ?) ON CONFLICT (did) DO NOTHING`, did, engine.Stamp(now)); err != nil {
		return fmt.Errorf("note newcomer: %w", err)
	}
	return nil
}

// Meet notes that the record knows a DID from now on. Meeting again changes nothing.
func (s *Operators) Meet(ctx context.Context, did federation.DID, now time.Time) error {
	return s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error { return Meet(ctx, q, did, now) })
}

// Acquainted reports whether the record knows a DID: as the signer of a filed step, as an agent,
// or by a name bound to it. An inbox is no acquaintance, because any sender can open one
// for any DID. The time is when the record met the DID, or zero if it is older than
// [federation.AcquaintanceAge].
func (s *Operators) Acquainted(ctx context.Context, did federation.DID) (met time.Time, known bool, err error) {
	var at int64
	err = s.db.Reads().Row(ctx, `SELECT coalesce((SELECT met FROM newcomer WHERE did = ?1), 0),
		EXISTS (SELECT 1 FROM newcomer WHERE did = ?1)
			OR EXISTS (SELECT 1 FROM binding WHERE did = ?1)
			OR EXISTS (SELECT 1 FROM event WHERE signer = ?1)
			OR EXISTS (SELECT 1 FROM bound_name WHERE did = ?1)
			OR `+s.db.Parts.Known, []any{did}, &at, &known)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("look up newcomer %s: %w", did, err)
	}
	return engine.Moment(at), known, nil
}

// MetSince returns up to limit newcomers that the record met after a time, oldest first.
func (s *Operators) MetSince(ctx context.Context, since time.Time, limit int) ([]federation.Newcomer, error) {
	scan := func(row engine.Scanner) (n federation.Newcomer, err error) {
		var at int64
		err = row.Scan(&n.DID, &at)
		n.Met = engine.Moment(at)
		return n, err
	}
	met, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT did, met FROM newcomer WHERE met > ? ORDER BY met, did`+engine.AtMost, engine.Stamp(since), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read newcomers: %w", err)
	}
	return met, nil
}

// Growth measures the record and returns by how many bytes it grew within the last
// [federation.AcquaintanceAge]. It keeps a sample of the size each minute in which that changed,
// and forgets the newcomers and the samples that are too old to matter.
func (s *Operators) Growth(ctx context.Context, now time.Time) (int64, error) {
	since := now.Add(-federation.AcquaintanceAge)
	samples, err := s.samples(ctx, since, now)
	if err != nil {
		return 0, fmt.Errorf("read sizes of the record: %w", err)
	}
	size, err := s.size(ctx)
	if err != nil {
		return 0, fmt.Errorf("measure the record: %w", err)
	}
	measured := federation.SizeSample{At: now, Bytes: size}
	if n := len(samples); n == 0 || samples[n-1].Bytes != size && now.Sub(samples[n-1].At) >= federation.SampleEvery {
		if err := s.keepSample(ctx, measured, since); err != nil {
			return 0, fmt.Errorf("keep size of the record: %w", err)
		}
	}
	return federation.GrowthSince(append(samples, measured), since), nil
}

// samples returns the sizes of the record since a time, and the last one before it.
func (s *Operators) samples(ctx context.Context, since, now time.Time) ([]federation.SizeSample, error) {
	scan := func(row engine.Scanner) (sample federation.SizeSample, err error) {
		var at int64
		err = row.Scan(&at, &sample.Bytes)
		sample.At = engine.Moment(at)
		return sample, err
	}
	return engine.Rows(ctx, s.db.Reads(), scan, `SELECT at, bytes FROM size
		WHERE at >= coalesce((SELECT max(at) FROM size WHERE at <= ?), 0) AND at <= ? ORDER BY at`, engine.Stamp(since), engine.Stamp(now))
}

// keepSample keeps a size of the record, and forgets what is too old to matter.
func (s *Operators) keepSample(ctx context.Context, sample federation.SizeSample, since time.Time) error {
	return s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		err := q.Put(ctx, `DELETE FROM size WHERE at < (SELECT max(at) FROM size WHERE at <= ?) OR at > ?`, engine.Stamp(since), engine.Stamp(sample.At))
		if err == nil {
			err = q.Put(ctx, `DELETE FROM newcomer WHERE met <= ?`, engine.Stamp(since))
		}
		if err == nil {
			err = q.Put(ctx, `INSERT INTO size (at, bytes) VALUES (?, ?) ON CONFLICT (at) DO NOTHING`, engine.Stamp(sample.At), sample.Bytes)
		}
		return err
	})
}

// size returns how many bytes the record takes: in a file, its used pages.
func (s *Operators) size(ctx context.Context) (bytes int64, err error) {
	query := `SELECT (c.page_count - f.freelist_count) * p.page_size FROM pragma_page_count c, pragma_freelist_count f, pragma_page_size p`
	if s.db.Reads().Dialect() == engine.InPostgres {
		query = `SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
			WHERE relkind = 'r' AND relnamespace = to_regnamespace(quote_ident(current_schema()))`
	}
	err = s.db.Reads().Row(ctx, query, nil, &bytes)
	return bytes, err
}

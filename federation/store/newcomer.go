package store

import (
	"context"
	"fmt"
	"time"

	"baton/federation"
)

// meet notes that the record knows a DID from now on; "" is none.
func meet(ctx context.Context, q *statements, did federation.DID, now time.Time) error {
	if did == "" {
		return nil
	}
	if err := q.put(ctx, `INSERT INTO newcomer (did, met) VALUES (?, ?) ON CONFLICT (did) DO NOTHING`, did, stamp(now)); err != nil {
		return fmt.Errorf("note newcomer: %w", err)
	}
	return nil
}

// Meet implements [federationtest.Newcomers].
func (s *Record) Meet(ctx context.Context, did federation.DID, now time.Time) error {
	return s.write(ctx, func(ctx context.Context, q *statements) error { return meet(ctx, q, did, now) })
}

// Acquainted implements [federationtest.Newcomers].
func (s *Record) Acquainted(ctx context.Context, did federation.DID) (met time.Time, known bool, err error) {
	var at int64
	err = s.reads.row(ctx, `SELECT coalesce((SELECT met FROM newcomer WHERE did = ?1), 0),
		EXISTS (SELECT 1 FROM newcomer WHERE did = ?1)
			OR EXISTS (SELECT 1 FROM binding WHERE did = ?1)
			OR EXISTS (SELECT 1 FROM event WHERE signer = ?1)
			OR EXISTS (SELECT 1 FROM bound_name WHERE did = ?1)
			OR `+s.parts.Known, []any{did}, &at, &known)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("look up newcomer %s: %w", did, err)
	}
	return moment(at), known, nil
}

// MetSince implements [federationtest.Newcomers].
func (s *Record) MetSince(ctx context.Context, since time.Time, limit int) ([]federation.Newcomer, error) {
	scan := func(row scanner) (n federation.Newcomer, err error) {
		var at int64
		err = row.Scan(&n.DID, &at)
		n.Met = moment(at)
		return n, err
	}
	met, err := rows(ctx, s.reads, scan, `SELECT did, met FROM newcomer WHERE met > ? ORDER BY met, did`+atMost, stamp(since), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("read newcomers: %w", err)
	}
	return met, nil
}

// Growth implements [federationtest.Newcomers].
func (s *Record) Growth(ctx context.Context, now time.Time) (int64, error) {
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
func (s *Record) samples(ctx context.Context, since, now time.Time) ([]federation.SizeSample, error) {
	scan := func(row scanner) (sample federation.SizeSample, err error) {
		var at int64
		err = row.Scan(&at, &sample.Bytes)
		sample.At = moment(at)
		return sample, err
	}
	return rows(ctx, s.reads, scan, `SELECT at, bytes FROM size
		WHERE at >= coalesce((SELECT max(at) FROM size WHERE at <= ?), 0) AND at <= ? ORDER BY at`, stamp(since), stamp(now))
}

// keepSample keeps a size of the record, and forgets what is too old to matter.
func (s *Record) keepSample(ctx context.Context, sample federation.SizeSample, since time.Time) error {
	return s.write(ctx, func(ctx context.Context, q *statements) error {
		_, err := q.exec(ctx, `DELETE FROM size WHERE at < (SELECT max(at) FROM size WHERE at <= ?) OR at > ?`, stamp(since), stamp(sample.At))
		if err == nil {
			_, err = q.exec(ctx, `DELETE FROM newcomer WHERE met <= ?`, stamp(since))
		}
		if err == nil {
			_, err = q.exec(ctx, `INSERT INTO size (at, bytes) VALUES (?, ?) ON CONFLICT (at) DO NOTHING`, stamp(sample.At), sample.Bytes)
		}
		return err
	})
}

// size returns how many bytes the record takes: in a file, its used pages.
func (s *Record) size(ctx context.Context) (bytes int64, err error) {
	query := `SELECT (c.page_count - f.freelist_count) * p.page_size FROM pragma_page_count c, pragma_freelist_count f, pragma_page_size p`
	if s.reads.dialect == inPostgres {
		query = `SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
			WHERE relkind = 'r' AND relnamespace = to_regnamespace(quote_ident(current_schema()))`
	}
	err = s.reads.row(ctx, query, nil, &bytes)
	return bytes, err
}

// Package journals stores journals in the record: named lists of entries appended by links, such as
// session histories.
package journals

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
)

// Journals are the journals of one record, safe for concurrent use.
type Journals struct{ db *engine.DB }

// New returns the journals in a database.
func New(db *engine.DB) *Journals { return &Journals{db} }

// WriteJournals appends to journals in one transaction: all writes are on disk after a nil
// error, and none after any other. A write without entries creates the journal, or sets its due
// time. It returns [federation.ErrStale] if a journal does not have the expected length.
func (s *Journals) WriteJournals(ctx context.Context, writes []federation.JournalWrite) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		for _, w := range writes {
			if err := writeJournal(ctx, q, w); err != nil {
				return fmt.Errorf("journal %s: %w", w.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write journals: %w", err)
	}
	return nil
}

func writeJournal(ctx context.Context, q engine.Tx, w federation.JournalWrite) error {
	length := w.Length + uint64(len(w.Entries))
	query, args := `UPDATE journal SET length = ?, due = ? WHERE name = ? AND length = ?`, []any{length, engine.Stamp(w.Due), w.Name, w.Length}
	if w.Length == 0 {
		query, args = `INSERT INTO journal (name, length, due) VALUES (?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET length = excluded.length, due = excluded.due WHERE journal.length = 0`, []any{w.Name, length, engine.Stamp(w.Due)}
	}
	changed, err := q.Exec(ctx, query, args...)
	if err == nil && changed == 0 {
		err = federation.ErrStale
	}
	for i, entry := range w.Entries {
		if err != nil {
			return err
		}
		err = q.Put(ctx, `INSERT INTO journal_entry (journal, n, entry) VALUES (?, ?, ?)`, w.Name, w.Length+uint64(i)+1, entry)
	}
	return err
}

// Journal returns up to limit entries of a journal after the first ones; none for an unknown
// journal.
func (s *Journals) Journal(ctx context.Context, name string, after uint64, limit int) ([][]byte, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), func(row engine.Scanner) (entry []byte, err error) {
		err = row.Scan(&entry)
		return entry, err
	}, `SELECT entry FROM journal_entry WHERE journal = ? AND n > ? ORDER BY n`+engine.AtMost, name, after, min(max(limit, 0), federation.MaxJournalPage))
	if err != nil {
		return nil, fmt.Errorf("read journal %s: %w", name, err)
	}
	return found, nil
}

// JournalLength returns the number of entries of a journal, or [federation.ErrNotFound].
func (s *Journals) JournalLength(ctx context.Context, name string) (uint64, error) {
	var length uint64
	err := s.db.Reads().Row(ctx, `SELECT length FROM journal WHERE name = ?`, []any{name}, &length)
	if err != nil && !errors.Is(err, federation.ErrNotFound) {
		err = fmt.Errorf("read journal %s: %w", name, err)
	}
	return length, err
}

// JournalNames returns up to limit names of journals with a prefix, in order, after one.
func (s *Journals) JournalNames(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanName, `SELECT name FROM journal WHERE name > ? AND name >= ? AND name < ? ORDER BY name`+engine.AtMost,
		after, prefix, afterPrefix(prefix), min(max(limit, 0), federation.MaxJournalPage))
	if err != nil {
		return nil, fmt.Errorf("list journals: %w", err)
	}
	return found, nil
}

// DueJournals returns up to limit names of journals with a prefix due by a given time, the longest
// due first.
func (s *Journals) DueJournals(ctx context.Context, prefix string, by time.Time, limit int) ([]string, error) {
	found, err := engine.Rows(ctx, s.db.Reads(), scanName, `SELECT name FROM journal WHERE due > 0 AND due <= ? AND name >= ? AND name < ? ORDER BY due`+engine.AtMost,
		engine.Stamp(by), prefix, afterPrefix(prefix), min(max(limit, 0), federation.MaxJournalPage))
	if err != nil {
		return nil, fmt.Errorf("list due journals: %w", err)
	}
	return found, nil
}

// RemoveJournals deletes journals with their entries. An unknown name is not an error.
func (s *Journals) RemoveJournals(ctx context.Context, names []string) error {
	err := s.db.Write(ctx, func(ctx context.Context, q engine.Tx) error {
		for _, name := range names {
			if err := q.Put(ctx, `DELETE FROM journal_entry WHERE journal = ?`, name); err != nil {
				return err
			}
			if err := q.Put(ctx, `DELETE FROM journal WHERE name = ?`, name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("remove journals: %w", err)
	}
	return nil
}

func scanName(row engine.Scanner) (name string, err error) {
	err = row.Scan(&name)
	return name, err
}

// The result is the first text after all texts with the prefix. Names of journals are ASCII.
func afterPrefix(prefix string) string { return prefix + "\x7f" }

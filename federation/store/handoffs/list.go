package handoffs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"baton/federation"
	"baton/federation/store/engine"
)

// maxExamined bounds how many handoffs one call of [Logs.Handoffs] looks at,
// for a filter that admits few: some tens of milliseconds.
const maxExamined = 8192

// examinePage is how many of them are in memory at a time.
const examinePage = 256

// movement is a place in the order of the newest movement: before it are the
// handoffs that moved later.
type movement struct {
	moved int64 // as by stamp
	id    federation.HandoffID
}

// newest is the place before all.
func newest() movement { return movement{moved: 1<<63 - 1} }

func (m movement) cursor() federation.Cursor {
	raw := binary.BigEndian.AppendUint64(nil, uint64(m.moved)) //nolint:gosec // the bits are kept
	return federation.Cursor(base64.RawURLEncoding.EncodeToString(append(raw, m.id[:]...)))
}

func parseMovement(c federation.Cursor) (movement, error) {
	if c == "" {
		return newest(), nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(string(c))
	if err != nil || len(raw) != 8+len(federation.HandoffID{}) {
		return movement{}, federation.ErrUnknownCursor
	}
	m := movement{moved: int64(binary.BigEndian.Uint64(raw)), id: federation.HandoffID(raw[8:])} //nolint:gosec // the bits are kept
	if m.moved < 0 || m.cursor() != c {
		return movement{}, federation.ErrUnknownCursor
	}
	return m, nil
}

// Handoffs returns up to limit handoffs that a filter admits, the newest movement first, from
// after a cursor on, and the cursor to go on from: "" once all were looked at. A page may be
// shorter than asked for and even empty before that, since one call looks at a bounded number of
// handoffs. A handoff that moves meanwhile is at the front again, and may so be missing from
// later pages. The error is [federation.ErrUnknownCursor] for an unknown cursor.
// Without an index for the filter, it filters by the views.
func (s *Logs) Handoffs(ctx context.Context, f federation.Filter, after federation.Cursor, limit int) (views []federation.View, next federation.Cursor, err error) {
	at, err := parseMovement(after)
	if err != nil {
		return nil, "", fmt.Errorf("list handoffs: %w", err)
	}
	limit = max(limit, 0)
	states, err := s.states(ctx, f)
	if err != nil {
		return nil, "", fmt.Errorf("list handoffs: %w", err)
	}
	for examined := 0; examined < maxExamined && len(views) < limit; {
		want := min(examinePage, limit-len(views))
		if f.Kind != "" || f.Venue != "" || f.Capability != "" || f.Title != "" {
			want = examinePage
		}
		page, err := s.moved(ctx, f, states, at, want)
		if err != nil {
			return nil, "", fmt.Errorf("list handoffs: %w", err)
		}
		for _, m := range page {
			if len(views) == limit {
				return views, at.cursor(), nil
			}
			if at = m.movement; m.view.Exists() && f.Admits(m.view) {
				views = append(views, m.view)
			}
		}
		if len(page) < want {
			return views, "", nil
		}
		examined += len(page)
	}
	return views, at.cursor(), nil
}

// states returns the states in which a DID has any handoff, or the one that is
// asked for.
func (s *Logs) states(ctx context.Context, f federation.Filter) ([]federation.State, error) {
	if f.State != "" {
		return []federation.State{f.State}, nil
	}
	var states []federation.State
	var last federation.State
	for {
		found, err := engine.Rows(ctx, s.db.Reads(), engine.ScanOne[federation.State],
			`SELECT state FROM party WHERE did = ? AND state > ? ORDER BY state LIMIT 1`, f.DID, last)
		if err != nil || len(found) == 0 {
			return states, err
		}
		last = found[0]
		states = append(states, last)
	}
}

// moved returns the views of the next so many handoffs of a DID after a place,
// whichever of the states they are in. Each state is in order by itself.
func (s *Logs) moved(ctx context.Context, f federation.Filter, states []federation.State, at movement, want int) ([]movedView, error) {
	var next []movement
	for _, state := range states {
		found, err := engine.Rows(ctx, s.db.Reads(), scanMovement, `SELECT moved, handoff FROM party
			WHERE did = ? AND state = ? AND (moved, handoff) < (?, ?) AND moved >= ?
			ORDER BY moved DESC, handoff DESC`+engine.AtMost, f.DID, state, at.moved, at.id.String(), engine.Stamp(f.Since), want)
		if err != nil {
			return nil, err
		}
		next = append(next, found...)
	}
	slices.SortFunc(next, func(a, b movement) int {
		return cmp.Or(cmp.Compare(b.moved, a.moved), bytes.Compare(b.id[:], a.id[:]))
	})
	return s.viewsOf(ctx, next[:min(want, len(next))], titlePart(f.Title))
}

func scanMovement(row engine.Scanner) (m movement, err error) {
	var id []byte
	if err := row.Scan(&m.moved, &id); err != nil {
		return m, err
	}
	return m, m.id.UnmarshalText(id)
}

// titlePart returns the longest part of the words of a title that a database compares as
// [federation.Filter] does, in lower case; "" for none. The letters i and k are also lower-case
// forms of letters that are not ASCII, which a database may leave as they are.
func titlePart(title string) (longest string) {
	other := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') || r == 'i' || r == 'k' }
	for part := range strings.FieldsFuncSeq(strings.ToLower(title), other) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

// movedView is the view of a handoff at its place, the zero View of one that is
// gone since or whose title is another one.
type movedView struct {
	movement
	view federation.View
}

// viewsOf returns the views of handoffs whose titles have a part. The database looks for it:
// reading a view costs several times as much.
func (s *Logs) viewsOf(ctx context.Context, places []movement, part string) ([]movedView, error) {
	views, ids := make([]movedView, len(places)), make([]federation.HandoffID, len(places))
	for i, m := range places {
		views[i].movement, ids[i] = m, m.id
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	read := func(row engine.Scanner) (i int, err error) {
		var text []byte
		if err := row.Scan(&i, &text); err != nil {
			return i, err
		}
		views[i].view, err = DecodeView(text)
		return i, err
	}
	query, args := `SELECT j.key, h.view FROM json_each(?) j JOIN handoff h ON h.id = j.value`, []any{string(list)}
	if part != "" {
		query, args = query+` WHERE lower(h.view ->> 'title') LIKE ?`, append(args, "%"+part+"%")
	}
	_, err = engine.Rows(ctx, s.db.Reads(), read, query, args...)
	return views, err
}

// Find returns up to [federation.MaxFound] handoffs whose canonical id ends in a suffix, in the
// order of their ids; none for a suffix shorter than [federation.MinSuffix].
func (s *Logs) Find(ctx context.Context, suffix string) ([]federation.HandoffID, error) {
	if len(suffix) < federation.MinSuffix {
		return nil, nil
	}
	scan := func(row engine.Scanner) (id federation.HandoffID, err error) {
		var text []byte
		if err := row.Scan(&text); err != nil {
			return id, err
		}
		return id, id.UnmarshalText(text)
	}
	d := s.db.Reads().Dialect()
	found, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT id FROM handoff
		WHERE `+d.Tail("id", "6")+` = `+d.Tail("?1", "6")+` AND `+d.Tail("id", "length(?1)")+` = ?1 ORDER BY id LIMIT ?2`,
		suffix, federation.MaxFound)
	if err != nil {
		return nil, fmt.Errorf("find handoff %q: %w", suffix, err)
	}
	return found, nil
}

// Idle returns the next handoffs that did not move since a time, state by state and
// in each the oldest movement first, and where to go on from.
func (s *Logs) Idle(ctx context.Context, before time.Time, after federation.Cursor, limit int) (ids []federation.HandoffID, next federation.Cursor, err error) {
	from, at, ok := strings.Cut(string(after), " ")
	place := movement{moved: -1}
	if ok {
		place, err = parseMovement(federation.Cursor(at))
	} else if after != "" {
		err = federation.ErrUnknownCursor
	}
	if err != nil {
		return nil, "", err
	}
	states, err := s.states(ctx, federation.Filter{})
	if err != nil {
		return nil, "", err
	}
	for _, state := range states {
		if string(state) < from {
			continue
		}
		if string(state) > from {
			place = movement{moved: -1}
		}
		page, err := engine.Rows(ctx, s.db.Reads(), scanMovement, `SELECT moved, handoff FROM party
			WHERE did = '' AND state = ? AND (moved, handoff) > (?, ?) AND moved <= ?
			ORDER BY moved, handoff`+engine.AtMost, state, place.moved, place.id.String(), engine.Stamp(before), max(limit, 0))
		if err != nil {
			return nil, "", err
		}
		for _, m := range page {
			ids = append(ids, m.id)
		}
		if len(page) > 0 {
			return ids, federation.Cursor(string(state) + " " + string(page[len(page)-1].cursor())), nil
		}
	}
	return nil, "", nil
}

package handoffs

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
)

// This limits one call of [Logs.Handoffs] with few matches to some tens of milliseconds.
const maxExamined = 8192

const examinePage = 256

// A movement is a position in the order of the last change, newest first. At the same time, later
// arrivals come first.
type movement struct {
	moved int64 // encoded by stamp
	n     int64 // handoff.n
}

func (m movement) cursor() federation.Cursor {
	raw := binary.BigEndian.AppendUint64(nil, uint64(m.moved)) //nolint:gosec // the bits are kept
	raw = binary.BigEndian.AppendUint64(raw, uint64(m.n))      //nolint:gosec // the bits are kept
	return federation.Cursor(base64.RawURLEncoding.EncodeToString(raw))
}

func parseMovement(c federation.Cursor) (movement, error) {
	if c == "" {
		return movement{moved: math.MaxInt64}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(string(c))
	if err != nil || len(raw) != 16 {
		return movement{}, federation.ErrUnknownCursor
	}
	m := movement{moved: int64(binary.BigEndian.Uint64(raw)), n: int64(binary.BigEndian.Uint64(raw[8:]))} //nolint:gosec // the bits are kept
	if m.moved < 0 || m.n < 0 || m.cursor() != c {
		return movement{}, federation.ErrUnknownCursor
	}
	return m, nil
}

// Handoffs returns up to limit handoffs that match a filter, most recently changed first, after a
// cursor, and the next cursor, or "" at the end. A call examines a limited number of handoffs, so a
// page before the end may be short or even empty. A handoff that changes meanwhile may be missing
// from later pages. The error is [federation.ErrUnknownCursor] for an unknown cursor.
func (s *Logs) Handoffs(ctx context.Context, f federation.Filter, after federation.Cursor, limit int) (views []federation.View, next federation.Cursor, err error) {
	at, err := parseMovement(after)
	if err != nil {
		return nil, "", fmt.Errorf("list handoffs: %w", err)
	}
	limit = max(limit, 0)
	lists, err := s.listsOf(ctx, f.DIDs)
	if err != nil {
		return nil, "", fmt.Errorf("list handoffs: %w", err)
	}
	states, err := s.states(ctx, lists, f.State)
	if err != nil {
		return nil, "", fmt.Errorf("list handoffs: %w", err)
	}
	for examined := 0; examined < maxExamined && len(views) < limit; {
		want := min(examinePage, limit-len(views))
		if f.Kind != "" || f.Venue != "" || f.Capability != "" || f.Title != "" {
			want = examinePage
		}
		page, err := s.moved(ctx, f, lists, states, at, want)
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

type list struct {
	all bool
	did int64
}

// No DID means all handoffs. A DID without a number has none.
func (s *Logs) listsOf(ctx context.Context, dids []federation.DID) (lists []list, err error) {
	if len(dids) == 0 {
		return []list{{all: true}}, nil
	}
	for _, did := range dids {
		n, err := s.db.Actor(ctx, did)
		if err != nil {
			return nil, err
		}
		if n != 0 {
			lists = append(lists, list{did: n})
		}
	}
	return lists, nil
}

// The caller appends a condition; ?1 is the DID.
func (l list) query(columns, condition string) string {
	if l.all {
		return `SELECT ` + columns + ` FROM handoff WHERE ?1 = 0 AND ` + condition
	}
	return ByParty(`?1`, columns, ` AND `+condition)
}

// ByParty returns a query for the handoffs in which a DID, given by number, has any role. Each role
// has an index, so the rest of the query is applied to each role separately.
func ByParty(did, columns, rest string) string {
	role := func(name string) string {
		return `SELECT * FROM (SELECT ` + columns + ` FROM handoff WHERE ` + name + ` = ` + did + rest + `) ` + name
	}
	return role("offerer") + ` UNION ` + role("offeree") + ` UNION ` + role("assignee")
}

func (s *Logs) states(ctx context.Context, lists []list, asked federation.State) ([]federation.State, error) {
	if asked != "" {
		return []federation.State{asked}, nil
	}
	var states []federation.State
	for _, of := range lists {
		for last := federation.State(""); ; {
			found, err := engine.Rows(ctx, s.db.Reads(), engine.ScanOne[federation.State], of.query(`state`, `state > ?2 ORDER BY state LIMIT 1`), of.did, last)
			if err != nil {
				return nil, err
			}
			if len(found) == 0 {
				break
			}
			last = slices.Min(found)
			states = append(states, last)
		}
	}
	slices.Sort(states)
	return slices.Compact(states), nil
}

// Each state and each role of a DID has its own order.
func (s *Logs) moved(ctx context.Context, f federation.Filter, lists []list, states []federation.State, at movement, want int) ([]movedView, error) {
	scan := func(row engine.Scanner) (m movement, err error) {
		err = row.Scan(&m.moved, &m.n)
		return m, err
	}
	var next []movement
	for _, of := range lists {
		for _, state := range states {
			found, err := engine.Rows(ctx, s.db.Reads(), scan, of.query(`moved, n`, `state = ?2 AND (moved, n) < (?3, ?4) AND moved >= ?5
				ORDER BY moved DESC, n DESC LIMIT 0 + ?6`), of.did, state, at.moved, at.n, engine.Stamp(f.Since), want)
			if err != nil {
				return nil, err
			}
			next = append(next, found...)
		}
	}
	slices.SortFunc(next, func(a, b movement) int {
		return cmp.Or(cmp.Compare(b.moved, a.moved), cmp.Compare(b.n, a.n))
	})
	next = slices.Compact(next) // two DIDs may be parties to one handoff
	return s.viewsOf(ctx, next[:min(want, len(next))], titlePart(f.Title))
}

// The result is the longest part of the words of a title, in lower case, that a database compares
// like [federation.Filter], or "". The letters i and k are also lower-case forms of non-ASCII
// letters, which a database may not convert.
func titlePart(title string) (longest string) {
	other := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') || r == 'i' || r == 'k' }
	for part := range strings.FieldsFuncSeq(strings.ToLower(title), other) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

// The view is zero if the handoff was deleted or has another title.
type movedView struct {
	movement
	view federation.View
}

// The database filters by the part, because reading a view is several times slower.
func (s *Logs) viewsOf(ctx context.Context, places []movement, part string) ([]movedView, error) {
	views, numbers := make([]movedView, len(places)), make([]int64, len(places))
	for i, m := range places {
		views[i].movement, numbers[i] = m, m.n
	}
	list, err := json.Marshal(numbers)
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
	query, args := `SELECT j.key, h.view FROM json_each(?) j JOIN handoff h ON h.n = CAST(j.value AS bigint)`, []any{string(list)}
	if part != "" {
		query, args = query+` WHERE lower(h.view ->> 'title') LIKE ?`, append(args, "%"+part+"%")
	}
	_, err = engine.Rows(ctx, s.db.Reads(), read, query, args...)
	return views, err
}

// Find returns up to [federation.MaxFound] handoffs whose canonical ID ends in a suffix, ordered by
// ID; none for a suffix shorter than [federation.MinSuffix].
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

// Idle returns the next handoffs unchanged since a given time, and the position to continue from.
// They are ordered by state, then least recently changed first.
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
	scan := func(row engine.Scanner) (id federation.HandoffID, err error) {
		var text []byte
		if err := row.Scan(&place.moved, &place.n, &text); err != nil {
			return id, err
		}
		return id, id.UnmarshalText(text)
	}
	states, err := s.states(ctx, []list{{all: true}}, "")
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
		page, err := engine.Rows(ctx, s.db.Reads(), scan, `SELECT moved, n, id FROM handoff
			WHERE state = ? AND (moved, n) > (?, ?) AND moved <= ?
			ORDER BY moved, n`+engine.AtMost, state, place.moved, place.n, engine.Stamp(before), max(limit, 0))
		if err != nil {
			return nil, "", err
		}
		if len(page) > 0 { // position of the last one
			return page, federation.Cursor(string(state) + " " + string(place.cursor())), nil
		}
	}
	return nil, "", nil
}

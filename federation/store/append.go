package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"baton/federation"
)

// filing is a [federation.Filing] made ready by its caller, so that the one
// goroutine that writes does nothing but write.
type filing struct {
	federation.Filing
	digest   [32]byte // of the step
	document [32]byte // SHA-256 of what was signed
	body     []byte   // the event as JSON
	view     []byte   // the view as JSON
}

// Append implements [federation.Store].
func (s *SQLite) Append(ctx context.Context, f federation.Filing) (federation.Entry, error) {
	ready, err := prepareFiling(f)
	if err != nil {
		return federation.Entry{}, fmt.Errorf("append %s: %w", f.Event.ID, err)
	}
	var entry federation.Entry
	err = s.write(ctx, func(ctx context.Context, q *statements) error {
		var err error
		entry, err = ready.file(ctx, q)
		return err
	})
	if err != nil {
		return federation.Entry{}, fmt.Errorf("append %s: %w", f.Event.ID, err)
	}
	return entry, nil
}

func prepareFiling(f federation.Filing) (filing, error) {
	switch ev := f.Event; {
	case ev.ID.IsZero() || ev.Handoff.IsZero():
		return filing{}, errors.New("the step has no id")
	case f.View.ID != ev.Handoff || f.View.Version != f.After+1:
		return filing{}, errors.New("the view is not that after the step")
	case !keepsText(ev):
		return filing{}, errors.New("what was signed is not UTF-8, which JSON cannot keep")
	}
	body, err := json.Marshal(f.Event)
	if err != nil {
		return filing{}, err
	}
	view, err := json.Marshal(f.View)
	if err != nil {
		return filing{}, err
	}
	return filing{
		Filing:   f,
		digest:   f.Event.Digest(),
		document: sha256.Sum256([]byte(f.Event.Signature.Document)),
		body:     body,
		view:     view,
	}, nil
}

// keepsText reports whether JSON keeps what was signed verbatim: other bytes than
// UTF-8 it replaces without a word.
func keepsText(ev federation.Event) bool {
	for name, value := range ev.Fields {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return false
		}
	}
	return utf8.ValidString(ev.Signature.Document) && utf8.ValidString(ev.Signature.Text)
}

// file writes the step and everything that goes with it, unless it is there.
func (f filing) file(ctx context.Context, q *statements) (federation.Entry, error) {
	ev := f.Event
	first, err := known(ctx, q, ev.From, ev.ID, f.digest)
	if !errors.Is(err, federation.ErrNotFound) {
		return first, err
	}
	prev, err := f.advance(ctx, q)
	if err != nil {
		return federation.Entry{}, err
	}
	var seq int64
	err = q.row(ctx, `INSERT INTO event (handoff, version, signer, id, digest, prev, message, state, filed, body)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING seq`,
		[]any{
			ev.Handoff.String(), f.View.Version, ev.From, ev.ID.String(), f.digest[:], prev,
			orNull(ev.Arrival.MessageID), f.View.State, stamp(f.Filed), string(f.body),
		}, &seq)
	if err != nil {
		return federation.Entry{}, fmt.Errorf("insert event: %w", err)
	}
	if err := f.owe(ctx, q, seq); err != nil {
		return federation.Entry{}, err
	}
	if err := f.remember(ctx, q); err != nil {
		return federation.Entry{}, err
	}
	return f.entry(), nil
}

// entry is what a later read of the step returns: without the bytes of the
// evidence, which are kept beside it.
func (f filing) entry() federation.Entry {
	ev := f.Event
	if ev.Evidence != nil {
		bare := *ev.Evidence
		bare.Bytes = nil
		ev.Evidence = &bare
	}
	return federation.Entry{Event: ev, Version: f.View.Version, State: f.View.State, Filed: moment(stamp(f.Filed))}
}

// advance moves the handoff to its next version and returns the link of the step
// before, 32 zero bytes for the first. The chain is over what was signed, and
// written by the home that orders the steps, since no signer knows what precedes
// his own.
func (f filing) advance(ctx context.Context, q *statements) (prev []byte, err error) {
	id := f.Event.Handoff.String()
	var version federation.Version
	err = q.row(ctx, `SELECT version, head FROM handoff WHERE id = ?`, []any{id}, &version, &prev)
	switch {
	case errors.Is(err, federation.ErrNotFound):
		prev = make([]byte, sha256.Size)
	case err != nil:
		return nil, fmt.Errorf("read handoff: %w", err)
	case f.Event.ID == f.Event.Handoff:
		return nil, federation.Refuse(f.Event, federation.EventIDInUse, "")
	}
	if version != f.After {
		return nil, federation.ErrStale
	}
	head := sha256.Sum256(slices.Concat(prev, f.document[:]))
	_, err = q.exec(ctx, `INSERT INTO handoff (id, version, view, head) VALUES (?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET version = excluded.version, view = excluded.view, head = excluded.head`,
		id, f.View.Version, string(f.view), head[:])
	if err != nil {
		return nil, fmt.Errorf("write handoff: %w", err)
	}
	return prev, nil
}

// owe puts the step into the inboxes and feeds.
func (f filing) owe(ctx context.Context, q *statements, seq int64) error {
	for _, did := range f.Inboxes {
		_, err := q.exec(ctx, `INSERT INTO inbox (did, n, event)
			SELECT ?1, coalesce(max(n), 0) + 1, ?2 FROM inbox WHERE did = ?1`, did, seq)
		if err != nil {
			return fmt.Errorf("write inbox: %w", err)
		}
	}
	for _, link := range f.Feeds {
		if _, err := q.exec(ctx, `INSERT INTO feed (link, event) VALUES (?, ?)`, link, seq); err != nil {
			return fmt.Errorf("write feed: %w", err)
		}
	}
	return nil
}

// remember keeps the evidence, and what the step told about its signer.
func (f filing) remember(ctx context.Context, q *statements) error {
	ev := f.Event
	if ev.Evidence != nil && ev.Evidence.Bytes != nil {
		_, err := q.exec(ctx, `INSERT INTO evidence (digest, bytes) VALUES (?, ?) ON CONFLICT DO NOTHING`,
			ev.Evidence.Digest[:], ev.Evidence.Bytes)
		if err != nil {
			return fmt.Errorf("write evidence: %w", err)
		}
	}
	if err := ownKey(ctx, q, ev.Signature.Key, ev.From); err != nil {
		return err
	}
	if ev.Arrival.Name == "" {
		return nil
	}
	return bind(ctx, q, federation.Binding{
		DID:     ev.From,
		Network: ev.Arrival.Network,
		Link:    ev.Arrival.Link,
		Name:    ev.Arrival.Name,
		First:   ev.Arrival.Name,
		Key:     ev.Signature.Key,
		Seen:    ev.Arrival.Received,
	})
}

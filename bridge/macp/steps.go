package macp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/stepbuilder"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/historyv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

type steps struct {
	ports bridge.Ports
	deps  Deps
	link  string
	log   *slog.Logger
}

func (l *Link) steps() steps { return steps{ports: l.ports, deps: l.deps, link: l.Name(), log: l.log} }

type wireEntry struct {
	session string
	number  uint64
	entry   *historyv1.Entry
	env     *macpv1.Envelope
}

func readWireEntry(session string, number uint64, text []byte) (s wireEntry, files bool, err error) {
	entry, err := readEntry(text)
	if err != nil {
		return s, false, err
	}
	env, err := macpmode.EnvelopeOf(entry)
	if err != nil || !macpmode.Files(entry, env) {
		return s, false, err
	}
	return wireEntry{session: session, number: number, entry: entry, env: env}, true, nil
}

// The ID and the time are stable, so that a step is filed once despite a crash. An entry too old
// for this gets a new ID.
func (s wireEntry) id(now time.Time) (federation.EventID, time.Time) {
	at := time.UnixMilli(s.entry.GetAtUnixMs())
	if now.Sub(at) > freshStep {
		at = now.Truncate(time.Millisecond)
	}
	return stepID(at, "entry", s.session, fmt.Sprint(s.number)), at
}

// handoff returns the opening time of the offer, and whether the handoff was written. An offer
// keeps its handoff despite a crash, unless the offer is too old.
func (s wireEntry) handoff(ctx context.Context, gateway bridge.Gateway, offer macpmode.Offer) (id federation.HandoffID, at time.Time, opened bool, err error) {
	id, at = s.id(time.Now())
	if known, err := federation.ParseEventID(offer.Handoff); err == nil {
		view, err := gateway.View(ctx, known)
		if err != nil || view.Exists() || known == id {
			return known, at, true, err
		}
	}
	return id, at, false, nil
}

// A handoff already in the resulting state needs no step: the step was filed before a crash, or the
// participant answered elsewhere.
func (t steps) submit(ctx context.Context, s wireEntry, from federation.DID, verb federation.Verb, id federation.HandoffID, note string) error {
	view, err := t.ports.Gateway.View(ctx, id)
	if err != nil {
		return err
	}
	done := verb == federation.Decline && view.State == "declined" || verb == federation.Cancel && view.Over
	if verb == federation.Accept && view.Assignee != "" {
		done, err = t.ports.Gateway.Same(ctx, view.Assignee, from)
	}
	if done || err != nil {
		return err
	}
	document, err := original(s.env)
	if err != nil {
		return err
	}
	event, at := s.id(time.Now())
	return t.vouch(ctx, stepbuilder.Draft{ID: event, From: from, Verb: verb, Proved: true, Original: document, Note: note}, view, at)
}

// If there is no room, the context stays only in the session.
func (t steps) store(ctx context.Context, owner federation.DID, content []byte) (url, hash string, err error) {
	blob, err := t.ports.Evidence.Store(ctx, owner, content)
	if errors.Is(err, federation.ErrBlobTooLarge) || errors.Is(err, federation.ErrBlobQuota) {
		t.log.LogAttrs(ctx, slog.LevelWarn, "context not stored", slog.String("did", string(owner)), slog.Any("err", err))
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	return blob.URL(t.ports.PublicURL), blob.Hash(), nil
}

// A deferred step is on disk, and is no error.
func (t steps) vouch(ctx context.Context, draft stepbuilder.Draft, view federation.View, now time.Time) error {
	ev, _, err := stepbuilder.Builder{
		Network: network, Link: t.link, ReadsInbox: true, Home: t.ports.Home, Gateway: t.ports.Gateway, Record: t.deps.Steps, Signer: t.ports.Signer, Evidence: t.ports.Evidence,
		Bindings: t.ports.Bindings, PublicURL: t.ports.PublicURL,
	}.Vouch(ctx, draft, view, now)
	if err != nil {
		return err
	}
	_, err = t.ports.Gateway.Submit(ctx, ev)
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok && refused.Waits {
		return nil
	}
	return err
}

func (f *Foreign) workJournal(id federation.HandoffID) string {
	return f.prefix() + "work/" + id.String()
}

func (f *Foreign) taskKeyJournal(initiator, key string) string {
	digest := sha256.Sum256(fmt.Appendf(nil, "%d/%s/%s", len(initiator), initiator, key))
	return f.prefix() + "task/" + hex.EncodeToString(digest[:16])
}

// workEntry is an entry of the journal about the work of a handoff: the session of its task, or a step
// to report in the next session.
type workEntry struct {
	Session string `json:"session,omitempty"`
	Task    string `json:"task,omitempty"`
	Kept    *kept  `json:"kept,omitempty"`
}

type kept struct {
	ID          string          `json:"id"`
	Verb        federation.Verb `json:"verb"`
	Note        string          `json:"note,omitempty"`
	Context     string          `json:"context,omitempty"`
	ContextHash string          `json:"context_hash,omitempty"`
}

func keptStep(ev federation.Event) kept {
	return kept{ID: ev.ID.String(), Verb: ev.Verb, Note: ev.Note, Context: ev.Context, ContextHash: ev.ContextHash}
}

type work struct {
	length        uint64
	session, task string // "" for none
	kept          []kept
	last          string
}

// A missing journal is empty.
func (f *Foreign) readWork(ctx context.Context, id federation.HandoffID) (w work, err error) {
	for {
		page, err := f.deps.Journals.Journal(ctx, f.workJournal(id), w.length, pageEntries)
		if err != nil {
			return w, err
		}
		for _, text := range page {
			var entry workEntry
			if err := federation.DecodeJSON(text, &entry); err != nil {
				return w, fmt.Errorf("read the work of %s: %w", id, err)
			}
			w.length++
			if entry.Kept != nil {
				w.kept, w.last = append(w.kept, *entry.Kept), entry.Kept.ID
			} else {
				w.session, w.task, w.kept = entry.Session, entry.Task, nil
			}
		}
		if len(page) < pageEntries {
			return w, nil
		}
	}
}

// writeWork returns [federation.ErrStale] if the journal has grown since it was read.
func (f *Foreign) writeWork(ctx context.Context, id federation.HandoffID, w work, entry workEntry) error {
	text, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	return f.deps.Journals.WriteJournals(ctx, []federation.JournalWrite{{Name: f.workJournal(id), Length: w.length, Entries: [][]byte{text}}})
}

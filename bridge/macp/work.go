package macp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"baton/federation"
)

// workJournal returns the name of the journal about the work of a handoff on the runtime.
func (f *Foreign) workJournal(id federation.HandoffID) string {
	return f.prefix() + "work/" + id.String()
}

// taskKeyJournal returns the name of the journal that has the handoff of a task, by the participant
// that asks for the task and [macpmode.TaskKey].
func (f *Foreign) taskKeyJournal(initiator, key string) string {
	digest := sha256.Sum256(fmt.Appendf(nil, "%d/%s/%s", len(initiator), initiator, key))
	return f.prefix() + "task/" + hex.EncodeToString(digest[:16])
}

// workEntry is one entry of the journal about the work of a handoff: the session of its task, or a
// step that the session which follows is told.
type workEntry struct {
	Session string `json:"session,omitempty"`
	Task    string `json:"task,omitempty"`
	Kept    *kept  `json:"kept,omitempty"`
}

// kept is a step of our participant as it is kept for a task.
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

// event returns what a message of a task says about the step.
func (k kept) event() federation.Event {
	return federation.Event{Verb: k.Verb, Note: k.Note, Context: k.Context, ContextHash: k.ContextHash}
}

// work is what the journal about the work of a handoff says.
type work struct {
	length        uint64
	session, task string // the newest task; "" for none
	kept          []kept // since that task
	last          string // the ID of the newest of them
}

// readWork reads the journal about the work of a handoff. An unknown journal is empty.
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

// writeWork appends an entry to the journal as it was read. It returns [federation.ErrStale] where
// the journal has grown since.
func (f *Foreign) writeWork(ctx context.Context, id federation.HandoffID, w work, entry workEntry) error {
	text, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	return f.deps.Journals.WriteJournals(ctx, []federation.JournalWrite{{Name: f.workJournal(id), Length: w.length, Entries: [][]byte{text}}})
}

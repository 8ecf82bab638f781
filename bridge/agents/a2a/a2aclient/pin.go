package a2aclient

import (
	"context"
	"fmt"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/journals"
)

// readPin returns "" for no pinned key, and the length of the journal.
func readPin(ctx context.Context, record *journals.Journals, name string) (key string, length uint64, err error) {
	length, err = readJournal(ctx, record, pinJournal(name), 0, func(entry []byte) error {
		var p pinned
		err := federation.DecodeJSON(entry, &p)
		key = p.Key
		return err
	})
	if err != nil {
		return "", 0, fmt.Errorf("read pinned key of %s: %w", name, err)
	}
	return key, length, nil
}

func writePin(ctx context.Context, record *journals.Journals, name string, length uint64, key string) error {
	text, err := encoded(pinned{key})
	if err != nil {
		return err
	}
	return record.WriteJournals(ctx, []federation.JournalWrite{{Name: pinJournal(name), Length: length, Entries: [][]byte{text}}})
}

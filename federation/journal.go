package federation

import "time"

// JournalWrite appends to a journal: a named list of entries that a link keeps, such as the
// history of a session. The record does not know what is in an entry.
type JournalWrite struct {
	Name    string // unique in the record; it begins with the label of the network and a slash
	Length  uint64 // of the journal before the write; [ErrStale] is returned for any other length
	Entries [][]byte
	Due     time.Time // when its owner looks at the journal again; zero for never
}

// MaxJournalPage bounds the entries and the names that one read of journals returns.
const MaxJournalPage = 1024

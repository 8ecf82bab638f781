package store

import "fmt"

// Sentence returns a sentence about an upgrade that was done, or with dry would be. Only the
// record in a file is copied before.
func (u Upgrade) Sentence(dry, inFile bool) string {
	switch {
	case u.From == u.To:
		return fmt.Sprintf("the record is of version %d: nothing to do", u.To)
	case dry && u.From == 0:
		return fmt.Sprintf("would make a record of version %d", u.To)
	case dry && inFile:
		return fmt.Sprintf("would copy the record of version %d, and bring it to version %d", u.From, u.To)
	case dry:
		return fmt.Sprintf("would bring the record from version %d to version %d", u.From, u.To)
	case u.From == 0:
		return fmt.Sprintf("made a record of version %d", u.To)
	case u.Backup == "":
		return fmt.Sprintf("brought the record from version %d to version %d", u.From, u.To)
	}
	return fmt.Sprintf("brought the record from version %d to version %d; what was before is %s", u.From, u.To, u.Backup)
}

// DamageError is returned for a record that was examined and found damaged.
type DamageError struct {
	First Damage
	More  int
}

// Err returns the damage of a report as an error, nil for a sound record.
func (r Report) Err() error {
	if len(r.Damage) == 0 {
		return nil
	}
	return &DamageError{First: r.Damage[0], More: len(r.Damage) - 1}
}

// Error names the first damage.
func (e *DamageError) Error() string {
	if e.More == 0 {
		return e.First.String()
	}
	return fmt.Sprintf("%s (and %d more: --json lists them)", e.First, e.More)
}

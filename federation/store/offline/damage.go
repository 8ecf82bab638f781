package offline

import "fmt"

// DamageError is returned for a record that was examined and found damaged.
type DamageError struct {
	First Damage
	More  int
}

// Sentence says what a record without damage has.
func (r Report) Sentence() string {
	line := fmt.Sprintf("sound: record of version %d, %d handoffs, %d events", r.Version, r.Handoffs, r.Events)
	if r.Erased > 0 {
		line += fmt.Sprintf(", %d of them erased: of these the chain has digests alone", r.Erased)
	}
	return line
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

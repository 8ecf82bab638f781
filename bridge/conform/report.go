package conform

import "fmt"

// Item is a result as machines read it.
type Item struct {
	Section string `json:"section"`
	Case    string `json:"case"`
	Passed  bool   `json:"passed"`
	Skipped bool   `json:"skipped,omitempty"` // the server does not claim what the case checks
	Why     string `json:"why,omitempty"`
}

// Item returns the result as machines read it.
func (r Result) Item() Item {
	item := Item{Section: r.Section, Case: r.Case, Passed: r.Err == nil, Skipped: r.Skipped()}
	if r.Err != nil {
		item.Why = r.Err.Error()
	}
	return item
}

// String returns the result as people read it.
func (r Result) String() string {
	if r.Skipped() {
		return fmt.Sprintf("skip  %s: %s\n      %v", r.Section, r.Case, r.Err)
	}
	if r.Err != nil {
		return fmt.Sprintf("FAIL  %s: %s\n      %v", r.Section, r.Case, r.Err)
	}
	return fmt.Sprintf("ok    %s: %s", r.Section, r.Case)
}

// Totals counts results.
type Totals struct {
	Cases   int `json:"cases"`
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

// Count counts results.
func Count(results []Result) Totals {
	t := Totals{Cases: len(results)}
	for _, r := range results {
		switch {
		case r.Err == nil:
			t.Passed++
		case r.Skipped():
			t.Skipped++
		default:
			t.Failed++
		}
	}
	return t
}

// String returns the totals as people read them.
func (t Totals) String() string {
	return fmt.Sprintf("%d cases: %d passed, %d failed, %d skipped", t.Cases, t.Passed, t.Failed, t.Skipped)
}

// FailedError is returned for a server that does not do what its clients rely on.
type FailedError struct{ Failed, Of int }

// Failed returns the failed cases of results as an error, nil for none.
func Failed(results []Result) error {
	if failed := Count(results).Failed; failed > 0 {
		return &FailedError{Failed: failed, Of: len(results)}
	}
	return nil
}

// Error returns how many cases fail.
func (e *FailedError) Error() string {
	return fmt.Sprintf("%d of %d cases fail", e.Failed, e.Of)
}

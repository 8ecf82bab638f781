package directory_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/files/directory"
	"github.com/baton-gateway/baton/translate/taskfile"
)

// BenchmarkIdle is one look at ten thousand unchanged files. A link looks every five seconds:
// the metric is the fraction of a core for this.
func BenchmarkIdle(b *testing.B) {
	const files, every = 10_000, 5 * time.Second
	dir := b.TempDir()
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.json", i)), nil, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	known := map[string]directory.Stamp{}
	note := func(name string, stamp directory.Stamp) error {
		known[name] = stamp
		return nil
	}
	for b.Loop() {
		if err := directory.Each(dir, note); err != nil {
			b.Fatal(err)
		}
	}
	if len(known) != files {
		b.Errorf("%d files were seen", len(known))
	}
	b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N)/every.Seconds(), "%core")
}

// BenchmarkClaimVoiceFile claims one voice file: an exclusive move, on disk in both folders.
func BenchmarkClaimVoiceFile(b *testing.B) {
	dir := b.TempDir()
	for _, name := range []string{"handoff", "claimed"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			b.Fatal(err)
		}
	}
	at, next := filepath.Join(dir, "handoff", "x.json"), filepath.Join(dir, "claimed", "x.json")
	if err := os.WriteFile(at, []byte("{}"), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := directory.Move(at, next); err != nil {
			b.Fatal(err)
		}
		at, next = next, at
	}
}

// BenchmarkAcceptRecord changes one record: claim, read, write, and end of the claim.
func BenchmarkAcceptRecord(b *testing.B) {
	tasks := directory.Tasks{Path: b.TempDir()}
	item, err := tasks.Offer("scanner", "", "do it", "", time.Now())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		_, err := tasks.Change(item.ID, "reviewer", func(r taskfile.Record) (taskfile.Record, error) { return r.For("reviewer"), nil })
		if err != nil {
			b.Fatal(err)
		}
	}
}

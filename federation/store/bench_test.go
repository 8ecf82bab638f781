package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// fsyncs is how many raw ones each benchmark compares itself with: enough to even
// out the disk's moods, and done in a second by most.
const fsyncs = 500

// BenchmarkFsync is the limit of the disk: 1 KiB appended to a file, and fsync.
func BenchmarkFsync(b *testing.B) {
	flush := rawSync(b, b.TempDir())
	for b.Loop() {
		flush()
	}
}

// BenchmarkAppend is the durable append of one step, with an inbox and an outbox. The metric
// x_fsync is its rate as a multiple of the rate of raw fsyncs on the same disk, in the same
// run.
func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			dir := b.TempDir()
			flush := rawSync(b, dir)
			begun := time.Now()
			for range fsyncs {
				flush()
			}
			perSync := time.Since(begun) / fsyncs

			record := open(b, dir, prometheus.NewRegistry())
			b.ResetTimer()
			appendSteps(b, record, callers)
			perAppend := b.Elapsed() / time.Duration(b.N)
			b.ReportMetric(float64(perSync)/float64(perAppend), "x_fsync")
		})
	}
}

func rawSync(b *testing.B, dir string) func() {
	b.Helper()
	file, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { file.Close() })
	block := make([]byte, 1024)
	return func() {
		_, err := file.Write(block)
		if err == nil {
			err = file.Sync()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func appendSteps(b *testing.B, record *registry.Record, callers int) {
	b.Helper()
	template := offer(1)
	template.Links = []string{"oftc"}
	var next atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				f := template
				f.Event.ID = federationtest.ID(int(n))
				f.Event.Handoff, f.View.ID = f.Event.ID, f.Event.ID
				f.Event.Signature.Document = template.Event.Signature.Document + f.Event.ID.String()
				if _, err := record.Append(b.Context(), f); err != nil {
					b.Errorf("Append: %v", err)
				}
			}
		})
	}
	all.Wait()
}

package store_test

import (
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Half of the size at which a commit would copy the log itself.
const longLog = 32 << 20

// A commit leaves its pages in the write-ahead log. They reach the file while the record is
// open, and the log begins anew, so that no commit has to copy it.
func TestCheckpointRunsBeforeACommitMust(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	record := open(t, dir, prometheus.NewRegistry())
	size := func(path string) int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size(at(dir))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n := 1; size(at(dir)) == before; n++ {
		if log := size(at(dir) + "-wal"); log > longLog {
			t.Fatalf("the log has %d bytes and the file is as it was before the first step", log)
		}
		if _, err := record.Append(t.Context(), offer(n)); err != nil {
			t.Fatal(err)
		}
		<-tick.C
	}
}

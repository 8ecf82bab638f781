package checkup_test

import (
	"context"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"baton/bridge/operatorapi/checkup"
	"baton/bridge/operatorapi/contract"
)

// writable is a record whose small writes still fit into its file.
type writable struct{}

// Ready implements [checkup.Record].
func (writable) Ready(context.Context) error { return nil }

// reached is a relay.
type reached struct{}

// Ready implements [checkup.Server].
func (reached) Ready() error { return nil }

// nothing is a web without documents.
type nothing struct{}

// Get implements [checkup.Documents].
func (nothing) Get(context.Context, string) ([]byte, error) { return nil, context.Canceled }

// A process whose files may not grow has a full disk.
func TestRecordCheckWritesATestFile(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	check := func(size uint64) contract.Diagnosis {
		t.Helper()
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: before.Max}); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Setrlimit(unix.RLIMIT_FSIZE, &before) }()
		c := checkup.Checkup{Home: "gw.test", Folder: t.TempDir(), Record: writable{}, Relay: reached{}, Documents: nothing{}}
		return c.Examine(t.Context(), false)[0]
	}
	if got := check(before.Cur); got.State != contract.DiagnosisOK {
		t.Errorf("with room: %+v", got)
	}
	if got := check(60 << 10); got.State != contract.DiagnosisFail || !strings.Contains(got.Detail, "no test file of 64 KiB can be written") {
		t.Errorf("without room: %+v", got)
	}
}

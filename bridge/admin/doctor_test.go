package admin_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

func reached() error { return nil }

// nothing is a web without documents.
func nothing(context.Context, string) ([]byte, error) { return nil, context.Canceled }

// noClocks returns the clocks of a gateway without peers.
func noClocks(context.Context) map[string]time.Duration { return nil }

// A file size limit on the process simulates a full disk.
func TestRecordCheckWritesATestFile(t *testing.T) {
	record := storetest.Open(t)
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	check := func(size uint64) admin.Diagnosis {
		t.Helper()
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: before.Max}); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Setrlimit(unix.RLIMIT_FSIZE, &before) }()
		c := admin.Checkup{Home: "gw.test", Folder: t.TempDir(), Record: record, Relay: reached, Fetch: nothing, Clocks: noClocks}
		return c.Examine(t.Context(), false)[0]
	}
	if got := check(before.Cur); got.State != admin.DiagnosisOK {
		t.Errorf("with room: %+v", got)
	}
	if got := check(60 << 10); got.State != admin.DiagnosisFail || !strings.Contains(got.Detail, "cannot write a test file of 64 KiB") {
		t.Errorf("without room: %+v", got)
	}
}

func TestDoctorReportsProxiesWithoutClientAddress(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for want, proxies := range map[admin.Diagnosis]*bridge.Unforwarded{
		{Check: "proxies", State: admin.DiagnosisOK, Detail: "forwarded names every client"}: {Header: "forwarded"},
		{
			Check: "proxies", State: admin.DiagnosisWarn,
			Detail: `2 requests refused for an unreadable x-forwarded-for, 3 without it not subject to limits and blocks by address; the last at 2026-11-26T12:00:00Z: "b" is not an address`,
			Remedy: "configure each proxy in http.trusted_proxies to add its client's address to x-forwarded-for, or set http.forwarded_header and run: baton reload",
		}: {Header: "x-forwarded-for", Unreadable: 2, Unnamed: 3, Last: `"b" is not an address`, At: at},
	} {
		c := admin.Checkup{Home: "gw.test", Folder: t.TempDir(), Record: storetest.Open(t), Relay: reached, Fetch: nothing, Clocks: noClocks, Proxies: proxies}
		if all := c.Examine(t.Context(), false); !slices.Contains(all, want) {
			t.Errorf("%+v lack %+v", all, want)
		}
	}
}

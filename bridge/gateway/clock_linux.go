package gateway

import (
	"time"

	"golang.org/x/sys/unix"
)

// Uptime returns a clock of the time since the machine was started, including the time that it slept: the
// monotonic clock of the Go runtime stands still meanwhile.
func Uptime() func() time.Duration {
	start := time.Now()
	return func() time.Duration {
		var up unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
			return time.Since(start)
		}
		return time.Duration(up.Nano())
	}
}

// Synced reports whether NTP keeps the clock of the machine. The kernel takes that back when the clock
// is set by hand.
//
// spec: adjtimex(2), STA_UNSYNC
func Synced() bool {
	var state unix.Timex
	code, err := unix.Adjtimex(&state)
	return err == nil && code != unix.TIME_ERROR && state.Status&unix.STA_UNSYNC == 0
}

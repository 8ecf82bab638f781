package server

import (
	"time"

	"golang.org/x/sys/unix"
)

// Uptime returns a clock that measures the time since boot, including suspended time, which the Go
// runtime omits.
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

// Synced reports whether NTP synchronizes the wall clock.
//
// spec: adjtimex(2), STA_UNSYNC
func Synced() bool {
	var state unix.Timex
	code, err := unix.Adjtimex(&state)
	return err == nil && code != unix.TIME_ERROR && state.Status&unix.STA_UNSYNC == 0
}

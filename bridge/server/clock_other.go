//go:build !linux

package server

import "time"

// Uptime returns a clock that measures the time since this call.
func Uptime() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// Synced returns false, because this system does not report NTP synchronization.
func Synced() bool { return false }

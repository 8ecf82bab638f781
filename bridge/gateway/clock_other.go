//go:build !linux

package gateway

import "time"

// Uptime returns a clock of the time since the call.
func Uptime() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// Synced reports whether NTP keeps the clock of the machine: this system does not tell.
func Synced() bool { return false }

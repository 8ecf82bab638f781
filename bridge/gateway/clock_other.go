//go:build !linux

package gateway

import "time"

// Uptime returns the time since the process was started.
func Uptime() time.Duration { return time.Since(processStart) }

// Synced reports whether NTP keeps the clock of the machine: this system does not tell.
func Synced() bool { return false }

var processStart = time.Now()

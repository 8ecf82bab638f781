package main_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns how long the cores have worked for a process of this machine, 0 being this
// one. Unlike a rate it is the same on a machine that does other things too.
func cpuTime(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	var spent unix.Timespec
	// The number of the clock of a process is made of its own, see clock_getcpuclockid(3).
	if err := unix.ClockGettime(int32(^pid<<3|2), &spent); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(spent.Nano())
}

// reportCPU reports how long the cores worked for each of so many steps.
func reportCPU(b *testing.B, worked time.Duration, steps int) {
	b.Helper()
	b.ReportMetric(float64(worked.Nanoseconds())/1000/float64(steps), "cpu-µs")
}

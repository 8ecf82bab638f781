package engine

import (
	"fmt"
	"strconv"
	"time"
)

// Stage is a part of an upgrade.
type Stage string

// The stages, in order. Checking counts the rows and reads each event before the conversion;
// comparing does the same after it.
const (
	Copying    Stage = "copying it"
	Checking   Stage = "checking"
	Changing   Stage = "changing its tables"
	Converting Stage = "converting"
	Comparing  Stage = "comparing"
	Committing Stage = "committing"
)

// Progress is called at the start of each stage of an upgrade, and after some events. The total is
// 0 in a stage without a count.
type Progress func(stage Stage, done, total int64)

func (p Progress) at(stage Stage, done, total int64) {
	if p != nil {
		p(stage, done, total)
	}
}

func (p Progress) of(stage Stage) func(done, total int64) {
	return func(done, total int64) { p.at(stage, done, total) }
}

// A short upgrade writes no line.
const (
	firstLine = 2 * time.Second
	eachLine  = time.Second
)

// Lines returns a Progress that writes readable lines, at most one per second. It is nil if write
// is nil.
func Lines(write func(line string)) Progress {
	if write == nil {
		return nil
	}
	next := time.Now().Add(firstLine)
	return func(stage Stage, done, total int64) {
		if now := time.Now(); !now.Before(next) {
			next = now.Add(eachLine)
			write(stage.line(done, total))
		}
	}
}

func (s Stage) line(done, total int64) string {
	line := "upgrading the record: " + string(s)
	if total > 0 {
		line += ": " + thousands(done) + " of " + thousands(total) + " events"
	}
	return line
}

func thousands(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

type way struct {
	name     string
	programs []string // required besides inspircd
	bridge   string   // process between the two networks; "" for none
	start    func(ctx context.Context, s *stage) error
}

var ways = []way{
	{name: "baton", programs: []string{"baton"}, bridge: "baton", start: startBaton},
	{name: "link", start: startLinked},
	{name: "matterbridge", programs: []string{"matterbridge"}, bridge: "matterbridge", start: startMatterbridge},
	{name: "biboumi", programs: []string{"biboumi", "prosody"}, bridge: "biboumi", start: startBiboumi},
}

func choose(names []string) ([]way, error) {
	if len(names) == 0 {
		return ways, nil
	}
	var chosen []way
	for _, name := range names {
		i := slices.IndexFunc(ways, func(w way) bool { return w.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no way %q", name)
		}
		chosen = append(chosen, ways[i])
	}
	return chosen, nil
}

// If a program is missing, find returns its name.
func (w way) find() (paths map[string]string, missing string) {
	paths = map[string]string{}
	var absent []string
	for _, name := range append([]string{"inspircd"}, w.programs...) {
		path, err := exec.LookPath(name)
		if err != nil { // Debian keeps servers out of the search path of users
			path, err = exec.LookPath("/usr/sbin/" + name)
		}
		if err != nil {
			absent = append(absent, name)
			continue
		}
		paths[name] = path
	}
	switch len(absent) {
	case 0:
		return paths, ""
	case 1:
		return nil, absent[0] + " is not installed"
	}
	return nil, strings.Join(absent, " and ") + " are not installed"
}

// The processes killed by a case.
const (
	nothing    = ""
	theBridge  = "bridge"
	theFarIRCd = "far server"
)

// The kinds of messages.
const (
	text   = "lines"
	offers = "offers"
)

type trial struct {
	kind   string
	rate   int // per second
	total  int
	kill   string
	down   time.Duration // of the killed process
	settle time.Duration // time after the last line, the restart and the last arrival
}

func (c trial) String() string {
	return fmt.Sprintf("%s at %d a second, killed: %q", c.kind, c.rate, c.kill)
}

// Times of a case. Matterbridge redials a lost server after 30 seconds.
const (
	sendTime   = 20 * time.Second
	downTime   = 2 * time.Second
	settleTime = 40 * time.Second

	quickTotal  = 60
	quickDown   = 500 * time.Millisecond
	quickSettle = 8 * time.Second
)

func (w way) cases(quick bool) (all []trial) {
	kills := []string{nothing, theBridge, theFarIRCd}
	if w.bridge == "" {
		kills = []string{nothing, theFarIRCd}
	}
	if quick && w.bridge != "" {
		for _, kill := range kills[1:] {
			all = append(all, trial{text, 50, quickTotal, kill, quickDown, quickSettle})
		}
	}
	if quick {
		return append(all, trial{offers, 50, quickTotal, nothing, quickDown, quickSettle})
	}
	for _, rate := range []int{5, 50} {
		for _, kill := range kills {
			all = append(all, trial{text, rate, rate * int(sendTime.Seconds()), kill, downTime, settleTime})
		}
	}
	for _, kill := range kills {
		all = append(all, trial{offers, 5, 5 * int(sendTime.Seconds()), kill, downTime, settleTime})
	}
	return all
}

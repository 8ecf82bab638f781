package model

import (
	"math"
	"math/rand/v2"
)

type world struct {
	cfg    Config
	homes  []home
	homeOf []uint16 // by agent
	known  [][]uint64
	book   uint64 // seed of the address books
	step   uint64 // of the walk through all agents by popularity
}

type home struct {
	first, agents int
	zone          int
	delay         micros // to the hub, one way
	free          micros // time at which its processor finishes its work so far
	busy          micros
	searches      int64
	opens         [3]int64 // steps of its offers to anyone: offers, claims, completions
	work          Flow     // steps and text
	rows          Stored
	waiting       []event // steps for it during its absence
	shared        int64   // handoffs with other homes
}

func newWorld(cfg Config, random *rand.Rand) *world {
	b := cfg.Behavior
	w := &world{cfg: cfg, homes: make([]home, cfg.Homes), book: random.Uint64()}
	total, weight := cfg.Homes*b.AgentsPerHome, 0.0
	for i := range w.homes {
		weight += math.Pow(float64(i+1), -b.HomeSkew)
	}
	w.homeOf = make([]uint16, 0, total)
	for i := range w.homes {
		h := &w.homes[i]
		h.first = len(w.homeOf)
		h.agents = max(2, int(float64(total)*math.Pow(float64(i+1), -b.HomeSkew)/weight))
		h.delay = seconds(b.NetworkLeast + (b.NetworkMost-b.NetworkLeast)*random.Float64())
		h.zone = b.Zones[zoneOf(b.ZoneShares, random.Float64())]
		for range h.agents {
			w.homeOf = append(w.homeOf, uint16(i))
		}
	}
	w.step = stride(uint64(len(w.homeOf)), random)
	w.known = make([][]uint64, cfg.Homes)
	for i := range w.known {
		w.known[i] = make([]uint64, len(w.homeOf)/64+1)
	}
	return w
}

func zoneOf(shares [3]float64, u float64) int {
	switch {
	case u < shares[0]:
		return 0
	case u < shares[0]+shares[1]:
		return 1
	}
	return 2
}

// stride returns a number coprime to n. Its multiples modulo n are all numbers below n.
func stride(n uint64, random *rand.Rand) uint64 {
	for {
		s := n/3 + random.Uint64N(n/3)
		a, b := s, n
		for b > 0 {
			a, b = b, a%b
		}
		if a == 1 {
			return s
		}
	}
}

func (w *world) ranked(rank int) uint32 {
	return uint32(uint64(rank) * w.step % uint64(len(w.homeOf)))
}

func (w *world) recipient(from uint32, random *rand.Rand) uint32 {
	b, h := w.cfg.Behavior, &w.homes[w.homeOf[from]]
	if random.Float64() < b.Local {
		to := uint32(h.first + random.IntN(h.agents-1))
		if to >= from {
			to++
		}
		return to
	}
	u := random.Float64()
	if random.Float64() < b.Repeat {
		u = w.contact(from, random.IntN(b.Contacts))
	}
	return w.remote(from, u)
}

func (w *world) contact(of uint32, entry int) float64 {
	return share(mix(w.book, uint64(of), uint64(entry)))
}

// remote returns the agent at a popularity position, or the next one at another home.
func (w *world) remote(from uint32, u float64) uint32 {
	rank := popular(u, len(w.homeOf))
	to := w.ranked(rank)
	for w.homeOf[to] == w.homeOf[from] {
		rank = (rank + 1) % len(w.homeOf)
		to = w.ranked(rank)
	}
	return to
}

// knows also records that the home now knows the mailbox.
func (w *world) knows(at uint16, agent uint32) bool {
	word, bit := &w.known[at][agent/64], uint64(1)<<(agent%64)
	if *word&bit != 0 {
		return true
	}
	*word |= bit
	return false
}

// Each agent works with its whole address book, and with the other recipients of some days. Then
// both homes know both mailboxes.
func (w *world) meet(days float64, random *rand.Rand) {
	b := w.cfg.Behavior
	strangers := int(days * (b.Handoffs + b.Texts) * (1 - b.Local) * (1 - b.Repeat))
	for from := range uint32(len(w.homeOf)) {
		for i := range b.Contacts + strangers {
			u := random.Float64()
			if i < b.Contacts {
				u = w.contact(from, i)
			}
			to := w.remote(from, u)
			w.knows(w.homeOf[from], to)
			w.knows(w.homeOf[to], from)
		}
	}
}

// The activity is a multiple of the mean.
func (w *world) activity(h *home, at micros) float64 {
	const busiest = 14 // o'clock
	local := float64(at)/float64(hour) + float64(h.zone)
	return 1 + w.cfg.Behavior.Rhythm*math.Cos(2*math.Pi*(local-busiest)/24)
}

// online returns the next time from now at which an agent reads its inbox, and whether it always
// does.
func (w *world) online(agent uint32, now micros) (at micros, always bool) {
	b := w.cfg.Behavior
	x := mix(w.cfg.Seed, uint64(agent), 1)
	if share(x) < b.AlwaysOn {
		return now, true
	}
	begin := micros(7+x%4)*hour - micros(w.homes[w.homeOf[agent]].zone)*hour + micros(x>>8%3600)*second
	begin = (begin%day + day) % day
	into := (now%day - begin + day) % day
	if into < seconds(b.WorkingHours*3600) {
		return now, false
	}
	return now + day - into, false
}

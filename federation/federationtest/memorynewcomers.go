package federationtest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"baton/federation"
	"baton/federation/agents"
)

// Acquainted implements [Newcomers].
func (m *Memory) Acquainted(ctx context.Context, did federation.DID) (met time.Time, known bool, err error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return time.Time{}, false, err
	}
	if at, isNew := m.newcomers[did]; isNew {
		return at, true, nil
	}
	_, known = m.bindings[did]
	known = known || slices.ContainsFunc(m.entries, func(e federation.Entry) bool { return e.Event.From == did }) ||
		slices.ContainsFunc(m.agents, func(a agents.Agent) bool { return a.Is(did) }) ||
		slices.ContainsFunc(m.names, func(b federation.BoundName) bool { return b.DID == did })
	return time.Time{}, known, nil
}

// Meet implements [Newcomers].
func (m *Memory) Meet(ctx context.Context, did federation.DID, now time.Time) error {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return err
	}
	m.meet(did, now)
	return nil
}

func (m *Memory) meet(did federation.DID, now time.Time) {
	if _, again := m.newcomers[did]; did != "" && !again {
		m.newcomers[did] = now
	}
}

// MetSince implements [Newcomers].
func (m *Memory) MetSince(ctx context.Context, since time.Time, limit int) ([]federation.Newcomer, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return nil, err
	}
	var met []federation.Newcomer
	for did, at := range m.newcomers {
		if at.After(since) {
			met = append(met, federation.Newcomer{DID: did, Met: at})
		}
	}
	slices.SortFunc(met, func(a, b federation.Newcomer) int {
		return cmp.Or(a.Met.Compare(b.Met), strings.Compare(string(a.DID), string(b.DID)))
	})
	return met[:min(max(limit, 0), len(met))], nil
}

// Growth implements [Newcomers].
func (m *Memory) Growth(ctx context.Context, now time.Time) (int64, error) {
	unlock, err := m.begin(ctx)
	defer unlock()
	if err != nil {
		return 0, err
	}
	since := now.Add(-federation.AcquaintanceAge)
	measured := federation.SizeSample{At: now, Bytes: m.size()}
	grown := federation.GrowthSince(append(slices.Clone(m.sizes), measured), since)
	if n := len(m.sizes); n == 0 || m.sizes[n-1].Bytes != measured.Bytes && now.Sub(m.sizes[n-1].At) >= federation.SampleEvery {
		m.sizes = append(m.sizes, measured)
		for did, at := range m.newcomers {
			if !at.After(since) {
				delete(m.newcomers, did)
			}
		}
	}
	return grown, nil
}

// size returns how many bytes were signed that are kept.
func (m *Memory) size() (bytes int64) {
	for _, e := range m.entries {
		bytes += int64(len(e.Event.Signature.Document))
	}
	for _, on := range m.messages {
		bytes += int64(len(on.Envelope))
	}
	return bytes
}

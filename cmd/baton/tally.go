package main

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"baton/bridge/operatorapi"
	"baton/federation"
)

// Bounds of what is remembered of senders: an hour in minutes, and so many of each kind in
// a minute, at some 150 bytes each.
const (
	tallyMinutes = 60
	tallySenders = 256
)

// unproved is the name under which steps are counted whose signer is not known: a DID must
// not look like a flood because others write its name.
const unproved = "(unproved)"

// tally counts what comes from each sender, for [operatorapi.Deps.Top]. In a minute with more
// senders than it remembers it forgets those with the fewest steps. The zero tally is
// empty. It may be used concurrently.
type tally struct {
	mu      sync.Mutex
	minutes [tallyMinutes]tallyMinute
}

// tallyMinute is what came in one minute.
type tallyMinute struct {
	number  int64                                    // since 1970
	senders map[string]map[string]operatorapi.Sender // by kind and name
}

// note counts one step that was judged.
func (t *tally) note(ev federation.Event, verdict federation.Verdict, err error, now time.Time) {
	refused, isRefusal := errors.AsType[*federation.RefusalError](err)
	if err != nil && !isRefusal {
		return
	}
	size := int64(len(ev.Signature.Document))
	if ev.Evidence != nil {
		size += int64(len(ev.Evidence.Bytes))
	}
	did := string(ev.Actor())
	if verdict != federation.Valid {
		did = unproved
	}
	change := func(s *operatorapi.Sender) {
		s.Bytes += size
		s.Steps++
		if refused != nil && !refused.Waits {
			s.Refused++
		}
		if refused != nil && refused.Code == federation.RateLimited {
			s.Limited++
		}
	}
	t.count(now, map[string]string{operatorapi.ByDID: did, operatorapi.ByAddress: ev.Arrival.Address, operatorapi.ByLink: ev.Arrival.Link}, change)
}

// noteBlocked counts a step, a login or a connection of a blocked source.
func (t *tally) noteBlocked(s federation.Source, now time.Time) {
	names := map[string]string{operatorapi.ByLink: cmp.Or(s.Link, s.Network)}
	if s.Address.IsValid() {
		names[operatorapi.ByAddress] = s.Address.String()
	}
	if len(s.DIDs) > 0 {
		names[operatorapi.ByDID] = string(s.DIDs[0])
	}
	t.count(now, names, func(s *operatorapi.Sender) { s.Blocked++ })
}

// count changes what is remembered of a sender under its names by kind.
func (t *tally) count(now time.Time, names map[string]string, change func(*operatorapi.Sender)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	number := now.Unix() / 60
	minute := &t.minutes[number%tallyMinutes]
	if minute.number != number || minute.senders == nil {
		*minute = tallyMinute{number: number, senders: map[string]map[string]operatorapi.Sender{
			operatorapi.ByDID: {}, operatorapi.ByAddress: {}, operatorapi.ByLink: {},
		}}
	}
	for by, name := range names {
		if name == "" {
			continue
		}
		all := minute.senders[by]
		sender, known := all[name]
		if !known && len(all) >= tallySenders {
			delete(all, leastOf(all))
		}
		sender.Name = name
		change(&sender)
		all[name] = sender
	}
}

// leastOf returns the name of the sender with the fewest steps.
func leastOf(all map[string]operatorapi.Sender) string {
	var least operatorapi.Sender
	for _, s := range all {
		if least.Name == "" || s.Steps+s.Blocked < least.Steps+least.Blocked {
			least = s
		}
	}
	return least.Name
}

// top returns up to limit senders with the most steps in a time before now.
func (t *tally) top(by string, since time.Duration, limit int, now time.Time) []operatorapi.Sender {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, last := now.Add(-since).Unix()/60+1, now.Unix()/60
	sums := map[string]operatorapi.Sender{}
	for _, minute := range t.minutes {
		if minute.number < first || minute.number > last {
			continue
		}
		for name, s := range minute.senders[by] {
			sum := sums[name]
			sums[name] = operatorapi.Sender{
				Name: name, Steps: sum.Steps + s.Steps, Refused: sum.Refused + s.Refused, Limited: sum.Limited + s.Limited,
				Blocked: sum.Blocked + s.Blocked, Bytes: sum.Bytes + s.Bytes,
			}
		}
	}
	all := make([]operatorapi.Sender, 0, len(sums))
	for _, sum := range sums {
		all = append(all, sum)
	}
	slices.SortFunc(all, func(a, b operatorapi.Sender) int {
		return cmp.Or(-cmp.Compare(a.Steps, b.Steps), -cmp.Compare(a.Refused+a.Blocked, b.Refused+b.Blocked),
			-cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(limit, len(all))]
}

package server

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

// An hour in minutes, and the limit on senders of each kind per minute, at about 150 bytes each.
const (
	senderMinutes    = 60
	sendersPerMinute = 256
)

// The kinds of senders.
const (
	ByDID     = "did"
	ByAddress = "address"
	ByLink    = "link"
)

// unproved replaces the DID of steps without a valid signature. Any client can write any DID, so
// such a step must not count for that DID.
const unproved = "(unproved)"

// Sender has the counts of one sender.
type Sender = bridge.Sender

// Senders counts the steps of each sender in the last hour. In a minute with too many senders, it
// drops the senders with the fewest steps. The zero Senders is empty.
type Senders struct {
	mu      sync.Mutex
	minutes [senderMinutes]senderMinute
}

type senderMinute struct {
	number  int64                        // minutes since 1970
	senders map[string]map[string]Sender // by kind and name
}

// Note counts one judged step.
func (t *Senders) Note(ev federation.Event, verdict federation.Verdict, err error, now time.Time) {
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
	change := func(s *Sender) {
		s.Bytes += size
		s.Steps++
		if refused != nil && !refused.Waits {
			s.Refused++
		}
		if refused != nil && refused.Code == federation.RateLimited {
			s.Limited++
		}
	}
	t.count(now, map[string]string{ByDID: did, ByAddress: ev.Arrival.Address, ByLink: ev.Arrival.Link}, change)
}

// NoteBlocked counts a step, a login or a connection of a blocked source.
func (t *Senders) NoteBlocked(s federation.Source, now time.Time) {
	names := map[string]string{ByLink: cmp.Or(s.Link, s.Network)}
	if s.Address.IsValid() {
		names[ByAddress] = s.Address.String()
	}
	if len(s.DIDs) > 0 {
		names[ByDID] = string(s.DIDs[0])
	}
	t.count(now, names, func(s *Sender) { s.Blocked++ })
}

func (t *Senders) count(now time.Time, names map[string]string, change func(*Sender)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	number := now.Unix() / 60
	minute := &t.minutes[number%senderMinutes]
	if minute.number != number || minute.senders == nil {
		*minute = senderMinute{number: number, senders: map[string]map[string]Sender{
			ByDID: {}, ByAddress: {}, ByLink: {},
		}}
	}
	for by, name := range names {
		if name == "" {
			continue
		}
		all := minute.senders[by]
		sender, known := all[name]
		if !known && len(all) >= sendersPerMinute {
			delete(all, leastOf(all))
		}
		sender.Name = name
		change(&sender)
		all[name] = sender
	}
}

func leastOf(all map[string]Sender) string {
	var least Sender
	for _, s := range all {
		if least.Name == "" || s.Steps+s.Blocked < least.Steps+least.Blocked {
			least = s
		}
	}
	return least.Name
}

// Top returns up to limit senders with the most steps in a recent period.
func (t *Senders) Top(by string, since time.Duration, limit int, now time.Time) []Sender {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, last := now.Add(-since).Unix()/60+1, now.Unix()/60
	sums := map[string]Sender{}
	for _, minute := range t.minutes {
		if minute.number < first || minute.number > last {
			continue
		}
		for name, s := range minute.senders[by] {
			sum := sums[name]
			sums[name] = Sender{
				Name: name, Steps: sum.Steps + s.Steps, Refused: sum.Refused + s.Refused, Limited: sum.Limited + s.Limited,
				Blocked: sum.Blocked + s.Blocked, Bytes: sum.Bytes + s.Bytes,
			}
		}
	}
	all := make([]Sender, 0, len(sums))
	for _, sum := range sums {
		all = append(all, sum)
	}
	slices.SortFunc(all, func(a, b Sender) int {
		return cmp.Or(-cmp.Compare(a.Steps, b.Steps), -cmp.Compare(a.Refused+a.Blocked, b.Refused+b.Blocked),
			-cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(limit, len(all))]
}

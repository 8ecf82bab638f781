package federation_test

import (
	"testing"

	"github.com/baton-gateway/baton/federation"
)

// flood fills an inbox with as many entries as each of many senders gets in, one sender after the
// other, and returns how many senders got any in, and how many entries wait then.
func flood(l federation.InboxLimits, size int64) (senders, entries int) {
	var waits federation.InboxUse
	for {
		own := waits
		own.SenderEntries, own.SenderBytes = 0, 0
		for l.Admits(own, size) {
			own = own.Plus(federation.InboxUse{Entries: 1, SenderEntries: 1, Bytes: size, SenderBytes: size})
		}
		if own.SenderEntries == 0 {
			return senders, waits.Entries
		}
		senders, waits = senders+1, own
	}
}

func TestInboxLimitsFillOnlyByManySenders(t *testing.T) {
	limits := federation.InboxLimits{Events: 10_000, Bytes: 64 << 20, EventsPerSender: 1000, BytesPerSender: 64 << 20 / 10}
	for _, tt := range []struct {
		size             int64 // bytes of each entry
		senders, entries int   // at least, and exactly
	}{{1, 250, 10_000}, {2000, 250, 10_000}, {64 << 10, 100, 1024}} {
		senders, entries := flood(limits, tt.size)
		if senders < tt.senders || entries != tt.entries {
			t.Errorf("%d senders fill an inbox with %d entries of %d bytes, want %d senders at least and %d entries", senders, entries, tt.size, tt.senders, tt.entries)
		}
	}
}

func TestInboxLimitsShareOfOneSender(t *testing.T) {
	limits := federation.InboxLimits{Events: 100, Bytes: 10_000, EventsPerSender: 10, BytesPerSender: 1000}
	for name, tt := range map[string]struct {
		limits federation.InboxLimits
		waits  federation.InboxUse
		size   int64
		want   bool
	}{
		"is whole in an empty inbox":                 {limits, federation.InboxUse{Entries: 9, SenderEntries: 9}, 1, true},
		"has an end":                                 {limits, federation.InboxUse{Entries: 10, SenderEntries: 10}, 1, false},
		"is whole while half is free":                {limits, federation.InboxUse{Entries: 59, SenderEntries: 9}, 1, true},
		"shrinks after that":                         {limits, federation.InboxUse{Entries: 69, SenderEntries: 9}, 1, false},
		"goes down with the square of what is free":  {limits, federation.InboxUse{Entries: 77, SenderEntries: 2}, 1, true},
		"is a quarter when a quarter is free":        {limits, federation.InboxUse{Entries: 78, SenderEntries: 3}, 1, false},
		"leaves room for the first entry":            {limits, federation.InboxUse{Entries: 99}, 1, true},
		"does not make a full inbox larger":          {limits, federation.InboxUse{Entries: 100}, 1, false},
		"has bytes":                                  {limits, federation.InboxUse{Entries: 1, SenderEntries: 1, Bytes: 900, SenderBytes: 900}, 100, true},
		"of bytes has an end":                        {limits, federation.InboxUse{Entries: 1, SenderEntries: 1, Bytes: 900, SenderBytes: 900}, 101, false},
		"of bytes shrinks too":                       {limits, federation.InboxUse{Entries: 2, SenderEntries: 1, Bytes: 9900, SenderBytes: 900}, 1, false},
		"of bytes has room for a large first entry":  {limits, federation.InboxUse{Entries: 1, Bytes: 7500}, 2500, true},
		"of bytes does not make a full inbox larger": {limits, federation.InboxUse{Entries: 1, Bytes: 7500}, 2501, false},
		"of 0 is no limit":                           {federation.InboxLimits{Events: 100, Bytes: 100}, federation.InboxUse{Entries: 99, SenderEntries: 99, SenderBytes: 99, Bytes: 99}, 1, true},
		"without a limit of the inbox stays whole":   {federation.InboxLimits{EventsPerSender: 5}, federation.InboxUse{Entries: 1000, SenderEntries: 4}, 1, true},
		"without a limit of the inbox has an end":    {federation.InboxLimits{EventsPerSender: 5}, federation.InboxUse{Entries: 1000, SenderEntries: 5}, 1, false},
		"without any limit":                          {federation.InboxLimits{}, federation.InboxUse{Entries: 1 << 30, SenderEntries: 1 << 30, Bytes: 1 << 40}, 1 << 40, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.limits.Admits(tt.waits, tt.size); got != tt.want {
				t.Errorf("Admits(%+v, %d) = %v, want %v", tt.waits, tt.size, got, tt.want)
			}
		})
	}
}

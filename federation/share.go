package federation

import "math"

// InboxLimits bounds what waits in one inbox, or in one list of first contacts. A limit of
// zero is none.
type InboxLimits struct {
	Events          int   // of all senders
	Bytes           int64 // of all senders
	EventsPerSender int   // the share of one sender
	BytesPerSender  int64 // the share of one sender
}

// InboxUse is what waits in one inbox: of all senders, and of the one that sends now.
type InboxUse struct {
	Entries, SenderEntries int
	Bytes, SenderBytes     int64
}

// Plus returns the sum of what waits in two places for the same recipient, of the same
// sender.
func (u InboxUse) Plus(v InboxUse) InboxUse {
	return InboxUse{
		Entries: u.Entries + v.Entries, SenderEntries: u.SenderEntries + v.SenderEntries,
		Bytes: u.Bytes + v.Bytes, SenderBytes: u.SenderBytes + v.SenderBytes,
	}
}

// Free is how much more one sender may send to one inbox.
type Free struct {
	Entries int
	Bytes   int64
}

// Admits reports whether one more entry of a size fits, for its sender and for the inbox.
func (l InboxLimits) Admits(u InboxUse, size int64) bool {
	whole, share := l.Free(u)
	return whole.Admits(size) && share.Admits(size)
}

// Admits reports whether one more entry of a size fits.
func (f Free) Admits(size int64) bool { return f.Entries > 0 && f.Bytes >= size }

// Less returns what is left after one more entry of a size.
func (f Free) Less(size int64) Free { return Free{Entries: f.Entries - 1, Bytes: f.Bytes - size} }

// Free returns how much more fits into an inbox, and how much of that its sender may use.
//
// Nothing that was acknowledged is dropped to make room, so a full inbox would lock out
// each new sender. Therefore the share of a sender shrinks while the inbox fills: it is
// whole while the other senders use at most half of the inbox, and then goes down with the
// square of what they leave free. The heaviest senders are refused first. The first entry
// of a sender needs no share: it fits until the inbox itself is full, which with the
// default limits takes more than 250 senders.
func (l InboxLimits) Free(u InboxUse) (whole, share Free) {
	whole = Free{Entries: math.MaxInt, Bytes: math.MaxInt64}
	if l.Events > 0 {
		whole.Entries = l.Events - u.Entries
	}
	if l.Bytes > 0 {
		whole.Bytes = l.Bytes - u.Bytes
	}
	share = Free{Entries: math.MaxInt, Bytes: math.MaxInt64}
	if l.EventsPerSender > 0 {
		others := int64(u.Entries - u.SenderEntries)
		share.Entries = int(shareOf(int64(l.EventsPerSender), int64(l.Events), others)) - u.SenderEntries
	}
	if l.BytesPerSender > 0 && u.SenderEntries > 0 {
		share.Bytes = shareOf(l.BytesPerSender, l.Bytes, u.Bytes-u.SenderBytes) - u.SenderBytes
	}
	return whole, share
}

// CheckFirstContact rejects one more message to a recipient that has not consented to its sender,
// if the recipient's list or the sender's share is full. A full list still admits the message if
// another entry yields its place.
func (l InboxLimits) CheckFirstContact(held InboxUse, yields bool) error {
	whole, share := l.Free(held)
	switch {
	case !whole.Admits(0) && !yields:
		return &RefusalError{Code: InboxFull, Detail: "it has not answered those that wrote to it first"}
	case !share.Admits(0):
		return &RefusalError{Code: InboxFull, Detail: "it has not consented to you yet, and no more of your messages are held"}
	}
	return nil
}

// Heaviest returns the source with the largest share, and whether it yields a place to the source
// other. It does if the share of other then stays below the largest, so that two sources never take
// a place from each other in turn.
func Heaviest(shares map[string]int, other string) (source string, yields bool) {
	largest := 0
	for each, n := range shares {
		if n > largest || n == largest && each > source {
			source, largest = each, n
		}
	}
	return source, shares[other]+1 < largest
}

// shareOf returns the share of one sender in an inbox of a size of which other senders use
// a part. It is at least 1.
func shareOf(share, size, others int64) int64 {
	if size <= 0 || others <= size/2 {
		return share
	}
	free := 2 * float64(size-others) / float64(size)
	return max(1, int64(math.Ceil(float64(share)*free*free)))
}

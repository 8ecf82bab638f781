package inbox_test

import (
	"errors"
	"testing"

	"baton/federation"
	"baton/federation/federationtest"
	"baton/federation/inbox"
	"baton/federation/store/storetest"
)

// fill returns a mailbox over a record in which a person was offered n handoffs.
func fill(t *testing.T, to federation.DID, n int) inbox.Mailbox {
	t.Helper()
	record := storetest.Open(t)
	for i := range n {
		offer := federationtest.Offer(i+1, federationtest.Person("alice"), to)
		if _, err := record.Append(t.Context(), federationtest.File(offer, federation.View{})); err != nil {
			t.Fatal(err)
		}
	}
	return inbox.Mailbox{Inboxes: record, Leases: record, Devices: record}
}

func TestReplayYieldsAllThatArrivedInOrder(t *testing.T) {
	bob := federationtest.Person("bob")
	const n = 600 // more than two pages of the record
	mailbox := fill(t, bob, n)
	var read []federation.Entry
	for entry, err := range mailbox.Replay(t.Context(), bob, "") {
		if err != nil {
			t.Fatal(err)
		}
		if want := federationtest.ID(len(read) + 1); entry.Event.ID != want {
			t.Fatalf("entry %d is %s, want %s", len(read), entry.Event.ID, want)
		}
		read = append(read, entry)
	}
	if len(read) != n {
		t.Errorf("%d entries, want %d", len(read), n)
	}
	for entry, err := range mailbox.Replay(t.Context(), bob, read[n-2].Cursor) {
		if err != nil || entry.Event.ID != read[n-1].Event.ID {
			t.Errorf("after the last but one came %s, %v", entry.Event.ID, err)
		}
	}
}

func TestReplayMayBeLeftEarly(t *testing.T) {
	bob := federationtest.Person("bob")
	for range fill(t, bob, 3).Replay(t.Context(), bob, "") {
		break
	}
}

func TestReplayFromACursorThatWasNeverGivenOut(t *testing.T) {
	bob := federationtest.Person("bob")
	var got error
	for _, err := range fill(t, bob, 1).Replay(t.Context(), bob, "elsewhere") {
		got = err
	}
	if !errors.Is(got, federation.ErrUnknownCursor) {
		t.Errorf("error %v, want ErrUnknownCursor", got)
	}
}

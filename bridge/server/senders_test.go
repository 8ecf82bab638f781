package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/federation"
)

func counted(did, address, link string, size int) federation.Event {
	return federation.Event{
		From: federation.DID(did), Signature: federation.Signature{Document: string(make([]byte, size))},
		Arrival: federation.Arrival{Address: address, Link: link},
	}
}

func TestTopSendersListsTheMostSteps(t *testing.T) {
	t.Parallel()
	var senders server.Senders
	now := time.Unix(60*1000, 0)
	full := &federation.RefusalError{Code: federation.RateLimited}
	senders.Note(counted("did:a", "192.0.2.1/32", "client", 10), federation.Valid, nil, now)
	senders.Note(counted("did:a", "192.0.2.1/32", "client", 10), federation.Valid, full, now.Add(-9*time.Minute))
	senders.Note(counted("did:b", "192.0.2.1/32", "client", 5), federation.Valid, nil, now.Add(-9*time.Minute))
	senders.Note(counted("did:b", "", "lab", 5), federation.Valid, nil, now.Add(-30*time.Minute))
	senders.Note(counted("did:a", "", "lab", 1), federation.Unverifiable, full, now)
	senders.Note(counted("did:a", "", "lab", 1), federation.Valid, &federation.UnavailableError{}, now)
	for name, test := range map[string]struct {
		by    string
		since time.Duration
		limit int
		want  []server.Sender
	}{
		"by did": {server.ByDID, 10 * time.Minute, 50, []server.Sender{
			{Name: "did:a", Steps: 2, Refused: 1, Limited: 1, Bytes: 20}, {Name: "(unproved)", Steps: 1, Refused: 1, Limited: 1, Bytes: 1}, {Name: "did:b", Steps: 1, Bytes: 5},
		}},
		"in an hour": {server.ByDID, time.Hour, 2, []server.Sender{
			{Name: "did:a", Steps: 2, Refused: 1, Limited: 1, Bytes: 20}, {Name: "did:b", Steps: 2, Bytes: 10},
		}},
		"by address": {server.ByAddress, 10 * time.Minute, 50, []server.Sender{{Name: "192.0.2.1/32", Steps: 3, Refused: 1, Limited: 1, Bytes: 25}}},
		"by link": {server.ByLink, 10 * time.Minute, 50, []server.Sender{
			{Name: "client", Steps: 3, Refused: 1, Limited: 1, Bytes: 25}, {Name: "lab", Steps: 1, Refused: 1, Limited: 1, Bytes: 1},
		}},
	} {
		if diff := cmp.Diff(test.want, senders.Top(test.by, test.since, test.limit, now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTopSendersSurvivesAFlood(t *testing.T) {
	t.Parallel()
	var senders server.Senders
	now := time.Unix(60*1000, 0)
	for n := range 20_000 {
		senders.Note(counted(fmt.Sprintf("did:sybil:%d", n), "192.0.2.1/32", "client", 1), federation.Valid, nil, now)
		if n%10 == 0 {
			senders.Note(counted("did:heavy", "192.0.2.2/32", "client", 1), federation.Valid, nil, now)
		}
	}
	all := senders.Top(server.ByDID, time.Minute, 10_000, now)
	if len(all) > 256 {
		t.Errorf("%d senders are remembered of one minute, want 256 at most", len(all))
	}
	if all[0].Name != "did:heavy" || all[0].Steps < 1900 {
		t.Errorf("the heaviest sender is %+v, want did:heavy with about 2000 steps", all[0])
	}
	if again := senders.Top(server.ByDID, time.Hour, 10, now.Add(2*time.Hour)); len(again) > 0 {
		t.Errorf("after two hours there is %+v", again)
	}
}

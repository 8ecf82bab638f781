package client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
)

// say files offers as they are written at a place, each a second after the one before.
func (h *house) say(t *testing.T, p federation.ChannelRef, offers ...federation.Event) {
	t.Helper()
	for _, ev := range offers {
		ev.Venue = p.Venue
		f := federationtest.File(ev, federation.View{})
		f.View.Venue, f.View.Link, f.Inboxes = p.Venue, p.Link, nil
		if _, err := h.record.Append(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
}

// offers returns offers of one to another with these numbers.
func offers(from, to federation.DID, numbers ...int) []federation.Event {
	var all []federation.Event
	for _, n := range numbers {
		all = append(all, federationtest.Offer(n, from, to))
	}
	return all
}

const bob = federation.DID("did:plc:bob000000000000000000000")

// login logs ada in, in the words of a scene.
var login = loginAs("ada", ada)

// loginAs logs a client in as a DID, in the words of a scene.
func loginAs(name string, did federation.DID) string {
	return strings.ReplaceAll(`
			WHO > CAP REQ :draft/chathistory draft/event-playback freeq.at/handoff message-tags batch
			WHO < *ACK*
			WHO > AUTHENTICATE ATPROTO-CHALLENGE
			WHO < AUTHENTICATE *
			WHO > `+answerTo(string(did), "signed by "+string(did))+`
			WHO < *900*
			WHO < *903*
			WHO > CAP END
			WHO joins`, "WHO", name)
}

func TestHistoryAnswersQueries(t *testing.T) {
	t.Parallel()
	const joined = `
			bob joins draft/chathistory batch message-tags standard-replies
			bob > JOIN #ops
			bob < *JOIN*
			bob < *353*
			bob < *366*`
	for name, scene := range map[string]string{
		"the newest, as lines for people": joined + `
			bob > CAP REQ server-time
			bob < *ACK*
			bob > CHATHISTORY LATEST #ops * 2
			bob < @time=* :gw.example BATCH +* chathistory #ops
			bob < @*time=2026-11-21T12:00:03.000Z* :* NOTICE #ops :(handoff * offers *Review patch 3*
			bob < @*msgid=msg-4.line* NOTICE #ops :*Review patch 4*
			bob < *BATCH -*`,
		"before and after a moment, without it": joined + `
			bob > CHATHISTORY BEFORE #OPS timestamp=2026-11-21T12:00:03.000Z 1
			bob < *BATCH +*
			bob < *Review patch 2*
			bob < *BATCH -*
			bob > CHATHISTORY AFTER #ops timestamp=2026-11-21T12:00:02.000Z 1
			bob < *BATCH +*
			bob < *Review patch 3*
			bob < *BATCH -*
			bob > CHATHISTORY LATEST #ops timestamp=2026-11-21T12:00:04.000Z 10
			bob < *BATCH +*
			bob < *BATCH -*`,
		"before and after a message, and its line": joined + `
			bob > CHATHISTORY AFTER #ops msgid=msg-3 10
			bob < *BATCH +*
			bob < *Review patch 4*
			bob < *BATCH -*
			bob > CHATHISTORY BEFORE #ops msgid=msg-2.line 10
			bob < *BATCH +*
			bob < *Review patch 1*
			bob < *BATCH -*
			bob > CHATHISTORY AFTER #ops msgid=` + federationtest.ID(3).String() + ` 10
			bob < *BATCH +*
			bob < *Review patch 4*
			bob < *BATCH -*`,
		"around a message or a moment": joined + `
			bob > CHATHISTORY AROUND #ops msgid=msg-3 3
			bob < *BATCH +*
			bob < *Review patch 2*
			bob < *Review patch 3*
			bob < *Review patch 4*
			bob < *BATCH -*
			bob > CHATHISTORY AROUND #ops timestamp=2026-11-21T12:00:02.000Z 2
			bob < *BATCH +*
			bob < *Review patch 1*
			bob < *Review patch 2*
			bob < *BATCH -*`,
		"between two points, in either direction": joined + `
			bob > CHATHISTORY BETWEEN #ops msgid=msg-1 timestamp=2026-11-21T12:00:04.000Z 1
			bob < *BATCH +*
			bob < *Review patch 2*
			bob < *BATCH -*
			bob > CHATHISTORY BETWEEN #ops timestamp=2026-11-21T12:00:04.000Z msgid=msg-1 1
			bob < *BATCH +*
			bob < *Review patch 3*
			bob < *BATCH -*`,
		"the id of a message that is not kept is a clock": joined + `
			bob > CHATHISTORY AFTER #ops msgid=` + federationtest.ID(1000000).String() + ` 10
			bob < *BATCH +*
			bob < *BATCH -*
			bob > CHATHISTORY AFTER #ops msgid=of-no-form 10
			bob < :gw.example FAIL CHATHISTORY MESSAGE_ERROR AFTER #ops :No message with that id was said there`,
		"an answer has the label of what it answers": `
			bob joins draft/chathistory batch labeled-response
			bob > JOIN #ops
			bob < *JOIN*
			bob < *353*
			bob < *366*
			bob > @label=x CHATHISTORY LATEST #ops * 1
			bob < @label=x :gw.example BATCH +* chathistory #ops
			bob < @batch=* NOTICE #ops *
			bob < :gw.example BATCH -*
			bob > @label=y CHATHISTORY LATEST #ops msgid=msg-4 1
			bob < @label=y :gw.example BATCH +* chathistory #ops
			bob < :gw.example BATCH -*`,
		"who cannot read batches is sent the messages alone": `
			bob joins draft/chathistory
			bob > JOIN #ops
			bob < *JOIN*
			bob < *353*
			bob < *366*
			bob > CHATHISTORY LATEST #ops * 1
			bob < :*NOTICE #ops *Review patch 4*`,
		"only those in a channel look back at it": `
			bob joins draft/chathistory standard-replies
			bob > CHATHISTORY LATEST #ops * 10
			bob < :gw.example FAIL CHATHISTORY INVALID_TARGET LATEST #ops :Messages could not be retrieved
			bob > CHATHISTORY LATEST ada * 10
			bob < :gw.example FAIL CHATHISTORY INVALID_TARGET LATEST ada :*`,
		"what is wrong is told": joined + `
			bob > CHATHISTORY
			bob < :gw.example FAIL CHATHISTORY INVALID_PARAMS * :Insufficient parameters
			bob > CHATHISTORY SOMETIMES #ops * 1
			bob < :gw.example FAIL CHATHISTORY INVALID_PARAMS SOMETIMES :Unknown command
			bob > CHATHISTORY LATEST #ops *
			bob < :gw.example FAIL CHATHISTORY INVALID_PARAMS LATEST :Want 3 parameters
			bob > CHATHISTORY BETWEEN #ops msgid=a 5
			bob < :gw.example FAIL CHATHISTORY INVALID_PARAMS BETWEEN :Want 4 parameters
			bob > CHATHISTORY LATEST #ops * 0
			bob < :gw.example FAIL CHATHISTORY INVALID_PARAMS LATEST :Invalid limit
			bob > CHATHISTORY AFTER #ops * 1
			bob < :gw.example FAIL CHATHISTORY INVALID_MSGREFTYPE AFTER * :*
			bob > CHATHISTORY AFTER #ops msgid= 1
			bob < :gw.example FAIL CHATHISTORY INVALID_MSGREFTYPE AFTER msgid= :*
			bob > CHATHISTORY AFTER #ops timestamp=noon 1
			bob < :gw.example FAIL CHATHISTORY INVALID_PARAMS AFTER :Invalid timestamp
			bob > CHATHISTORY TARGETS msgid=a msgid=b 1
			bob < :gw.example FAIL CHATHISTORY INVALID_MSGREFTYPE TARGETS msgid=a :*`,
		"who did not ask for it does not have the command": `
			bob joins
			bob > CHATHISTORY LATEST #ops * 1
			bob < :gw.example 421 bob CHATHISTORY :Unknown command`,
		"who plays back events is sent the steps themselves, in one's own exchanges too": login + `
			ada > JOIN #ops
			ada < *JOIN*
			ada < *353*
			ada < *366*
			ada > CHATHISTORY LATEST #ops * 1
			ada < *BATCH +* chathistory #ops
			ada < @*+freeq.at/verb=offer* TAGMSG #ops
			ada < *BATCH -*
			ada > CHATHISTORY LATEST ` + string(bob) + ` * 10
			ada < *BATCH +* chathistory ` + string(bob) + `
			ada < @*msgid=msg-5* :*!*@* TAGMSG ada
			ada < @*msgid=msg-6* :ada!*@* TAGMSG ` + string(bob) + `
			ada < *BATCH -*`,
		"targets are where something was said last in between": login + `
			ada > JOIN #ops
			ada < *JOIN*
			ada < *353*
			ada < *366*
			ada > CHATHISTORY TARGETS timestamp=2026-11-21T12:00:00.000Z timestamp=2026-11-21T12:01:00.000Z 10
			ada < *BATCH +* draft/chathistory-targets
			ada < @batch=* CHATHISTORY TARGETS #ops 2026-11-21T12:00:04.000Z
			ada < @batch=* CHATHISTORY TARGETS ` + string(bob) + ` 2026-11-21T12:00:06.000Z
			ada < *BATCH -*
			ada > CHATHISTORY TARGETS timestamp=2026-11-21T12:01:00.000Z timestamp=2026-11-21T12:00:00.000Z 1
			ada < *BATCH +*
			ada < *TARGETS ` + string(bob) + ` *
			ada < *BATCH -*
			ada > CHATHISTORY TARGETS timestamp=2026-11-21T12:00:05.000Z timestamp=2026-11-21T12:00:06.000Z 10
			ada < *BATCH +*
			ada < *BATCH -*`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, testConfig())
			h.say(t, federation.ChannelRef{Venue: "#ops"}, offers(bob, ada, 1, 2, 3, 4)...)
			h.say(t, federation.ChannelRef{Link: "client", Venue: federation.PrivateVenue(ada, bob)}, offers(bob, ada, 5)...)
			h.say(t, federation.ChannelRef{Venue: federation.PrivateVenue(ada, bob)}, offers(ada, bob, 6)...)
			play(t, h, scene)
		})
	}
}

func TestHistoryExcludesAFormerChannelOfThatName(t *testing.T) {
	t.Parallel()
	h := start(t, testConfig())
	room := federation.ChannelRef{Link: "client", Venue: "#room"}
	h.say(t, room, offers(bob, ada, 1)...)
	peers := play(t, h, "alice joins draft/chathistory\nalice > JOIN #room\nalice < *JOIN*\nalice < *353*\nalice < *366*")
	since := offers(bob, ada, 2)
	since[0].Arrival.Received = time.Now()
	h.say(t, room, since...)
	peers["alice"].say(t, "CHATHISTORY LATEST #room * 10")
	if line := peers["alice"].hear(t); !strings.Contains(line, "Review patch 2") {
		t.Errorf("alice hears %q", line)
	}
}

// A client's queue bounds each answer, and the next is not made before it has read the last.
func TestHistoryServesManyQueries(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.SendQueueBytes = 64 << 10
	h := start(t, cfg)
	var long []federation.Event
	for _, ev := range offers(bob, ada, 1, 2, 3, 4, 5, 6, 7, 8) {
		ev.Title = strings.Repeat("x", 300)
		ev.Fields["title"] = strings.Repeat("x", 3000)
		long = append(long, ev)
	}
	h.say(t, federation.ChannelRef{Venue: "#ops"}, long...)
	p := dial(t, h.addr)
	p.say(t, "CAP REQ :draft/chathistory draft/event-playback freeq.at/handoff message-tags", "NICK ada", "USER ada 0 * :x", "CAP END", "JOIN #ops")
	p.until(t, "*CHATHISTORY=5 *")
	p.until(t, "*366*")
	for range 40 {
		p.say(t, "CHATHISTORY LATEST #ops * 100")
	}
	for range 40 * 5 {
		p.until(t, "*TAGMSG #ops")
	}
}

package render_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) admin.Moment { return admin.Moment(now.Add(-d)) }

// lines returns output without the spaces that align its columns.
func lines(out string) []string {
	var all []string
	for line := range strings.Lines(out) {
		all = append(all, strings.Join(strings.Fields(line), " "))
	}
	return all
}

func TestTableHasAHeaderAndALineForEachItem(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := render.Links.Print(&out, true, now, admin.Link{
		Name: "lab", Network: "spanningtree", State: "up", LastHeard: ago(3 * time.Second), Oldest: ago(90 * time.Minute), Waiting: 2,
		NextDial: admin.Moment(now.Add(5 * time.Second)),
	})
	want := []string{"NAME NETWORK STATE HEARD WAITING OLDEST NEXT LAST ERROR", "lab spanningtree up 3s 2 1h30m 5s -"}
	if diff := cmp.Diff(want, lines(out.String())); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestTextHasNoControlCharacters(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	letter := admin.DeadLetter{ID: 7, Link: "lab", LastError: "\x1b[31mred\nnext\tcell"}
	if err := render.DeadLetter(&out, letter); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\t") || !strings.Contains(out.String(), "?[31mred?next?cell\n") {
		t.Errorf("printed %q", out.String())
	}
}

func TestExplanationNamesTheNextAction(t *testing.T) {
	t.Parallel()
	at := admin.Moment(now.Add(time.Minute))
	for want, next := range map[string]admin.Next{
		"judge it again at 2026-11-23T12:01:00.000Z, in 1m0s, tried 2 times, last error: no key":    {What: admin.Judgement, Time: at, Attempts: 2, LastError: "no key"},
		"expire by the home at 2026-11-23T12:01:00.000Z, in 1m0s, where the deadline clock ends":    {What: "expire", Time: at, Clock: "deadline"},
		"deliver over lab to #dev, tried 1 times, the link is up, tried again in 1m0s":              {What: "deliver", Via: "lab", Who: "#dev", Attempts: 1, LinkState: string(bridge.LinkUp), Time: at},
		"deliver over lab to #dev, tried 1 times, the link is down, dials in 1m0s, last error: EOF": {What: "deliver", Via: "lab", Who: "#dev", Attempts: 1, LinkState: string(bridge.LinkDown), Time: at, LastError: "EOF"},
		"deliver over airc to scout, once the agent consents to messages from the sender":           {What: "deliver", Via: "airc", Who: "scout"},
		"it is in the inbox of did:key:z6MkA, and delivered once they read it there":                {What: "deliver", Via: "inbox", Who: "did:key:z6MkA"},
	} {
		var out strings.Builder
		if err := render.Explanation(&out, admin.Explanation{Next: []admin.Next{next}}, now); err != nil {
			t.Fatal(err)
		}
		if got := lines(out.String()); got[len(got)-1] != "next "+want {
			t.Errorf("got %q, want %q", got[len(got)-1], want)
		}
	}
}

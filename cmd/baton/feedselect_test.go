package main_test

import (
	"testing"

	"github.com/baton-gateway/baton/translate"
)

// Commands settle all deliveries to a link, and all dead letters with one cause.
func TestFeedAndDeadSelectByLinkAndCause(t *testing.T) {
	t.Parallel()
	h, address := newHouseWithALinkAway(t)
	ircd, alice := dialIn(t, address), newKey(t)
	for range 3 {
		ev := sealOffer(t, alice, "")
		ircd.Tagmsg("alice", "#ops", translate.Wire(ev, map[string]string{"from": string(ev.From)}))
		await(t, "the offer to wait for the other link", func() bool { return h.waitsFor(t, "away", ev.ID) })
	}
	first := func() string {
		var list struct{ Items []struct{ ID string } }
		h.asks(t, &list, "feed", "list", "--link", "away")
		return list.Items[0].ID
	}()
	for _, step := range []struct {
		want int
		args []string
	}{
		{3, []string{"feed", "retry", "--link", "away", "--dry-run"}},
		{3, []string{"feed", "retry", "--link", "away", "--reason", "they are back"}},
		{1, []string{"feed", "fail", first, "--link", "away"}},
		{0, []string{"dead", "replay", "--cause", "expired"}},
		{1, []string{"dead", "drop", "--cause", "operator", "--dry-run"}},
		{1, []string{"dead", "replay", "--cause", "operator", "--reason", "a mistake"}},
		{3, []string{"feed", "fail", "--link", "away"}},
		{3, []string{"dead", "drop", "--cause", "operator", "--yes"}},
		{0, []string{"dead", "drop", "--cause", "operator", "--yes"}},
	} {
		var acted struct{ Changed int }
		if h.asks(t, &acted, step.args...); acted.Changed != step.want {
			t.Errorf("baton %v changes %d, want %d", step.args, acted.Changed, step.want)
		}
	}
	for _, args := range [][]string{
		{"feed", "retry"}, {"feed", "retry", "all"}, {"dead", "replay"}, {"dead", "replay", "--cause", "bad luck"}, {"dead", "replay", "1", "--cause", "operator"},
	} {
		if out, err := h.command(t, args...).CombinedOutput(); err == nil {
			t.Errorf("baton %v is allowed: %s", args, out)
		}
	}
}

package main_test

import "testing"

// linkState returns the state of a link of a gateway.
func (h *house) linkState(t *testing.T, name string) string {
	t.Helper()
	var link struct{ State string }
	h.asks(t, &link, "link", "show", name)
	return link.State
}

func TestLinkDisconnectLastsUntilConnect(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	var done struct{ Changed int }
	v.asks(t, &done, "link", "down", "lab", "--dry-run")
	if got := v.linkState(t, "lab"); got != "up" || done.Changed != 1 {
		t.Fatalf("after a dry run the link is %s, changed %d", got, done.Changed)
	}
	v.asks(t, &done, "link", "down", "lab", "--reason", "their server moves")
	if got := v.linkState(t, "lab"); got != "down" {
		t.Fatalf("the link is %s", got)
	}
	v.asks(t, &done, "link", "down", "lab", "--reason", "again")
	if done.Changed != 0 {
		t.Errorf("a second time changes %d", done.Changed)
	}
	var filed struct{ ID string }
	v.asks(t, &filed, "handoff", "offer", "--from", ann, "--open", "--channel", "#ops", "--title", "Wait for it")
	if got := v.linkState(t, "lab"); got != "down" {
		t.Errorf("a step has the link %s", got)
	}
	v.asks(t, &done, "link", "up", "lab", "--reason", "it has moved")
	await(t, "the link to be up", func() bool { return v.linkState(t, "lab") == "up" })
	v.sees(t, "the offer that waited", isStep("offer", filed.ID))
	v.asks(t, &done, "link", "dial", "lab", "--reason", "for nothing")
	if done.Changed != 0 {
		t.Errorf("dialling a link that is up changes %d", done.Changed)
	}
}

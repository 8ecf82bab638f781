package main_test

import (
	"strings"
	"testing"
)

// holdNamed has the commands that name a held link, with the text that each prints of it.
func holdNamed(handoff, event string) map[string][]string {
	const held, remedy = "held by an operator since 20", "baton feed release lab --reason TEXT"
	return map[string][]string{
		"link list":               {"up (held)", held, "their server moves", remedy},
		"link show lab":           {held, "their server moves", remedy},
		"handoff show " + handoff: {"waiting lab", held, "their server moves", remedy},
		"explain " + event:        {held, "their server moves", remedy},
		"feed shape":              {"held their server moves"},
		"doctor":                  {"warn hold lab: nothing is delivered to it: an operator holds it for ", "(their server moves); baton feed release lab --reason done"},
	}
}

func TestHeldLinkIsNamedWithItsRemedy(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	v.asks(t, &struct{}{}, "feed", "hold", "lab", "--reason", "their server moves")
	var filed struct {
		ID    string `json:"id"`
		Event string `json:"event_id"`
	}
	v.asks(t, &filed, "handoff", "offer", "--from", ann, "--open", "--channel", "#ops", "--title", "Translate the abstract")
	for command, texts := range holdNamed(filed.ID, filed.Event) {
		out, _ := v.plain(t, strings.Fields(command)...).Output() // the doctor of a gateway on loopback ends with 1
		for _, text := range texts {
			if !strings.Contains(string(out), text) {
				t.Errorf("%s prints no %q:\n%s", command, text, out)
			}
		}
	}
	if _, text := v.ask(t, "/metrics"); !strings.Contains(text, `baton_held_seconds{destination="lab"} `) {
		t.Error("no metric has the hold")
	}
	found, _ := v.examined(t)
	checkRemedies(t, found)
	_, remedy, _ := strings.Cut(found["hold lab"], "; baton ")
	if out, err := v.plain(t, strings.Fields(remedy)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", remedy, err, out)
	}
	v.sees(t, "the offer that waited", isStep("offer", filed.ID))
	if found, _ = v.examined(t); found["hold lab"] != "" {
		t.Errorf("after the remedy the doctor says %q", found["hold lab"])
	}
}

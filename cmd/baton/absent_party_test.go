package main_test

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

const ops = "#ops"

// absentParty is a gateway linked to a network on which alice offered work to a worker elsewhere.
type absentParty struct {
	*house

	lab    *bridgetest.IRCd
	worker federation.DID
	offer  federation.Event
}

func newAbsentParty(t *testing.T) *absentParty {
	t.Helper()
	alice, worker := newKey(t), newKey(t)
	a := &absentParty{house: newHouse(t), worker: worker.DID}
	a.keep(t, "lab.secret", "planted-secret")
	lab, err := bridgetest.ListenIRCd(t.Context(), bridgetest.IRCdConfig{
		Name: "irc.test", SID: "1LA", LinkName: "gw.test", SendPassword: "planted-secret", RecvPassword: "planted-secret",
		Users: []string{"alice"}, Channels: []string{ops},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lab.Close)
	a.lab, a.offer = lab, sealOffer(t, alice, worker.DID)
	a.configure(t, fmt.Sprintf(`[[irc.spanningtree]]
name = "lab"
server_name = "irc.test"
address = %q
sid = "9GW"
send_password_file = "lab.secret"
recv_password_file = "lab.secret"
channels = [%q]
[[bindings]]
network = "airc"
name = "worker"
did = %q
vouch = true
`, lab.Addr(), ops, worker.DID))
	a.start(t)
	a.ready(t)
	a.lab.Tagmsg("alice", ops, translate.Wire(a.offer, map[string]string{"from": string(alice.DID)}))
	a.states(t, a.offer.ID.String(), "offer delivered")
	return a
}

// does takes a step of the worker.
func (a *absentParty) does(t *testing.T, verb string) {
	t.Helper()
	var filed struct{ State string }
	a.asks(t, &filed, "handoff", verb, a.offer.ID.String(), "--from", string(a.worker), "--note", "I "+verb)
}

// states waits until the deliveries of a handoff to the channel have the wanted states.
func (a *absentParty) states(t *testing.T, id string, want ...string) {
	t.Helper()
	await(t, "the steps to be "+strings.Join(want, ", "), func() bool {
		shown, err := a.operator.Handoff(t.Context(), id)
		var got []string
		for _, step := range shown.Steps {
			for _, d := range step.Delivered {
				if d.Via == "lab" {
					got = append(got, string(step.Verb)+" "+string(d.State))
				}
			}
		}
		return err == nil && gocmp.Equal(got, want)
	})
}

// stepsTo returns the handoff messages to a target and their lines, each as its command and verb.
func stepsTo(all []bridgetest.IRCMessage, target string) (steps []string) {
	for _, m := range all {
		if len(m.Params) == 0 || !strings.EqualFold(m.Params[0], target) {
			continue
		}
		switch m.Command {
		case "TAGMSG":
			if verb := cmp.Or(m.Tags["+freeq.at/act-verb"], m.Tags["+freeq.at/handoff"]); verb != "confirm" {
				steps = append(steps, "TAGMSG "+verb)
			}
		case "NOTICE":
			for verb, words := range map[string]string{"accept": " accepts: ", "complete": " completes: ", "offer": " offers anyone: "} {
				if strings.Contains(m.Params[1], words) {
					steps = append(steps, "NOTICE "+verb)
				}
			}
		}
	}
	return steps
}

// awaitsWaiting waits until that many steps of a handoff are logged as waiting for their reader.
func (a *absentParty) awaitsWaiting(t *testing.T, id string, steps int) {
	t.Helper()
	waits := regexp.MustCompile(`"delivery waits".*"event_id":"(\w+)","handoff_id":"` + id + `".*no recipient is there`)
	await(t, "the steps to wait for their reader", func() bool {
		found := map[string]bool{}
		for _, match := range waits.FindAllStringSubmatch(a.told(t), -1) {
			found[match[1]] = true
		}
		return len(found) == steps
	})
}

func TestStepReachesPartyOutsideItsChannel(t *testing.T) {
	t.Parallel()
	accepted := []string{"TAGMSG accept", "NOTICE accept"}
	completed := []string{"TAGMSG complete", "NOTICE complete"}
	t.Run("that reads the channel", func(t *testing.T) {
		t.Parallel()
		a := newAbsentParty(t)
		a.does(t, "accept")
		a.states(t, a.offer.ID.String(), "offer delivered", "accept delivered")
		all := a.lab.Received()
		if private := stepsTo(all, a.lab.UUID("alice")); len(private) != 0 {
			t.Errorf("alice reads %q in private", private)
		}
		if diff := gocmp.Diff(accepted, stepsTo(all, ops)); diff != "" {
			t.Errorf("the channel reads (-want +got):\n%s", diff)
		}
	})
	t.Run("that left the channel", func(t *testing.T) {
		t.Parallel()
		a := newAbsentParty(t)
		a.lab.Leave("alice", ops)
		a.does(t, "accept")
		a.states(t, a.offer.ID.String(), "offer delivered", "accept delivered")
		if diff := gocmp.Diff(accepted, stepsTo(a.lab.Received(), a.lab.UUID("alice"))); diff != "" {
			t.Errorf("alice reads (-want +got):\n%s", diff)
		}
	})
	t.Run("that left the network as the last of the channel", func(t *testing.T) {
		t.Parallel()
		a := newAbsentParty(t)
		a.lab.Quit("alice")
		a.does(t, "accept")
		a.awaitsWaiting(t, a.offer.ID.String(), 1)
		a.states(t, a.offer.ID.String(), "offer delivered", "accept waiting")
		a.lab.Connect("alice")
		a.states(t, a.offer.ID.String(), "offer delivered", "accept delivered")
		if diff := gocmp.Diff(accepted, stepsTo(a.lab.Received(), a.lab.UUID("alice"))); diff != "" {
			t.Errorf("alice reads (-want +got):\n%s", diff)
		}
	})
	t.Run("that is away over a restart", func(t *testing.T) {
		t.Parallel()
		a := newAbsentParty(t)
		a.lab.Quit("alice")
		a.does(t, "accept")
		a.awaitsWaiting(t, a.offer.ID.String(), 1)
		a.kill(t)
		a.start(t)
		a.ready(t)
		a.states(t, a.offer.ID.String(), "offer delivered", "accept waiting")
		a.lab.Connect("alice")
		a.lab.Enter("alice", ops)
		a.states(t, a.offer.ID.String(), "offer delivered", "accept delivered")
		if diff := gocmp.Diff(accepted, stepsTo(a.lab.Received(), a.lab.UUID("alice"))); diff != "" {
			t.Errorf("alice reads (-want +got):\n%s", diff)
		}
	})
	t.Run("that is away while others read the channel", func(t *testing.T) {
		t.Parallel()
		a := newAbsentParty(t)
		a.lab.Connect("carol")
		a.lab.Enter("carol", ops)
		a.lab.Quit("alice")
		a.does(t, "accept")
		a.does(t, "complete")
		a.awaitsWaiting(t, a.offer.ID.String(), 2)
		a.states(t, a.offer.ID.String(), "offer delivered", "accept waiting", "complete waiting")
		a.lab.Connect("alice")
		a.states(t, a.offer.ID.String(), "offer delivered", "accept delivered", "complete delivered")
		want := append(append([]string{}, accepted...), completed...)
		all := a.lab.Received()
		if diff := gocmp.Diff(want, stepsTo(all, a.lab.UUID("alice"))); diff != "" {
			t.Errorf("alice reads (-want +got):\n%s", diff)
		}
		if diff := gocmp.Diff(want, stepsTo(all, ops)); diff != "" {
			t.Errorf("the channel reads (-want +got):\n%s", diff)
		}
	})
	t.Run("and a member of it for an offer to anyone", func(t *testing.T) {
		t.Parallel()
		a := newAbsentParty(t)
		a.lab.Quit("alice")
		var filed struct{ ID string }
		a.asks(t, &filed, "handoff", "offer", "--from", string(a.worker), "--open", "--channel", ops, "--title", "Who can?")
		a.awaitsWaiting(t, filed.ID, 1)
		a.states(t, filed.ID, "offer waiting")
		a.lab.Connect("carol")
		a.lab.Enter("carol", ops)
		a.states(t, filed.ID, "offer delivered")
		if diff := gocmp.Diff([]string{"TAGMSG offer", "NOTICE offer"}, stepsTo(a.lab.Received(), ops)); diff != "" {
			t.Errorf("carol reads (-want +got):\n%s", diff)
		}
	})
}

package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"
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

// A running gateway names the URL and the cause of a hub that it does not reach: once in the log, by doctor and
// by relay check.
func TestDoctorNamesTheCauseThatKeepsAHubAway(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	for name, test := range map[string]struct {
		hub  func(h *house) string // its table
		want []string
	}{
		"a port without a server": {
			func(*house) string { return hubTable(strings.Replace(closed.URL, "http:", "nats:", 1)) },
			[]string{"nats://127.0.0.1:", "connect: connection refused"},
		},
		"a server of another protocol": {
			func(*house) string { return hubTable(strings.Replace(web.URL, "http:", "nats:", 1)) },
			[]string{"nats://127.0.0.1:", "the server is not a NATS server"},
		},
		"TLS against plain text": {
			func(*house) string {
				return hubTable(strings.Replace(startHub(t).ClientURL(), "nats:", "tls:", 1))
			},
			[]string{"tls://127.0.0.1:", "the server speaks plain text; use nats:// in urls"},
		},
		"the seed of another hub": {
			func(h *house) string {
				table := accountsHub(t, []neighbour{{house: h, name: "gw.test"}, {house: h, name: "b.test"}})
				pair, err := nkeys.CreateUser()
				if err != nil {
					t.Fatal(err)
				}
				seed, err := pair.Seed()
				if err != nil {
					t.Fatal(err)
				}
				h.keep(t, "hub.nk", string(seed))
				return table
			},
			[]string{"nats://127.0.0.1:", "Authorization Violation: the server refuses the seed of nkey_file"},
		},
		"a name without an address": {
			func(*house) string { return hubTable("nats://hub.invalid:4222") },
			[]string{"nats://hub.invalid:4222: ", "lookup hub.invalid"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.configure(t, test.hub(h))
			h.start(t)
			await(t, "the cause in the log", func() bool { return strings.Contains(h.told(t), "hub not connected") })
			found, _ := h.examined(t)
			checkRemedies(t, found)
			checked, _ := h.plain(t, "relay", "check").Output()
			for _, want := range test.want {
				for where, text := range map[string]string{"doctor": found["relay"], "relay check": string(checked), "the log": h.told(t)} {
					if !strings.Contains(text, want) {
						t.Errorf("%s has no %q: %s", where, want, text)
					}
				}
			}
			if n := strings.Count(h.told(t), "hub not connected"); n != 1 {
				t.Errorf("the log has the cause %d times", n)
			}
		})
	}
}

func hubTable(address string) string { return fmt.Sprintf("[relay.hub]\nurls = [%q]\n", address) }

// A refused login has its reason in explain and, once, in the log; a login of the DID ends it.
func TestExplainNamesTheReasonOfARefusedLogin(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.start(t)
	h.ready(t)
	scout, other := newOwner(t), newOwner(t)
	explained := func() string {
		out, err := h.plain(t, "explain", "did", string(scout.did)).CombinedOutput()
		if err != nil {
			t.Fatalf("explain did: %v: %s", err, out)
		}
		return string(out)
	}
	if got := explained(); strings.Contains(got, "refused") {
		t.Errorf("before a login it says %s", got)
	}
	forged := other
	forged.did = scout.did
	login := signIn()["rest"]
	for range 2 {
		if status, _ := login(t, h, forged); status != http.StatusUnauthorized {
			t.Fatalf("a signature by another key is answered %d", status)
		}
	}
	const why = "the signature is not by a key in its document"
	if got := explained(); !strings.Contains(got, "login refused") || !strings.Contains(got, why) {
		t.Errorf("it says %s", got)
	}
	if log := h.told(t); strings.Count(log, `"login refused"`) != 1 || !strings.Contains(log, why) {
		t.Errorf("the log says %s", log)
	}
	if status, _ := login(t, h, scout); status != http.StatusOK {
		t.Fatalf("the login is answered %d", status)
	}
	if got := explained(); strings.Contains(got, "refused") {
		t.Errorf("after a login it says %s", got)
	}
}

// A held webhook and a held registry are named in place of a link.
func TestHeldWebhookAndRegistryAreNamedWithTheirRemedy(t *testing.T) {
	t.Parallel()
	named := func(t *testing.T, n neighbour, to, event string) {
		t.Helper()
		for _, command := range [][]string{{"explain", event}, {"handoff", "show", event}, {"doctor"}} {
			out, _ := n.plain(t, command...).Output() // the doctor of a gateway on loopback ends with 1
			remedy := "baton feed release " + to + " --reason TEXT"
			if command[0] == "doctor" {
				remedy = "baton feed release " + to + " --reason done"
			}
			for _, want := range []string{"their server moves", remedy} {
				if !strings.Contains(string(out), want) {
					t.Errorf("%v prints no %q:\n%s", command, want, out)
				}
			}
		}
		n.must(t, "feed", "release", to, "--reason", "done")
		if out := n.must(t, "explain", event); strings.Contains(out, "held by") {
			t.Errorf("after the remedy explain prints %s", out)
		}
	}
	t.Run("webhook", func(t *testing.T) {
		t.Parallel()
		n := neighbour{newHouse(t), "gw.test"}
		d := destinations()["webhook"](t, n)
		_, to, _ := strings.Cut(d.to, "=")
		n.must(t, "feed", "hold", to, "--reason", "their server moves")
		d.owe(t, "Offer-one")
		var waiting struct{ Items []struct{ ID string } }
		n.asks(t, &waiting, "feed", "list", d.to)
		named(t, n, to, waiting.Items[0].ID)
	})
	t.Run("registry", func(t *testing.T) {
		t.Parallel()
		n := neighbour{newHouse(t), "a.test"}
		d := destinations()["registry"](t, n)
		_, to, _ := strings.Cut(d.to, "=")
		n.must(t, "feed", "hold", to, "--reason", "their server moves")
		data := map[string]any{"type": "task:request", "data": map[string]any{"description": "Cite three sources on X"}}
		scout := resident(t, n.house, "scout_7", 1) // again, with its key
		if status, answer, err := scout.Send(t.Context(), "amy_1@b.test", "please", data); err != nil || status != http.StatusAccepted {
			t.Fatal(status, answer, err)
		}
		var waiting struct {
			Items []struct {
				HandoffID string `json:"handoff_id"`
			}
		}
		await(t, "the offer to wait", func() bool {
			n.asks(t, &waiting, "feed", "list", d.to)
			return len(waiting.Items) > 0 && waiting.Items[0].HandoffID != ""
		})
		named(t, n, to, waiting.Items[0].HandoffID)
	})
}

// Each row of the table of breakages has its test, and each case of the doctor its row.
func TestBreakagesOfTheGuideAreTested(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../deploy/breakages.md")
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var sources []string
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, string(text))
	}
	rows := regexp.MustCompile("(?m)^\\| .* \\| `(Test\\w+)(?:/([^`]+))?` \\|$").FindAllStringSubmatch(string(guide), -1)
	if len(rows) < 30 {
		t.Errorf("the table has %d rows, want 30 or more", len(rows))
	}
	for _, row := range rows {
		if !slices.ContainsFunc(sources, func(source string) bool {
			_, body, found := strings.Cut(source, "\nfunc "+row[1]+"(")
			body, _, _ = strings.Cut(body, "\n}\n")
			return found && (row[2] == "" || strings.Contains(body, `"`+row[2]+`"`))
		}) {
			t.Errorf("no test is %s/%s", row[1], row[2])
		}
	}
}

package main_test

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/translate/macpmode"
	"github.com/baton-gateway/baton/translate/macpmode/handoffv1"
	"github.com/baton-gateway/baton/translate/macpmode/macpv1"
)

// panicVar holds a text of a log line. A program in this test binary panics once for each link with
// such a line, in the goroutine that logs it. Production code does not know the variable.
const panicVar = "BATON_TEST_PANIC"

type panicWriter struct {
	io.Writer

	text string
	mu   sync.Mutex
	over map[string]bool // links
}

var linkOfLine = regexp.MustCompile(`"link":"([^"]*)"`)

// Write implements [io.Writer].
func (w *panicWriter) Write(line []byte) (int, error) {
	if w.text != "" && strings.Contains(string(line), w.text) {
		link := linkOfLine.FindString(string(line))
		w.mu.Lock()
		was := w.over[link]
		w.over[link] = true
		w.mu.Unlock()
		if !was {
			panic("injected")
		}
	}
	return w.Writer.Write(line)
}

// linked returns a gateway with a link to each network, and the names of the links.
func linked(t *testing.T) (*house, []string) {
	t.Helper()
	h := newHouse(t)
	h.keep(t, "lab.secret", "planted-secret")
	ircd, err := bridgetest.ListenIRCd(t.Context(), bridgetest.IRCdConfig{
		Name: "irc.test", SID: "1LA", LinkName: "gw.test", SendPassword: "planted-secret", RecvPassword: "planted-secret",
		Users: []string{"alice"}, Channels: []string{"#ops"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ircd.Close)
	var own admin.Key
	h.asks(t, &own, "keys", "create", "endpoint")
	freeq := bridgetest.NewFreeq(bridgetest.FreeqConfig{
		Name: "fq.test", Endpoint: ed25519.NewKeyFromSeed(append(make([]byte, 31), 1)), Server: ed25519.NewKeyFromSeed(append(make([]byte, 31), 2)),
		Peer: own.EndpointID, PeerAPI: h.url(), Channels: []string{"#ops"},
	})
	fq, err := freeq.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(freeq.Close)
	calls, tasks := filepath.Join(h.dir, "calls"), filepath.Join(h.dir, "tasks")
	for _, path := range []string{calls, tasks} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.configure(t, fmt.Sprintf(`[[irc.freeq]]
name = "fq"
server_name = "fq.test"
endpoint_id = %q
peer_api = %q
transport = "tcp"
address = %q
channels = ["#ops"]
[fetch]
allow_private = true
[irc.client]
listen = %q
[macp]
listen = %q
[[irc.spanningtree]]
name = "lab"
server_name = "irc.test"
address = %q
sid = "9GW"
send_password_file = "lab.secret"
recv_password_file = "lab.secret"
channels = ["#ops"]
[[files.voice]]
name = "calls"
dir = %q
agents = { bob = "did:plc:bobbobbobbobbobbobbobbob" }
[[files.tasks]]
name = "research"
dir = %q
trusted = ["scanner"]
`, freeq.ID(), freeq.API(), fq, federationtest.FreeAddr(t), federationtest.FreeAddr(t), ircd.Addr(), calls, tasks))
	return h, []string{"lab", "fq", "client", "airc", "rest", "mcp", "a2a", "macp", "calls", "research"}
}

// Each link panics once when it comes up. Only its connection ends, and it is dialled again.
func TestFaultEndsOnlyTheConnectionOfItsLink(t *testing.T) {
	t.Parallel()
	h, links := linked(t)
	h.fault = `"msg":"link up"`
	h.start(t)
	h.ready(t)
	counters := h.counters(t)
	for _, link := range links {
		if n := counters[`baton_faults_total{where="link `+link+`"}`]; n != 1 {
			t.Errorf("%v faults of link %s are counted, want 1", n, link)
		}
	}
	var stacks []string
	for _, line := range h.logged(t) {
		if stack, ok := line["stack"].(string); line["msg"] == "fault contained" && ok && strings.Contains(stack, "goroutine ") && strings.Contains(stack, "github.com/baton-gateway/baton/bridge") {
			where, _ := line["where"].(string)
			stacks = append(stacks, strings.TrimPrefix(where, "link "))
		}
	}
	if slices.Sort(stacks); !slices.Equal(stacks, slices.Sorted(slices.Values(links))) {
		t.Errorf("logged with a stack are the faults of %v, want %v", stacks, links)
	}
	ada, bob := logIn(t, h.url()), logIn(t, h.url())
	ada.offer(t, map[string]any{"title": "after it", "to": string(bob.did)})
}

// A panic in a network's code for a step ends only that step, and a panic in a request only that
// request.
func TestFaultOfAStepEndsOnlyThatStep(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	v.stop(t)
	v.fault = `"msg":"step judged"`
	v.start(t)
	v.ready(t)
	ada, bob := logIn(t, v.url()), logIn(t, v.url())
	offer := map[string]any{"title": "again", "to": string(bob.did)}
	ada.must(t, http.StatusInternalServerError, http.MethodPost, "handoffs", offer, nil)
	ada.offer(t, offer)
	if n := v.counters(t)[`baton_faults_total{where="request"}`]; n != 1 {
		t.Errorf("%v faults of requests are counted, want 1", n)
	}
}

// room is a part of the gateway in whose goroutine a test injects a panic.
type room struct {
	where string // label of the counter of faults
	line  string // of the log at which the panic is; that of a judged step if empty
	// enter returns the gateways of a scene, none of which has started. The panic is in the last one.
	enter func(t *testing.T) []neighbour
	// act has the room work, and returns after the work is done in spite of the panic.
	act func(t *testing.T, all []neighbour)
}

func rooms() map[string]room {
	var runtime *macpHouse
	homes := func(t *testing.T) []neighbour { t.Helper(); return newNeighbours(t, "a.test", "b.test") }
	offer := func(t *testing.T, from, to neighbour) {
		t.Helper()
		alice, _ := from.key(t, 1)
		scout := resident(t, to.house, "scout_7", 2)
		agree(t, from.must(t, "handoff", "offer", "--key-file", alice, "--to", scout.DID, "--title", "Again"), "offer", from, to)
	}
	toLast := func(t *testing.T, all []neighbour) { t.Helper(); offer(t, all[0], all[1]) }
	return map[string]room{
		"tool of MCP": {
			where: "request",
			enter: func(t *testing.T) []neighbour {
				t.Helper()
				return []neighbour{{house: newHouse(t)}}
			},
			act: func(t *testing.T, all []neighbour) {
				t.Helper()
				ada, bob := logIn(t, all[0].url()), logIn(t, all[0].url())
				transport := &sdk.StreamableClientTransport{Endpoint: ada.url + "/mcp", HTTPClient: &http.Client{Transport: bearer(ada.token)}, DisableStandaloneSSE: true}
				session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer session.Close()
				call := &sdk.CallToolParams{Name: "handoff_offer", Arguments: map[string]any{"to": string(bob.did), "title": "Again"}}
				if got, err := session.CallTool(t.Context(), call); err == nil || !strings.Contains(err.Error(), "internal error") {
					t.Errorf("the tool that panics is answered %+v, %v", got, err)
				}
				if got, err := session.CallTool(t.Context(), call); err != nil || got.IsError {
					t.Errorf("the next call of the tool is answered %+v, %v", got, err)
				}
			},
		},
		"stream of MACP": {
			where: "link macp",
			enter: func(t *testing.T) []neighbour {
				t.Helper()
				runtime = newMACPHouse(t)
				return []neighbour{{house: runtime.house}}
			},
			act: func(t *testing.T, all []neighbour) {
				t.Helper()
				eliza, scholar := runtime.participant(t, "eliza"), logIn(t, all[0].url())
				const session = "00000000-0000-4000-8000-000000000001"
				if err := eliza.Start(t.Context(), session, macpTitle, "eliza", string(scholar.did)); err != nil {
					t.Fatal(err)
				}
				say(t, eliza, session, macpmode.TypeOffer, "m1", &handoffv1.HandoffOfferPayload{HandoffId: "h1", TargetParticipant: string(scholar.did), Scope: "research"})
				say(t, eliza, session, macpmode.TypeContext, "m2", &handoffv1.HandoffContextPayload{HandoffId: "h1", ContentType: "text/plain", Context: []byte("x")})
				await(t, "the offer", func() bool { // without a wait: the wake-up was lost with the panic
					var page struct{ Items []arrived }
					scholar.must(t, http.StatusOK, http.MethodGet, "inbox", nil, &page)
					return len(page.Items) == 1 && page.Items[0].Step.Title == macpTitle
				})
				await(t, "the runtime to pass the offer on in another stream", func() (passed bool) {
					_ = eliza.Follow(t.Context(), session, 0, func(env *macpv1.Envelope) bool {
						passed = passed || env.GetMessageType() == macpmode.TypeOffer
						return !passed
					})
					return passed
				})
			},
		},
		"message of the hub": {
			where: "hub",
			enter: func(t *testing.T) []neighbour {
				t.Helper()
				all := homes(t)
				table := accountsHub(t, all)
				for _, n := range all {
					n.behindNAT(t, all, "", table)
				}
				return all
			},
			act: toLast,
		},
		"batch over HTTPS": {where: "request", enter: homes, act: toLast},
		"link to a home": {
			where: "link a.test", line: `"msg":"link up"`, enter: homes,
			act: func(t *testing.T, all []neighbour) { t.Helper(); offer(t, all[1], all[0]) },
		},
	}
}

// A panic ends only the work of its room: it is counted and logged with its stack, and the room does
// the same again after the peer or the gateway repeats it.
func TestFaultStaysInItsRoom(t *testing.T) {
	t.Parallel()
	for name, room := range rooms() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := room.enter(t)
			last := all[len(all)-1]
			last.fault = cmp.Or(room.line, `"msg":"step judged"`)
			for _, n := range all {
				n.start(t)
				n.ready(t)
			}
			room.act(t, all)
			if n := last.counters(t)[`baton_faults_total{where="`+room.where+`"}`]; n != 1 {
				t.Errorf("%v faults of %s are counted, want 1", n, room.where)
			}
			if log := last.told(t); !strings.Contains(log, "injected") || !strings.Contains(log, "fault_test.go:") {
				t.Error("the log has no stack of the fault")
			}
		})
	}
}

// bearer adds a token to each request.
type bearer string

// RoundTrip implements [http.RoundTripper].
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// contained are the ways in which production code may start goroutines: each of them catches panics.
// A "go" statement is allowed for the functions here, with a reason.
var bareGoroutines = map[string]string{
	"federation/delivery/worker.go":           "fault.Catch",
	"bridge/macp/stream.go":                   "fault.Catch",
	"bridge/agents/mcp/subscriptions.go":      "fault.Catch",
	"bridge/irc/freeq/subprocess.go":          "fault.Catch",
	"federation/identity/cache.go":            "fly catches the panics of the look-up",
	"bridge/server/linkset.go":                "run catches the panics of the link",
	"bridge/server/run.go":                    "waits for groups",
	"bridge/httpd/httpd.go":                   "net/http and echo catch the panics of handlers",
	"bridge/irc/client/admission.go":          "passes a function to its owner",
	"bridge/agents/mcp/mcp.go":                "waits for channels",
	"bridge/agents/participant/topic.go":      "passes tokens on",
	"bridge/server/server.go":                 "closes connections at the end of the process",
	"federation/relay/hub.go":                 "waits for channels",
	"federation/store/backup/backup.go":       "fault.Catch",
	"federation/store/engine/file.go":         "executes one fixed statement",
	"federation/store/engine/db.go":           "the committer catches the panics of writes",
	"federation/store/engine/replicalease.go": "executes fixed statements",
}

// A panic in a goroutine ends the process, so every goroutine has to catch panics.
func TestGoroutinesCatchPanics(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	used := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		folder, _ := filepath.Rel(root, path)
		kit := slices.ContainsFunc([]string{
			"deploy", "cmd/baton/bench", "cmd/baton/demo", "cmd/baton/aircagent", "bridge/bridgetest", "bridge/conform", "federation/federationtest", "federation/fault",
			"federation/store/bare", "federation/store/postgrestest", "federation/store/storetest", ".ci", ".tools", ".git",
		}, func(kit string) bool { return folder == kit })
		switch {
		case err != nil:
			return err
		case entry.IsDir() && kit:
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		checkGoroutines(t, path, folder, used)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path := range bareGoroutines {
		if !used[path] {
			t.Errorf("%s starts no goroutine any more", path)
		}
	}
}

func checkGoroutines(t *testing.T, path, name string, used map[string]bool) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	errgroups := slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"golang.org/x/sync/errgroup"` })
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			used[name] = true
			if bareGoroutines[name] == "" {
				t.Errorf("%s: a bare goroutine: start it with fault.Group, or catch its panics and list it", files.Position(n.Pos()))
			}
		case *ast.CallExpr:
			called, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || called.Sel.Name != "Go" || !errgroups || len(n.Args) != 1 {
				return true
			}
			if text := source(t, path, n.Args[0], files); !strings.Contains(text, "fault.") && !strings.Contains(text, "g.contain") {
				t.Errorf("%s: a function of an errgroup that does not catch panics: wrap it in fault.Func", files.Position(n.Pos()))
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "sync" && n.Sel.Name == "WaitGroup" && name != "bridge/macp/link.go" && name != "cmd/baton/demo.go" {
				t.Errorf("%s: a sync.WaitGroup: use fault.Group", files.Position(n.Pos()))
			}
		}
		return true
	})
}

func source(t *testing.T, path string, n ast.Node, files *token.FileSet) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text[files.Position(n.Pos()).Offset:files.Position(n.End()).Offset])
}

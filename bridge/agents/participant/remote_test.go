package participant_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/agents/participant"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
)

// remoteWorld is a gateway in memory whose accounts are asked over its operator API.
type remoteWorld struct {
	*bridgetest.Participants

	access  *participant.Service
	mux     *http.ServeMux
	changed []string // operations that the audit log has
}

// The DIDs of the world. The gateway signs for scout and eliza, and not for the stranger.
func scout() federation.DID    { return bridgetest.SeededKey("test scout").DID }
func eliza() federation.DID    { return bridgetest.SeededKey("test eliza").DID }
func stranger() federation.DID { return bridgetest.SeededKey("test stranger").DID }

func newRemoteWorld(t *testing.T) *remoteWorld {
	t.Helper()
	w := &remoteWorld{Participants: bridgetest.NewParticipants(t), mux: http.NewServeMux()}
	deps := w.Deps()
	deps.Bindings = bridgetest.Bindings{Names: []federation.BoundName{
		{Network: "lab", Name: "scout", DID: scout(), Vouch: true}, {Network: "lab", Name: "eliza", DID: eliza(), Vouch: true},
	}}
	w.access = participant.Open("mcp", deps)
	w.mux.Handle("POST /{did}/{operation}", participant.AccountServer{Access: w.access, Caller: participant.CallerInPath, Changed: func(_ context.Context, operation string, did federation.DID) {
		w.changed = append(w.changed, operation+" "+string(did))
	}})
	return w
}

func (w *remoteWorld) post(ctx context.Context, did, operation string, arguments []byte) []byte {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/"+did+"/"+operation, bytes.NewReader(arguments))
	out := httptest.NewRecorder()
	w.mux.ServeHTTP(out, r)
	return out.Body.Bytes()
}

func (w *remoteWorld) as(did federation.DID) participant.Remote {
	return participant.Remote{Post: func(ctx context.Context, operation string, arguments []byte) ([]byte, error) {
		return w.post(ctx, string(did), operation, arguments), nil
	}}
}

// codeOf returns the code of a problem, "" for another error.
func codeOf(err error) string {
	if problem, ok := errors.AsType[*bridge.ProblemError](err); ok {
		return problem.Code
	}
	return ""
}

func TestRemoteBehavesLikeALocalAccount(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t)
	ctx := t.Context()
	offerer, worker := w.as(eliza()), w.as(scout())
	local := participant.Account{Access: w.access, Caller: participant.Caller{DID: scout(), Bound: true}}
	offer := participant.Offer{To: string(scout()), Title: "Cite", Context: json.RawMessage(`{"pages": 12345678901234567890}`)}
	filed, err := offerer.Offer(ctx, offer, "k1")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := offerer.Offer(ctx, offer, "k1"); err != nil || again.EventID != filed.EventID {
		t.Errorf("the same key is answered %+v, %v", again, err)
	}
	page, err := worker.Inbox(ctx, participant.InboxQuery{Limit: 5, Device: "mcp", Wait: time.Minute})
	if err != nil || len(page.Items) != 1 || page.Items[0].Entry.Event.Context != `{"pages":12345678901234567890}` {
		t.Fatalf("the inbox has %+v, %v", page, err)
	}
	if err := worker.Acknowledge(ctx, "mcp", page.Next); err != nil {
		t.Fatal(err)
	}
	if rest, err := worker.Inbox(ctx, participant.InboxQuery{Limit: 5, Device: "mcp"}); err != nil || len(rest.Items) != 0 {
		t.Errorf("after the acknowledgement the inbox has %+v, %v", rest, err)
	}
	if version, err := worker.Moved(ctx, filed.ID, 0, time.Minute); err != nil || version != 1 {
		t.Errorf("the version is %d, %v", version, err)
	}
	if _, err := worker.Take(ctx, filed.ID, federation.Accept, participant.StepRequest{Note: "at once"}, ""); err != nil {
		t.Fatal(err)
	}
	same := func(what string, remote any, err error, want any, wanted error) {
		t.Helper()
		got, failed := json.Marshal(remote)
		expected, wrong := json.Marshal(want)
		if diff := cmp.Diff(string(expected), string(got)); diff != "" || errors.Join(err, wanted, failed, wrong) != nil {
			t.Errorf("%s (-local +remote): %v, %v\n%s", what, err, wanted, diff)
		}
	}
	log, err := worker.Handoff(ctx, filed.ID)
	wantLog, wanted := local.Handoff(ctx, filed.ID)
	same("handoff", log, err, wantLog, wanted)
	list, err := worker.Handoffs(ctx, participant.Query{State: participant.StateOpen}, "", 5)
	wantList, wanted := local.Handoffs(ctx, participant.Query{State: participant.StateOpen}, "", 5)
	same("handoffs", list, err, wantList, wanted)
	known, err := worker.Whois(ctx, string(scout()))
	wantKnown, wanted := local.Whois(ctx, string(scout()))
	same("whois", known, err, wantKnown, wanted)
	why, err := worker.Explain(ctx, filed.EventID)
	wantWhy, wanted := local.Explain(ctx, filed.EventID)
	same("explain", why, err, wantWhy, wanted)
	passport, err := worker.Passport(ctx, filed.ID)
	wantPassport, wanted := local.Passport(ctx, filed.ID)
	same("passport", passport, err, wantPassport, wanted)
	want := []string{"offer " + string(eliza()), "offer " + string(eliza()), "acknowledge " + string(scout()), "take " + string(scout())}
	if diff := cmp.Diff(want, w.changed); diff != "" {
		t.Errorf("the audit log (-want +got):\n%s", diff)
	}
}

func TestRemoteReturnsTheErrorsOfALocalAccount(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t)
	ctx := t.Context()
	filed, err := w.as(eliza()).Offer(ctx, participant.Offer{Title: "Cite", Channel: "#ops"}, "")
	if err != nil {
		t.Fatal(err)
	}
	w.Join("#ops", scout())
	w.Join("#ops", stranger())
	if _, err := w.as(scout()).Take(ctx, filed.ID, federation.Claim, participant.StepRequest{}, ""); err != nil {
		t.Fatal(err)
	}
	_, err = w.as(eliza()).Take(ctx, filed.ID, federation.Claim, participant.StepRequest{}, "")
	if lost, ok := errors.AsType[*participant.LostError](err); !ok || lost.Assignee != scout() || codeOf(err) != string(federation.IllegalStep) {
		t.Errorf("a lost claim is answered %v", err)
	}
	for what, tt := range map[string]struct {
		err  error
		want string
	}{
		"a handoff that never was":           {second(w.as(scout()).Handoff(ctx, federation.EventID{1}.String())), "unknown-handoff"},
		"a malformed id":                     {second(w.as(scout()).Handoff(ctx, "x")), "usage"},
		"a DID that is not bound":            {w.as(stranger()).Act(ctx, false), string(federation.NeedSignature)},
		"a step of a DID that is not bound":  {second(w.as(stranger()).Offer(ctx, participant.Offer{To: string(scout()), Title: "x"}, "")), string(federation.NeedSignature)},
		"a DID that is bound":                {w.as(scout()).Act(ctx, false), ""},
		"a DID whose steps are signed there": {w.as(stranger()).Act(ctx, true), ""},
	} {
		if got := codeOf(tt.err); got != tt.want || tt.want == "" && tt.err != nil {
			t.Errorf("%s is answered %v, want %q", what, tt.err, tt.want)
		}
	}
	if len(w.changed) != 2 {
		t.Errorf("the audit log has refused calls: %q", w.changed)
	}
}

// second returns the error of a call.
func second[T any](_ T, err error) error { return err }

func TestRemoteRefusesUnknownCalls(t *testing.T) {
	t.Parallel()
	w := newRemoteWorld(t)
	for what, tt := range map[string]struct{ did, operation, arguments, want string }{
		"an unknown operation": {string(scout()), "delete", `{}`, "not-found"},
		"a malformed DID":      {"scout", "inbox", `{}`, "usage"},
		"no JSON":              {string(scout()), "inbox", `{`, "usage"},
		"other arguments":      {string(scout()), "inbox", `[]`, "usage"},
		"too long a body":      {string(scout()), "handoff", `"` + strings.Repeat("x", 1<<20) + `"`, "usage"},
	} {
		var told struct{ Problem *bridge.ProblemError }
		if err := json.Unmarshal(w.post(t.Context(), tt.did, tt.operation, []byte(tt.arguments)), &told); err != nil || told.Problem == nil || told.Problem.Code != tt.want {
			t.Errorf("%s is answered %+v, %v; want %s", what, told.Problem, err, tt.want)
		}
	}
}

func TestRemoteReturnsUnavailableForOtherAnswers(t *testing.T) {
	t.Parallel()
	away := &federation.UnavailableError{What: "gateway"}
	for what, post := range map[string]func(context.Context, string, []byte) ([]byte, error){
		"a page of a proxy": func(context.Context, string, []byte) ([]byte, error) { return []byte("<html>"), nil },
		"no gateway":        func(context.Context, string, []byte) ([]byte, error) { return nil, away },
	} {
		err := participant.Remote{Post: post}.Act(t.Context(), true)
		if _, ok := errors.AsType[*federation.UnavailableError](err); !ok {
			t.Errorf("%s is %v, want an outage", what, err)
		}
	}
}

func TestRemoteOperationsAreInTheContract(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../admin/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "/operator/v1/participants/{did}/{operation}:\n")
	promised := regexp.MustCompile(`enum: \[(.+?)\]`).FindStringSubmatch(after)
	if promised == nil {
		t.Fatal("the contract names no operations")
	}
	if diff := cmp.Diff(strings.Split(promised[1], ", "), participant.Operations()); diff != "" {
		t.Errorf("the operations (-contract +code):\n%s", diff)
	}
}

package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/store/operators"
	"github.com/baton-gateway/baton/federation/store/registry"
	"github.com/baton-gateway/baton/federation/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The people of the tests.
const (
	ann = federation.DID("did:plc:ann000000000000000000000")
	ben = federation.DID("did:plc:ben000000000000000000000")
)

// gateway answers each step with one error, or files it unseen.
type gateway struct {
	admin.Gateway

	record  *registry.Record
	err     error
	refused []federation.RefusalCode
	dry     []bool // of the removals of blocks
}

func (g *gateway) Submit(ctx context.Context, ev federation.Event) (federation.Judgement, error) {
	if g.err != nil {
		return federation.Judgement{}, g.err
	}
	view, err := g.View(ctx, ev.Handoff)
	if err != nil {
		return federation.Judgement{}, err
	}
	entry, err := g.record.Append(ctx, federationtest.File(ev, view))
	return federation.Judgement{Verdict: federation.Valid, Entry: entry}, err
}

func (g *gateway) View(ctx context.Context, id federation.HandoffID) (federation.View, error) {
	return g.record.View(ctx, id)
}

func (*gateway) Name(_ context.Context, did federation.DID) string { return did.Short() }

func (*gateway) Place(context.Context, federation.DID, federation.DID, string) (federation.ChannelRef, federation.Dialect, error) {
	return federation.ChannelRef{}, "", nil
}

// house is the operator API of a gateway.
type house struct {
	*gateway
	admin.Server
	*registry.Record

	mux   *http.ServeMux
	ended chan struct{}
	peers []admin.Peer
}

func newHouse(t *testing.T) *house {
	t.Helper()
	return newHouseFor(t, func(*operators.Operators) admin.Admission { return admin.Everybody })
}

// newHouseFor makes a house for the callers that its record admits.
func newHouseFor(t *testing.T, admit func(*operators.Operators) admin.Admission) *house {
	t.Helper()
	record := storetest.Open(t)
	h := &house{gateway: &gateway{record: record}, Record: record, mux: http.NewServeMux(), ended: make(chan struct{})}
	admin.New(admin.Deps{
		Home: "gw.example", Gateway: h.gateway, Links: noLinks{}, Server: h,
		Record: registry.Bound{Record: record, Names: registry.BoundNames{Record: record, Configured: func() []federation.BoundName { return nil }}, Forget: func(federation.DID) {}},
		Names:  bridgetest.KeptNames{Record: record}, Limits: bridge.Limits{ContextBytes: 10},
		Evidence: bridgetest.Contexts(record, 10, 15), PublicURL: "https://gw.example",
		Document: h.document,
		Refused:  h.refusedLogin,
		Log:      slog.New(slog.DiscardHandler), Ended: h.ended,
	}).Mount(h.mux, admit(record.Operators))
	return h
}

// noLinks are the links of a gateway without any.
type noLinks struct{ admin.Links }

func (noLinks) Statuses() []bridge.LinkStatus { return nil }

func (*house) Status(context.Context) admin.Status { return admin.Status{} }

func (h *house) TopSenders(string, time.Duration, int, time.Time) []bridge.Sender { return nil }

func (*house) Examine(context.Context, bool) []admin.Diagnosis {
	return []admin.Diagnosis{{Check: "record", State: admin.DiagnosisOK, Detail: "it is writable"}}
}

func (*house) Reload(context.Context, bool) (admin.Reloaded, error) {
	return admin.Reloaded{File: "baton.toml", Changes: []admin.Setting{{Key: "limits.max_hops", After: "4", Line: 3, Effect: admin.SettingApplied}}}, nil
}

func (*house) SetLogLevel(pkg, level string, _ bool) (admin.LogLevels, error) {
	return admin.LogLevels{Level: "info", Packages: map[string]string{pkg: level}}, nil
}

func (*house) Policy() admin.Policy {
	return admin.Policy{Rules: []admin.PolicyRule{}, Limits: []admin.PolicyLimit{}}
}
func (*house) ListKeys(context.Context, time.Time) ([]admin.Key, error)     { return nil, nil }
func (h *house) Peers() []admin.Peer                                        { return h.peers }
func (*house) SetPeerMode(context.Context, federation.PeerMode, bool) error { return nil }
func (*house) ClockDoubt() string                                           { return "" }

func (g *gateway) Refused(code federation.RefusalCode) { g.refused = append(g.refused, code) }

func (g *gateway) Unblock(_ context.Context, _ federation.Block, dry bool) error {
	g.dry = append(g.dry, dry)
	return nil
}

func (*gateway) TopSenders(string, time.Duration, int, time.Time) []bridge.Sender { return nil }

func (*gateway) About(context.Context, federation.HandoffID) ([]federation.Text, error) {
	return nil, nil
}

func (g *gateway) Seen(ctx context.Context, did federation.DID) (bool, error) {
	return g.record.Seen(ctx, did)
}

func (g *gateway) AllowHeld(ctx context.Context, id int64) error {
	return g.record.DeliverHeld(ctx, id, time.Now())
}

func (*gateway) Block(_ context.Context, b federation.Block, _, _ bool) (federation.Block, bridge.Purged, error) {
	return b, bridge.Purged{}, nil
}

func (*house) MoveInbox(context.Context, federation.DID, federation.HomeID, bool) (federation.MovedInbox, error) {
	return federation.MovedInbox{}, nil
}

func (*house) MailboxRoutes(context.Context, federation.View) ([]federation.MailboxLocation, error) {
	return nil, nil
}

func (*house) AddHome(context.Context, string, bool, bool) (federation.AddedHome, error) {
	return federation.AddedHome{}, nil
}

func (*house) ComparePeer(context.Context, federation.HomeID, bool) (admin.Compared, error) {
	return admin.Compared{Lost: []admin.Loss{}}, nil
}

func (*house) RemoveHome(context.Context, string, bool) (federation.KnownHome, error) {
	return federation.KnownHome{}, nil
}

func (*house) CheckRelay(context.Context) []federation.Finding {
	return []federation.Finding{{What: "hub", State: federation.FindingOK, Detail: "none"}}
}

func (*house) Backup(context.Context) (io.ReadCloser, error) {
	return nil, errors.New("there is none")
}

func (*house) RotateKey(context.Context, string, time.Duration, time.Time) (admin.Key, error) {
	return admin.Key{}, errors.New("there is none")
}

// ask sends one request and returns the status and the body.
func (h *house) ask(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), method, "/operator/v1/"+path, strings.NewReader(body))
	h.mux.ServeHTTP(recorder, r)
	inContract(t, r, recorder.Code, recorder.Header(), recorder.Body.Bytes())
	if told := recorder.Header().Get("Content-Type"); recorder.Code >= 400 && told != "application/problem+json" {
		t.Errorf("%s %s: an error is told as %s", method, path, told)
	}
	return recorder.Code, recorder.Body.String()
}

// offer files the n-th step, an offer of ann's.
func (h *house) offer(t *testing.T, n int) federation.Filing {
	t.Helper()
	f := federationtest.File(federationtest.Offer(n, ann, ben), federation.View{})
	if _, err := h.record.Append(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	return f
}

// signedOffer is the body of a signed offer. No test here verifies the signature.
func signedOffer() string {
	id := federationtest.ID(1).String()
	document := fmt.Sprintf(`{"from":%q,"handoff":"offer","handoff-from":%q,"handoff-id":%q,"handoff-task":"x","handoff-to":%q,"id":%q,"target":%q}`,
		ann, ann, id, ben, id, federation.PrivateVenue(ann, ben))
	return fmt.Sprintf(`{"proof":{"document":%q,"signature":"ed25519:k:s"}}`, document)
}

func TestStepDeferredForAKeyIsNoProblem(t *testing.T) {
	h := newHouse(t)
	h.err = &federation.RefusalError{Code: federation.SignatureUnverifiable, Waits: true, Detail: "the step waits for a key"}
	status, body := h.ask(t, http.MethodPost, "handoffs", signedOffer())
	var filed admin.Filed
	if err := json.Unmarshal([]byte(body), &filed); err != nil || status != http.StatusAccepted || !strings.HasSuffix(filed.Waits, "the step waits for a key") {
		t.Errorf("status %d, %s (%v)", status, body, err)
	}
	if len(h.refused) != 0 {
		t.Errorf("counted as refusals: %v", h.refused)
	}
}

func TestBlobOfAStepIsStored(t *testing.T) {
	h := newHouse(t)
	for _, tt := range []struct {
		query, content string
		status         int
	}{
		{"?owner=" + string(ben), "ten bytes.", 201},
		{"?owner=" + string(ben), "ten bytes.", 429},
		{"?owner=" + string(ann), "ten bytes and more", 413},
		{"?owner=nobody", "x", 400},
		{"", "x", 400},
		{"?owner=" + string(ann) + "&other=1", "x", 400},
	} {
		status, body := h.ask(t, http.MethodPost, "blobs"+tt.query, tt.content)
		if status != tt.status {
			t.Errorf("%s %q: %d %s, want %d", tt.query, tt.content, status, body, tt.status)
		}
		var stored admin.Stored
		if err := json.Unmarshal([]byte(body), &stored); status == http.StatusCreated &&
			(err != nil || !strings.HasPrefix(stored.URL, "https://gw.example/blob/cap/") || !strings.HasPrefix(stored.SHA256, "sha256:") || time.Time(stored.ExpiresAt).IsZero()) {
			t.Errorf("answered %s, %v", body, err)
		}
	}
}

func TestErrorsHaveTheirProblem(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		status int
		code   string
		retry  int
		detail string // in part
	}{
		"a refusal":     {&federation.RefusalError{Code: federation.IllegalStep, Detail: "it is open"}, 409, "illegal-step", 0, "it is open"},
		"a rate":        {&federation.RefusalError{Code: federation.RateLimited, RetryAfter: 1500 * time.Millisecond}, 429, "rate-limited", 2, ""},
		"no verdict":    {&federation.RefusalError{Code: federation.SignatureUnverifiable}, 503, "signature-unverifiable", 5, ""},
		"a wrong actor": {&federation.RefusalError{Code: federation.ActorMismatch}, 403, "actor-mismatch", 0, ""},
		"an outage":     {&federation.UnavailableError{What: "record", RetryAfter: time.Second, Err: errors.New("planted")}, 503, "unavailable", 1, "record is unavailable"},
		"a long outage": {&federation.UnavailableError{What: "record", Err: errors.New("planted")}, 503, "unavailable", 5, "record is unavailable"},
		"a mistake":     {errors.New("planted"), 500, "failed", 0, "see the log of the gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.err = tt.err
			status, body := h.ask(t, http.MethodPost, "handoffs", signedOffer())
			var p admin.ProblemError
			if err := json.Unmarshal([]byte(body), &p); err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			want := admin.ProblemError{Status: tt.status, Title: http.StatusText(tt.status), Code: tt.code, RetryAfter: tt.retry, Detail: p.Detail}
			if diff := cmp.Diff(want, p); diff != "" || status != tt.status {
				t.Errorf("status %d (-want +got):\n%s", status, diff)
			}
			if !strings.Contains(p.Detail, tt.detail) || strings.Contains(body, "planted") {
				t.Errorf("told %s, want %q", body, tt.detail)
			}
			if _, isRefusal := errors.AsType[*federation.RefusalError](tt.err); isRefusal != (len(h.refused) == 1) {
				t.Errorf("counted as refusals: %v", h.refused)
			}
		})
	}
}

func TestRequestsAreValidated(t *testing.T) {
	h := newHouse(t)
	id := h.offer(t, 1).Event.ID.String()
	for request, want := range map[string]int{
		"GET handoffs?stat=open":                400,
		"GET handoffs?limit=0":                  400,
		"GET handoffs?limit=501":                400,
		"GET handoffs?since=yesterday":          400,
		"GET handoffs?did=ann":                  400,
		"GET handoffs?channel=ops":              400,
		"GET handoffs?cursor=nonsense":          400,
		"GET handoffs/" + id + "?cursor=x":      400,
		"GET bindings?watch":                    400,
		"GET inboxes/nobody":                    400,
		"GET nothing":                           404,
		"DELETE handoffs":                       404,
		"GET links/lab":                         404,
		"POST handoffs":                         400,
		"POST handoffs/" + id + "/offer":        400,
		"POST handoffs/" + id + "/expire":       400,
		"POST handoffs/" + id + "/juggle":       400,
		"POST handoffs/ZZZZZZ/accept":           404,
		"POST inboxes/" + string(ben) + "/ack":  400,
		"PUT bindings/lab/ann":                  400,
		"GET handoffs/01ARZ3NDEKTSV4RRFFQ69G5F": 404,
	} {
		method, path, _ := strings.Cut(request, " ")
		if status, body := h.ask(t, method, path, ""); status != want {
			t.Errorf("%s answers %d, want %d: %s", request, status, want, body)
		}
	}
	for _, body := range []string{`{"fro":"x"}`, `{"from":"x","from":"y"}`, `[]`, `{} {}`, `{"from":"x","proof":{"document":"{}","signature":""}}`, `{"from":` + strings.Repeat(" ", 70_000) + `"x"}`} {
		if status, _ := h.ask(t, http.MethodPost, "handoffs", body); status != 400 {
			t.Errorf("%.40s answers %d, want 400", body, status)
		}
	}
}

func TestUnblockIsDryForEachValueOfTheParameter(t *testing.T) {
	h := newHouse(t)
	for _, query := range []string{"?dry_run", "?dry_run=true", "?dry_run=1", ""} {
		if status, body := h.ask(t, http.MethodDelete, "blocks/192.0.2.0/24"+query, ""); status != http.StatusOK {
			t.Errorf("%q answers %d, %s", query, status, body)
		}
	}
	if diff := cmp.Diff([]bool{true, true, true, false}, h.dry); diff != "" {
		t.Errorf("dry (-want +got):\n%s", diff)
	}
}

func TestHandoffIDSuffixMustBeUnambiguous(t *testing.T) {
	h := newHouse(t)
	first, second := h.offer(t, 1).Event.ID, h.offer(t, 10001).Event.ID
	if first.Short() != second.Short() {
		t.Fatalf("the ids %s and %s end differently", first, second)
	}
	status, body := h.ask(t, http.MethodGet, "handoffs/"+first.Short(), "")
	if status != 400 || !strings.Contains(body, first.String()) || !strings.Contains(body, second.String()) {
		t.Errorf("answers %d, %s; want both ids", status, body)
	}
	if status, body := h.ask(t, http.MethodGet, "handoffs/"+strings.ToLower(first.String()), ""); status != 200 {
		t.Errorf("a whole id in lower case answers %d, %s", status, body)
	}
}

func TestHandoffStepsHavePages(t *testing.T) {
	h := newHouse(t)
	f := h.offer(t, 1)
	for n := 2; n < 5; n++ {
		f = federationtest.File(federationtest.Step(n, federationtest.Offer(1, ann, ben), federation.Progress, ben), f.View)
		if _, err := h.record.Append(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	var ids []federation.EventID
	for cursor := "0"; cursor != ""; {
		var page admin.Handoff
		_, body := h.ask(t, http.MethodGet, "handoffs/"+f.View.ID.String()+"?limit=3&cursor="+cursor, "")
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Steps {
			ids = append(ids, s.EventID)
		}
		cursor = page.NextCursor
	}
	want := []federation.EventID{federationtest.ID(1), federationtest.ID(2), federationtest.ID(3), federationtest.ID(4)}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

// watching is a request in progress, and its answer so far.
type watching struct {
	*httptest.ResponseRecorder

	mu   sync.Mutex // the test reads while the answer is written
	done chan struct{}
}

// Write implements [http.ResponseWriter].
func (w *watching) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ResponseRecorder.Write(text)
}

func (h *house) watch(ctx context.Context, path string) *watching {
	w := &watching{ResponseRecorder: httptest.NewRecorder(), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		h.mux.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/operator/v1/"+path, nil))
	}()
	return w
}

// ids returns the handoffs of the lines so far, each with its version.
func (w *watching) ids(t *testing.T) []string {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []string
	for line := range strings.Lines(w.Body.String()) {
		var item struct {
			admin.Handoff
			HandoffID federation.HandoffID `json:"handoff_id"`
		}
		if err := json.Unmarshal([]byte(line), &item); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if item.HandoffID.IsZero() {
			item.HandoffID = item.ID
		}
		ids = append(ids, fmt.Sprintf("%s %d", item.HandoffID.Short(), item.Version))
	}
	return ids
}

func TestWatchedListReportsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		first := h.offer(t, 1)
		w := h.watch(t.Context(), "handoffs?watch")
		short := func(n int) string { return federationtest.ID(n).Short() }
		want := []string{short(1) + " 1"}
		if diff := cmp.Diff(want, w.ids(t)); diff != "" {
			t.Errorf("at first (-want +got):\n%s", diff)
		}
		time.Sleep(3 * time.Second)
		if diff := cmp.Diff(want, w.ids(t)); diff != "" {
			t.Errorf("while nothing moves (-want +got):\n%s", diff)
		}
		accept := federationtest.File(federationtest.Step(2, first.Event, federation.Accept, ben), first.View)
		if _, err := h.record.Append(t.Context(), accept); err != nil {
			t.Fatal(err)
		}
		h.offer(t, 3)
		time.Sleep(time.Second)
		want = append(want, short(1)+" 2", short(3)+" 1")
		if diff := cmp.Diff(want, w.ids(t)); diff != "" {
			t.Errorf("after two moved (-want +got):\n%s", diff)
		}
		close(h.ended)
		<-w.done
	})
}

func TestWatchedInboxEndsWithItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		ctx, gone := context.WithCancel(t.Context())
		w := h.watch(ctx, "inboxes/"+string(ben)+"?watch")
		if ids := w.ids(t); len(ids) != 0 {
			t.Errorf("an empty inbox shows %v", ids)
		}
		h.offer(t, 1)
		time.Sleep(time.Second)
		h.offer(t, 2)
		time.Sleep(time.Second)
		want := []string{federationtest.ID(1).Short() + " 0", federationtest.ID(2).Short() + " 0"}
		if diff := cmp.Diff(want, w.ids(t)); diff != "" {
			t.Errorf("what arrived (-want +got):\n%s", diff)
		}
		gone()
		<-w.done
	})
}

func TestStepMustBeOfTheSignerOfItsDocument(t *testing.T) {
	h := newHouse(t)
	forged := strings.ReplaceAll(signedOffer(), `\"handoff-from\":\"`+string(ann), `\"handoff-from\":\"`+string(ben))
	if status, body := h.ask(t, http.MethodPost, "handoffs", forged); status != 401 || !strings.Contains(body, "signature-invalid") {
		t.Errorf("answers %d, %s", status, body)
	}
	accept := strings.ReplaceAll(signedOffer(), `\"handoff\":\"offer\"`, `\"handoff\":\"accept\"`)
	if status, body := h.ask(t, http.MethodPost, "handoffs", accept); status != 400 || !strings.Contains(body, "differs from the request") {
		t.Errorf("answers %d, %s", status, body)
	}
}

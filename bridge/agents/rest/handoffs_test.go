package rest_test

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge/agents/rest/contract"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/federationtest"
	"github.com/baton-gateway/baton/federation/signing"
	"github.com/baton-gateway/baton/translate/dialect"
)

func decode[T any](t *testing.T, got answer, status int) T {
	t.Helper()
	var into T
	if err := json.Unmarshal([]byte(got.Text), &into); err != nil || got.Status != status {
		t.Fatalf("answered %d %s, %v, want %d", got.Status, got.Text, err, status)
	}
	return into
}

// refused holds an answer to a refusal.
func refused(t *testing.T, got answer, status int, code string) {
	t.Helper()
	if got.Status != status || got.member("code") != code {
		t.Errorf("answered %d %s, want %d %s", got.Status, got.Text, status, code)
	}
}

func TestHandoffRunsFromOfferToEndOverHTTP(t *testing.T) {
	w := newWorld(t)
	eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
	id := eliza.offer(t, map[string]any{
		"to": scholar.did, "title": "Cite three sources", "context": map[string]any{"topic": "X"}, "caps": []string{"web-search"},
		"deadline": time.Now().Add(time.Hour), "channel": "#ops",
	})
	inbox := decode[contract.InboxPage](t, scholar.get(t, "/api/v1/inbox"), http.StatusOK)
	if len(inbox.Items) != 1 || inbox.Items[0].Step.HandoffID != id || inbox.Items[0].Step.Context != `{"topic":"X"}` || !inbox.Items[0].Waits {
		t.Fatalf("the inbox has %+v", inbox.Items)
	}
	scholar.step(t, id, "accept", nil)
	scholar.step(t, id, "progress", map[string]any{"note": "two of three"})
	scholar.step(t, id, "complete", map[string]any{"context": "https://gw.example/blob/cap/x"})
	got := decode[contract.Handoff](t, eliza.get(t, "/api/v1/handoffs/"+id), http.StatusOK)
	var verbs []string
	for _, step := range got.Steps {
		verbs = append(verbs, step.Verb)
		if step.Provenance != "vouched" || step.Verdict != "valid" || step.For == "" || step.Evidence.URL == "" || step.Document == "" {
			t.Errorf("a step is shown as %+v", step)
		}
	}
	if want := []string{"offer", "accept", "progress", "complete"}; !slices.Equal(verbs, want) || got.State != "completed" || !got.Over || got.Venue != "#ops" {
		t.Errorf("it went %v to %s in %s, want %v", verbs, got.State, got.Venue, want)
	}
	if passport := eliza.get(t, "/api/v1/handoffs/"+id+"/passport"); passport.Text != `{"passport":1}` {
		t.Errorf("the passport is answered %d %s", passport.Status, passport.Text)
	}
	refused(t, scholar.post(t, "/api/v1/handoffs/"+id+"/progress", nil), http.StatusConflict, "terminal-handoff")
	refused(t, scholar.post(t, "/api/v1/handoffs/"+id+"/dance", nil), http.StatusBadRequest, "unknown-verb")
	refused(t, scholar.post(t, "/api/v1/handoffs/"+id+"/expire", nil), http.StatusBadRequest, "unknown-verb")
	refused(t, eliza.post(t, "/api/v1/handoffs", map[string]any{"to": scholar.did}), http.StatusBadRequest, "missing-requirement")
}

func TestOfferRefusesAnImpossibleTarget(t *testing.T) {
	w := newWorld(t)
	eliza := w.login(t, "eliza")
	for to, code := range map[string]string{
		"did:key:":             "invalid-target",
		"did:key:z6Mk":         "invalid-target",
		"did:web:":             "invalid-target",
		"did:web:A.example":    "invalid-target",
		"did:web:a.example:..": "invalid-target",
		"did:plc:alice":        "invalid-target",
		"did:key:z6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc": "invalid-target", // x25519
	} {
		refused(t, eliza.post(t, "/api/v1/handoffs", map[string]any{"to": to, "title": "x"}), http.StatusBadRequest, code)
	}
	refused(t, eliza.post(t, "/api/v1/handoffs", map[string]any{"to": "alice", "title": "x"}), http.StatusNotFound, "unknown-name")
	id := mint(t)
	signedTo := signed(t, eliza, federation.Event{
		ID: id, Handoff: id, Verb: federation.Offer, To: "did:plc:alice", Title: "x", Venue: federation.PrivateVenue(eliza.did, "did:plc:alice"),
	})
	refused(t, eliza.post(t, "/api/v1/handoffs", signedTo), http.StatusBadRequest, "invalid-target")
}

func TestOfferWarnsOfAnUnseenDID(t *testing.T) {
	w := newWorld(t)
	eliza, scholar := w.login(t, "eliza"), keyOf("scholar").DID
	want := []contract.Warning{{
		Code: "never-seen", Detail: "no step, name, login or read inbox of " + string(scholar) + " is known here: check the DID",
	}}
	id := mint(t)
	for name, body := range map[string]map[string]any{
		"vouched": {"to": scholar, "title": "x"},
		"signed": signed(t, eliza, federation.Event{
			ID: id, Handoff: id, Verb: federation.Offer, To: scholar, Title: "x", Venue: federation.PrivateVenue(eliza.did, scholar),
		}),
	} {
		first := eliza.post(t, "/api/v1/handoffs", body)
		if diff := cmp.Diff(want, decode[contract.Filed](t, first, http.StatusCreated).Warnings); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", name, diff)
		}
	}
	kept := map[string]any{"to": scholar, "title": "again"}
	first, again := eliza.post(t, "/api/v1/handoffs", kept, "Idempotency-Key", "k"), eliza.post(t, "/api/v1/handoffs", kept, "Idempotency-Key", "k")
	if diff := cmp.Diff(want, decode[contract.Filed](t, again, http.StatusCreated).Warnings); diff != "" || again.Text != first.Text {
		t.Errorf("the replay is answered %s after %s", again.Text, first.Text)
	}
	if got := eliza.post(t, "/api/v1/handoffs", map[string]any{"title": "x", "channel": "#ops"}); got.Status != http.StatusCreated || strings.Contains(got.Text, "warnings") {
		t.Errorf("an open offer is answered %d %s", got.Status, got.Text)
	}
	w.login(t, "scholar")
	if _, err := w.record.EndSessions(t.Context(), []string{string(scholar)}, "", false, time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := eliza.post(t, "/api/v1/handoffs", map[string]any{"to": scholar, "title": "x"}); got.Status != http.StatusCreated || strings.Contains(got.Text, "warnings") {
		t.Errorf("an offer to a DID that logged in once is answered %d %s", got.Status, got.Text)
	}
}

func TestOutageHasRetryAfter(t *testing.T) {
	w := newWorld(t)
	eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
	id := eliza.offer(t, map[string]any{"to": scholar.did, "title": "x"})
	if err := w.record.Close(); err != nil {
		t.Fatal(err)
	}
	for _, got := range []answer{
		eliza.get(t, "/api/v1/inbox"), eliza.get(t, "/api/v1/handoffs"), eliza.get(t, "/api/v1/handoffs/"+id), eliza.get(t, "/api/v1/webhooks"),
		scholar.post(t, "/api/v1/handoffs/"+id+"/accept", nil), eliza.post(t, "/api/v1/handoffs", map[string]any{"to": scholar.did, "title": "x"}),
		scholar.post(t, "/api/v1/inbox/ack", map[string]any{"cursor": "1", "device": "d"}),
	} {
		if got.Status != http.StatusServiceUnavailable || got.Header.Get("Retry-After") != "5" || !strings.Contains(got.Text, `"retry_after":5,`) {
			t.Errorf("answered %d, Retry-After %q: %s", got.Status, got.Header.Get("Retry-After"), got.Text)
		}
	}
}

// signed returns a step as its signer signs it.
func signed(t *testing.T, a *agent, ev federation.Event) map[string]any {
	t.Helper()
	ev.Kind, ev.From, ev.Dialect, ev.Provenance = federation.Handoff, a.did, federation.HandoffTags, federation.Signed
	ev.Fields, _ = dialect.Write(ev)
	sealed, err := signing.Seal(t.Context(), a.key, ev)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"document": sealed.Signature.Document, "signature": sealed.Signature.Text}
}

func mint(t *testing.T) federation.EventID {
	t.Helper()
	id, err := federation.NewEventID(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestSignedStepIsFiledAsSigned(t *testing.T) {
	w := newWorld(t)
	eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
	place := decode[contract.Place](t, eliza.get(t, "/api/v1/place?to="+string(scholar.did)), http.StatusOK)
	id := mint(t)
	body := signed(t, eliza, federation.Event{
		ID: id, Handoff: id, Verb: federation.Offer, To: scholar.did, Title: "Cite three sources", Venue: place.Target,
	})
	first := eliza.post(t, "/api/v1/handoffs", body)
	if first.Status != http.StatusCreated || first.member("id") != id.String() || first.Header.Get("Idempotency-Replayed") != "" {
		t.Fatalf("the offer is answered %d %s", first.Status, first.Text)
	}
	again := eliza.post(t, "/api/v1/handoffs", body)
	if again.Text != first.Text || again.Status != first.Status || again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the same again is answered %d %s", again.Status, again.Text)
	}
	shown := decode[contract.Handoff](t, scholar.get(t, "/api/v1/handoffs/"+id.String()), http.StatusOK)
	if step := shown.Steps[0]; step.Provenance != "signed" || step.Document != body["document"] || step.Signature != body["signature"] || step.From != string(eliza.did) {
		t.Errorf("the step is shown as %+v", step)
	}
	refused(t, scholar.post(t, "/api/v1/handoffs", body), http.StatusForbidden, "actor-mismatch")
	refused(t, scholar.post(t, "/api/v1/handoffs/"+id.String()+"/accept", body), http.StatusBadRequest, "usage")
	body["title"] = "another"
	refused(t, eliza.post(t, "/api/v1/handoffs", body), http.StatusBadRequest, "usage")
	delete(body, "title")
	body["document"] = strings.Replace(body["document"].(string), "three", "nine", 1)
	if got := eliza.post(t, "/api/v1/handoffs", body); got.Status/100 != 4 {
		t.Errorf("what was not signed is answered %d %s", got.Status, got.Text)
	}
}

func TestIdempotencyKeyRepeatsTheAnswer(t *testing.T) {
	w := newWorld(t)
	eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
	offer := map[string]any{"to": scholar.did, "title": "Cite three sources"}
	first := eliza.post(t, "/api/v1/handoffs", offer, "Idempotency-Key", "k1")
	again := eliza.post(t, "/api/v1/handoffs", offer, "Idempotency-Key", "k1")
	if first.Status != http.StatusCreated || again.Text != first.Text || again.Status != first.Status ||
		again.Header.Get("Idempotency-Replayed") != "true" || again.Header.Get("Location") != first.Header.Get("Location") {
		t.Errorf("answered %d %s, and then %d %s %v", first.Status, first.Text, again.Status, again.Text, again.Header)
	}
	offer["title"] = "Cite four sources"
	refused(t, eliza.post(t, "/api/v1/handoffs", offer, "Idempotency-Key", "k1"), http.StatusConflict, "idempotency-conflict")
	if other := scholar.post(t, "/api/v1/handoffs", map[string]any{"title": "x", "to": eliza.did}, "Idempotency-Key", "k1"); other.Status != http.StatusCreated {
		t.Errorf("the key of another DID is answered %d %s", other.Status, other.Text)
	}
	path := "/api/v1/handoffs/" + first.member("id") + "/complete"
	no := scholar.post(t, path, nil, "Idempotency-Key", "k2")
	scholar.step(t, first.member("id"), "accept", nil)
	sameNo := scholar.post(t, path, nil, "Idempotency-Key", "k2")
	refused(t, sameNo, http.StatusConflict, "illegal-step")
	if sameNo.Text != no.Text || sameNo.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("a refusal is answered %s, and then %s", no.Text, sameNo.Text)
	}
}

// The use of a key is kept for a day, whatever its outcome.
func TestIdempotencyKeyCountsAgainstTheRate(t *testing.T) {
	w := newWorld(t)
	eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
	nowhere := map[string]any{"title": "x", "channel": "#elsewhere"}
	refused(t, eliza.post(t, "/api/v1/handoffs", nowhere), http.StatusBadRequest, "invalid-target")
	for want, request := range []struct {
		path string
		body any
	}{
		{"", map[string]any{"title": "x", "to": scholar.did}}, // the home counts it
		{"", nowhere},
		{"", map[string]any{"title": "x", "channel": "ops"}},
	} {
		eliza.post(t, "/api/v1/handoffs"+request.path, request.body, "Idempotency-Key", strconv.Itoa(want))
		if w.Charged() != want {
			t.Errorf("%v: %d are counted, want %d", request.body, w.Charged(), want)
		}
	}
	again := eliza.post(t, "/api/v1/handoffs", nowhere, "Idempotency-Key", "1")
	refused(t, again, http.StatusBadRequest, "invalid-target")
	if again.Header.Get("Idempotency-Replayed") != "true" || w.Charged() != 2 {
		t.Errorf("the same again is answered %v, and %d are counted", again.Header, w.Charged())
	}
}

func TestIdempotencyKeyIsNotReservedOverTheRate(t *testing.T) {
	w := newWorld(t)
	eliza := w.login(t, "eliza")
	w.Steps = 0
	for i := range 3 {
		got := eliza.post(t, "/api/v1/handoffs", map[string]any{"title": "offer " + strconv.Itoa(i)}, "Idempotency-Key", "k1")
		refused(t, got, http.StatusTooManyRequests, "rate-limited")
		if got.Header.Get("Retry-After") != "1" {
			t.Errorf("headers %v", got.Header)
		}
	}
	w.Steps = 1
	eliza.post(t, "/api/v1/handoffs", map[string]any{"title": "another"}, "Idempotency-Key", "k1")
	if kept, err := w.record.Reserve(t.Context(), federation.Answer{DID: eliza.did, Key: "k1"}); err != nil || kept.Status != http.StatusCreated {
		t.Errorf("the key is of %+v, %v", kept, err)
	}
}

// A gateway may end between the step and the answer to it.
func TestIdempotencyKeyFilesAnUnansweredRequestOnce(t *testing.T) {
	w := newWorld(t)
	eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
	offer := map[string]any{"to": scholar.did, "title": "Cite three sources"}
	first := eliza.post(t, "/api/v1/handoffs", offer, "Idempotency-Key", "k1")
	kept, err := w.record.Reserve(t.Context(), federation.Answer{DID: eliza.did, Key: "k1"})
	if err != nil {
		t.Fatal(err)
	}
	kept.Status, kept.Body = 0, nil
	if err := w.record.Answered(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	again := eliza.post(t, "/api/v1/handoffs", offer, "Idempotency-Key", "k1")
	if again.Text != first.Text {
		t.Errorf("answered %s, and then %s", first.Text, again.Text)
	}
	page := decode[contract.HandoffPage](t, eliza.get(t, "/api/v1/handoffs"), http.StatusOK)
	if len(page.Items) != 1 {
		t.Errorf("%d handoffs are filed, want 1", len(page.Items))
	}
	// One never filed, with an id too old by now, gets a fresh one.
	kept.Key, kept.Event = "k2", federationtest.ID(1)
	if err := w.record.Answered(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	if late := eliza.post(t, "/api/v1/handoffs", offer, "Idempotency-Key", "k2"); late.Status != http.StatusCreated || late.member("id") == kept.Event.String() {
		t.Errorf("answered %d %s", late.Status, late.Text)
	}
}

func TestEventIDOfTheCallerNamesOneStep(t *testing.T) {
	w := newWorld(t)
	eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
	offer := map[string]any{"id": mint(t), "to": scholar.did, "title": "Cite three sources"}
	first := eliza.post(t, "/api/v1/handoffs", offer)
	again := eliza.post(t, "/api/v1/handoffs", offer)
	if first.Status != http.StatusCreated || again.Text != first.Text || again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("answered %d %s, and then %d %s", first.Status, first.Text, again.Status, again.Text)
	}
	offer["title"] = "Cite four sources"
	refused(t, eliza.post(t, "/api/v1/handoffs", offer), http.StatusConflict, "eventid-in-use")
	offer["id"] = federationtest.ID(1)
	refused(t, eliza.post(t, "/api/v1/handoffs", offer), http.StatusBadRequest, "eventid-clock-skew")
}

func TestListHandoffsHasThoseOfTheCaller(t *testing.T) {
	w := newWorld(t)
	eliza, scholar, mallory := w.login(t, "eliza"), w.login(t, "scholar"), w.login(t, "mallory")
	direct := eliza.offer(t, map[string]any{"to": scholar.did, "title": "direct"})
	done := eliza.offer(t, map[string]any{"to": scholar.did, "title": "done"})
	scholar.step(t, done, "decline", map[string]any{"note": "busy"})
	open := eliza.offer(t, map[string]any{"title": "open", "channel": "#ops", "caps": []string{"go"}})
	ids := func(a *agent, query string) []string {
		t.Helper()
		var ids []string
		for _, h := range decode[contract.HandoffPage](t, a.get(t, "/api/v1/handoffs"+query), http.StatusOK).Items {
			ids = append(ids, h.ID)
		}
		slices.Sort(ids)
		return ids
	}
	sorted := func(ids ...string) []string { slices.Sort(ids); return ids }
	for _, tt := range []struct {
		name  string
		who   *agent
		query string
		want  []string
	}{
		{"all of the offerer's", eliza, "", sorted(direct, done, open)},
		{"what is not over", scholar, "?state=open", []string{direct}},
		{"one state", scholar, "?state=declined", []string{done}},
		{"what one may claim, without the skills", eliza, "?claimable=true", nil},
		{"open offers, without the skills", mallory, "?claimable=false&state=open", []string{open}},
		{"open offers with a word of the title", mallory, "?claimable=false&state=open&q=OPEN", []string{open}},
		{"open offers without it", mallory, "?claimable=false&state=open&q=direct", nil},
		{"open work of a channel that one is not in", mallory, "?channel=%23ops", []string{open}},
		{"what others have", mallory, "?did=" + string(scholar.did), nil},
		{"nothing in the future", eliza, "?since=2100-01-01T00:00:00Z", nil},
	} {
		if diff := cmp.Diff(tt.want, ids(tt.who, tt.query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	w.Join("#ops", mallory.did)
	if diff := cmp.Diff([]string{open}, ids(mallory, "?channel=%23ops")); diff != "" {
		t.Errorf("a channel that one is in (-want +got):\n%s", diff)
	}
	put := w.ask(t, scholar.token, http.MethodPut, "/api/v1/agents/"+string(scholar.did), map[string]any{"caps": []string{"go"}})
	if diff := cmp.Diff([]string{open}, ids(scholar, "?claimable=true&capability=go")); diff != "" || put.Status != http.StatusOK {
		t.Errorf("what asks for one's skills, %d (-want +got):\n%s", put.Status, diff)
	}
	first := decode[contract.HandoffPage](t, eliza.get(t, "/api/v1/handoffs?limit=2"), http.StatusOK)
	rest := decode[contract.HandoffPage](t, eliza.get(t, "/api/v1/handoffs?limit=2&cursor="+url.QueryEscape(first.NextCursor)), http.StatusOK)
	if len(first.Items) != 2 || len(rest.Items) != 1 || rest.NextCursor != "" {
		t.Errorf("pages of %d and %d, and then %q", len(first.Items), len(rest.Items), rest.NextCursor)
	}
}

func TestETagAvoidsRepeatedAnswers(t *testing.T) {
	w := newWorld(t)
	eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
	id := eliza.offer(t, map[string]any{"to": scholar.did, "title": "x"})
	for _, path := range []string{"/api/v1/handoffs", "/api/v1/handoffs/" + id} {
		before := eliza.get(t, path)
		tag := before.Header.Get("ETag")
		if got := eliza.get(t, path, "If-None-Match", `"other", W/`+tag); got.Status != http.StatusNotModified || got.Text != "" || tag == "" {
			t.Errorf("%s is answered %d, with tag %q", path, got.Status, tag)
		}
	}
	tag := eliza.get(t, "/api/v1/handoffs/"+id).Header.Get("ETag")
	scholar.step(t, id, "accept", nil)
	if got := eliza.get(t, "/api/v1/handoffs/"+id, "If-None-Match", tag); got.Status != http.StatusOK {
		t.Errorf("after a step it is answered %d", got.Status)
	}
}

func TestActionsMatchFreeqServers(t *testing.T) {
	w := newWorld(t)
	eliza, scholar := w.login(t, "eliza"), w.login(t, "scholar")
	id := eliza.offer(t, map[string]any{"to": scholar.did, "title": "x"})
	list := decode[contract.Actions](t, scholar.get(t, "/api/v1/actions"), http.StatusOK)
	if len(list.Tasks) != 1 || list.Tasks[0].ActID != id || list.Tasks[0].Assignee != nil || *list.Tasks[0].Offeree != string(scholar.did) {
		t.Errorf("the list is %+v", list)
	}
	scholar.step(t, id, "accept", nil)
	for query, want := range map[string]int{"?assignee=" + string(scholar.did): 1, "?assignee=" + string(eliza.did): 0, "?state=offered": 0, "?state=assigned&kind=handoff": 1} {
		if got := decode[contract.Actions](t, scholar.get(t, "/api/v1/actions"+query), http.StatusOK); len(got.Tasks) != want {
			t.Errorf("%s: %d tasks, want %d", query, len(got.Tasks), want)
		}
	}
	scholar.step(t, id, "complete", nil)
	log := decode[contract.ActionLog](t, eliza.get(t, "/api/v1/actions/"+id), http.StatusOK)
	if log.Task != nil || len(log.Events) != 3 || *log.Events[0].ConfirmState != "confirmed" || log.Events[0].Canonical == "" {
		t.Errorf("the log is %+v", log)
	}
}

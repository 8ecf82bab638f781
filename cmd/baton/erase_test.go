package main_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/federation/store/fsck"
)

// zebra is in each text of the erased person.
const zebra = "zebra-7f3a-quagga"

func TestEraseLeavesNoTraceInTheDataDirectory(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	eliza, bob := logIn(t, v.url()), logIn(t, v.url())
	crossed := v.crossed(t, eliza)
	plain := eliza.offer(t, map[string]any{"title": zebra, "to": string(bob.did), "context": map[string]any{"topic": zebra}})
	bob.step(t, plain, "accept", map[string]any{"note": zebra})
	bob.step(t, plain, "complete", map[string]any{"note": zebra, "context": map[string]any{"found": strings.Repeat(zebra, 400)}})
	eliza.must(t, http.StatusCreated, http.MethodPost, "messages", map[string]any{"to": string(bob.did), "text": zebra, "handoff": plain}, nil)
	open := eliza.offer(t, map[string]any{"title": zebra, "to": string(bob.did)})
	kept := bob.offer(t, map[string]any{"title": "of others", "to": v.scout.DID})
	if files := v.having(t, zebra); len(files) == 0 {
		t.Fatal("the text is in no file before the erasure")
	}

	erase := []string{"erase", string(eliza.did), "--yes", "--reason", "she asked"}
	refused := v.command(t, erase...)
	var told bytes.Buffer
	refused.Stderr = &told
	if err := refused.Run(); err == nil || refused.ProcessState.ExitCode() != 3 || !strings.Contains(told.String(), open) || !strings.Contains(told.String(), "open-handoffs") {
		t.Fatalf("with an open handoff it ends with %v: %s", refused.ProcessState, &told)
	}
	eliza.step(t, open, "cancel", nil)
	v.verifies(t, 0)

	var planned, done admin.Erased
	v.asks(t, &planned, append(erase, "--dry-run")...)
	if len(v.having(t, zebra)) == 0 || planned.Handoffs != 3 || planned.Messages == 0 || planned.Evidence == 0 || !planned.DryRun {
		t.Errorf("the dry run is %+v", planned)
	}
	v.asks(t, &done, erase...)
	planned.DryRun = false
	if want, got := asText(t, planned), asText(t, done); want != got {
		t.Errorf("the erasure is\n%s, and was to be\n%s", got, want)
	}
	eliza.logInAgain(t) // the erasure ended her sessions
	v.shownErased(t, eliza, crossed, plain)
	var other admin.Handoff
	if v.asks(t, &other, "handoff", "show", kept); other.Title != "of others" || !other.Erased.IsZero() {
		t.Errorf("the handoff of others is %+v", other)
	}
	var audit struct{ Items []admin.Change }
	v.asks(t, &audit, "audit", "list")
	if len(audit.Items) != 1 || audit.Items[0].What != "erase" || audit.Items[0].Reason != "she asked" {
		t.Errorf("the audit log has %+v", audit.Items)
	}
	v.kill(t) // without the checkpoint of an orderly end
	if files := v.having(t, zebra); len(files) > 0 {
		t.Errorf("the text is left in %v", files)
	}
	v.start(t)
	v.ready(t)
	v.verifies(t, planned.Documents+planned.Messages)
	if code := v.stop(t); code != 0 {
		t.Errorf("it ends with %d", code)
	}
}

func TestEraseResumesAfterAnInterruption(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	v.stop(t)
	v.death = whileErasing
	v.start(t)
	v.ready(t)
	eliza, bob := logIn(t, v.url()), logIn(t, v.url())
	id := eliza.offer(t, map[string]any{"title": zebra, "to": string(bob.did), "context": map[string]any{"topic": zebra}})
	bob.step(t, id, "decline", map[string]any{"note": zebra})
	eliza.must(t, http.StatusCreated, http.MethodPost, "messages", map[string]any{"to": string(bob.did), "text": zebra, "handoff": id}, nil)
	erase := []string{"erase", string(eliza.did), "--yes", "--reason", "she asked"}
	cut := v.command(t, erase...)
	if out, err := cut.Output(); err == nil || cut.ProcessState.ExitCode() != 4 {
		t.Errorf("an erasure in which the gateway dies ends with %v: %s", cut.ProcessState, out)
	}
	v.wait(t)
	v.death = ""
	v.start(t)
	v.ready(t)
	v.verifies(t, 2)
	if len(v.having(t, zebra)) == 0 {
		t.Error("nothing was left to erase: the gateway died too late")
	}
	var done admin.Erased
	if v.asks(t, &done, erase...); done.Handoffs != 0 || done.Messages != 1 {
		t.Errorf("the rest is %+v", done)
	}
	v.kill(t)
	if files := v.having(t, zebra); len(files) > 0 {
		t.Errorf("the text is left in %v", files)
	}
	v.start(t)
	v.ready(t)
	v.verifies(t, 3)
}

// crossed has a handoff done by the agent of the registry, with evidence.
func (v *village) crossed(t *testing.T, from *caller) string {
	t.Helper()
	id := from.offer(t, map[string]any{"title": zebra, "to": v.scout.DID, "context": map[string]any{"topic": zebra}})
	_, requester := v.reads(t, "system:handshake_request")
	if status, answer, err := v.scout.Consent(t.Context(), requester, "accept"); err != nil || status != http.StatusOK {
		t.Fatalf("consent: %d, %v, %v", status, answer, err)
	}
	request, sender := v.reads(t, "task:request")
	for _, payload := range []map[string]any{
		{"type": "ack", "data": map[string]any{"replyTo": request, "status": "received"}},
		{"type": "task:result", "data": map[string]any{"requestId": request, "status": "completed", "result": map[string]any{"note": zebra}}},
	} {
		if status, got, err := v.scout.Send(t.Context(), sender, zebra, payload); err != nil || status != http.StatusCreated {
			t.Fatalf("%v: %d, %v, %v", payload, status, got, err)
		}
	}
	return id
}

// verifies checks that the record is sound, and how many events of it are erased.
func (v *village) verifies(t *testing.T, erased int) {
	t.Helper()
	var report fsck.Report
	if v.asks(t, &report, "verify"); len(report.Damage) > 0 || report.Erased > erased || erased > 0 && report.Erased == 0 {
		t.Errorf("the record has %d erased events, want up to %d: %+v", report.Erased, erased, report)
	}
}

// shownErased checks that every reader of an erased handoff gets it without its text.
func (v *village) shownErased(t *testing.T, eliza *caller, ids ...string) {
	t.Helper()
	for _, id := range ids {
		var shown admin.Handoff
		if v.asks(t, &shown, "handoff", "show", id); shown.State != "completed" || shown.Title != "" || shown.Erased.IsZero() || len(shown.Steps) < 3 {
			t.Errorf("handoff show %s: %+v", id, shown)
		}
		for _, step := range shown.Steps {
			if !step.Erased || step.Verdict != "unverifiable" || step.From == "" || step.Evidence != nil {
				t.Errorf("a step of %s is %+v", id, step)
			}
			v.asks(t, &struct{}{}, "explain", step.EventID.String())
		}
		var rest struct {
			Title string
			Steps []struct{ Verb string }
		}
		eliza.must(t, http.StatusOK, http.MethodGet, "handoffs/"+id, nil, &rest)
		if len(rest.Steps) != len(shown.Steps) || rest.Title != "" {
			t.Errorf("REST shows %+v", rest)
		}
		folder := t.TempDir()
		if out, err := v.command(t, "handoff", "export", id, "-o", filepath.Join(folder, "passport.json")).CombinedOutput(); err != nil {
			t.Fatalf("export: %v, %s", err, out)
		}
		if said, code := verifyPassport(t, folder); code != 4 || !strings.Contains(said, "document-erased in step 1") {
			t.Errorf("the passport is judged %d: %s", code, said)
		}
	}
	eliza.must(t, http.StatusOK, http.MethodGet, "inbox", nil, nil)
}

// having returns the files with a text in the folder of the gateway, except
// its log.
func (v *village) having(t *testing.T, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(v.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return found
}

func asText(t *testing.T, document any) string {
	t.Helper()
	text, err := json.MarshalIndent(document, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

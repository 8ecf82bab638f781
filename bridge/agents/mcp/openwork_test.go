package mcp_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// An agent finds each open offer that it may claim, and learns its missing
// capabilities for the others.
func TestOpenWorkIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	eliza, scout := w.agent(t, "eliza"), w.agent(t, "scout")
	offering, working := eliza.connect(t, "", nil), scout.connect(t, "", nil)
	offer := func(arguments map[string]any) string {
		t.Helper()
		return call(t, offering, "handoff_offer", arguments).filed().ID
	}
	plainOffer := offer(map[string]any{"open": true, "title": "Cite three sources"})
	skilled := offer(map[string]any{"open": true, "title": "Prove a lemma", "caps": []string{"lean"}})
	offer(map[string]any{"to": w.agent(t, "other").did, "title": "Cite a private source"})
	list := func(arguments map[string]any) (ids []string, missing [][]string) {
		t.Helper()
		var page struct {
			Items []struct {
				ID      string
				Missing []string `json:"missing_caps"`
			}
		}
		call(t, working, "handoff_list", arguments).ok().into(&page)
		for _, item := range page.Items {
			ids, missing = append(ids, item.ID), append(missing, item.Missing)
		}
		return ids, missing
	}
	if ids, missing := list(map[string]any{"claimable": true}); !slices.Equal(ids, []string{plainOffer}) || len(missing[0]) > 0 {
		t.Errorf("the agent may claim %v, without %v", ids, missing)
	}
	ids, missing := list(map[string]any{"claimable": false, "state": "open", "q": "lemma"})
	if !slices.Equal(ids, []string{skilled}) || !slices.Equal(missing[0], []string{"lean"}) {
		t.Errorf("open offers are %v, without %v", ids, missing)
	}
	if got := call(t, working, "handoff_get", map[string]any{"id": skilled}).ok(); !strings.Contains(got.Text, "not declared lean") {
		t.Errorf("the offer is shown as %s", got.Text)
	}
	if ids, _ := list(nil); len(ids) > 0 {
		t.Errorf("without a filter the agent has %v", ids)
	}
	if err := w.Record.Declare(t.Context(), federation.Declaration{DID: scout.did, Caps: []string{"lean"}, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if ids, _ := list(map[string]any{"claimable": true}); !slices.Equal(ids, []string{skilled, plainOffer}) {
		t.Errorf("with the skill it may claim %v, want the newest first: %s %s", ids, skilled, plainOffer)
	}
	wrong := call(t, working, "handoff_list", map[string]any{"state": "pending"}).problem()
	if wrong.Error.Code != "usage" || !strings.Contains(wrong.Error.Detail, "assigned, cancelled, completed") {
		t.Errorf("a state that no handoff has is answered %+v", wrong)
	}
	call(t, working, "handoff_claim", map[string]any{"id": plainOffer}).ok()
	late := call(t, w.agent(t, "late").connect(t, "", nil), "handoff_claim", map[string]any{"id": plainOffer}).problem()
	if late.Error.Code != "illegal-step" || late.Error.Assignee != string(scout.did) {
		t.Errorf("a late claim is answered %+v", late)
	}
}

package rest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The cost of a request including the check of the contract, the search for its
// caller and the answer, on a record in memory.
func BenchmarkAStepThatIsVouchedFor(b *testing.B) {
	w := newWorld(b)
	eliza, scholar := w.login(b, "eliza"), w.login(b, "scholar")
	id := eliza.offer(b, map[string]any{"to": scholar.did, "title": "x"})
	scholar.step(b, id, "accept", nil)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/api/v1/handoffs/"+id+"/progress", strings.NewReader(`{"note":"on my way"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+scholar.token)
		recorder := httptest.NewRecorder()
		if w.mux.ServeHTTP(recorder, r); recorder.Code != http.StatusCreated {
			b.Fatal(recorder.Body)
		}
	}
}

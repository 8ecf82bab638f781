package macp_test

import (
	"net/http"
	"strings"
	"testing"
)

// A caller takes the header of an answer for the start of its stream.
func TestWatchAnswersOnceSubscribed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "owner")
	for _, method := range []string{"WatchSessions", "WatchSignals", "WatchPolicies"} {
		watch := func() int {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.cfg.Listen+"/macp/v1/"+method, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+token("owner"))
			req.Header.Set("Content-Type", "application/json")
			response, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = response.Body.Close() })
			return response.StatusCode
		}
		for range 64 {
			if got := watch(); got != http.StatusOK {
				t.Fatalf("%s is answered %d", method, got)
			}
		}
		if got := watch(); got != http.StatusTooManyRequests {
			t.Errorf("a stream of %s too many is answered %d", method, got)
		}
	}
}

package bridge_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
)

func TestProblemOfSaysWhenToComeAgain(t *testing.T) {
	outage := &federation.UnavailableError{What: "record", Err: errors.New("planted")}
	for name, test := range map[string]struct {
		err  error
		want bridge.ProblemError
	}{
		"an outage":           {outage, bridge.ProblemError{Status: 503, Code: "unavailable", RetryAfter: 5}},
		"a known outage":      {&federation.UnavailableError{What: "record", RetryAfter: 1500 * time.Millisecond}, bridge.ProblemError{Status: 503, Code: "unavailable", RetryAfter: 2}},
		"a wrapped outage":    {fmt.Errorf("read: %w", outage), bridge.ProblemError{Status: 503, Code: "unavailable", RetryAfter: 5}},
		"a problem":           {&bridge.ProblemError{Status: 503, Code: "unavailable"}, bridge.ProblemError{Status: 503, Code: "unavailable", RetryAfter: 5}},
		"no key":              {&federation.RefusalError{Code: federation.SignatureUnverifiable}, bridge.ProblemError{Status: 503, Code: "signature-unverifiable", RetryAfter: 5}},
		"a rate":              {&federation.RefusalError{Code: federation.RateLimited}, bridge.ProblemError{Status: 429, Code: "rate-limited", RetryAfter: 60}},
		"a known rate":        {&federation.RefusalError{Code: federation.RateLimited, RetryAfter: time.Second}, bridge.ProblemError{Status: 429, Code: "rate-limited", RetryAfter: 1}},
		"a full inbox":        {&federation.RefusalError{Code: federation.InboxFull}, bridge.ProblemError{Status: 429, Code: "inbox-full", RetryAfter: 60}},
		"a quota":             {&federation.RefusalError{Code: federation.QuotaExceeded}, bridge.ProblemError{Status: 429, Code: "quota-exceeded", RetryAfter: 60}},
		"a refusal for good":  {&federation.RefusalError{Code: federation.IllegalStep}, bridge.ProblemError{Status: 409, Code: "illegal-step"}},
		"a fault of this one": {errors.New("planted"), bridge.ProblemError{Status: 500, Code: "failed"}},
	} {
		got := bridge.ProblemOf(test.err)
		if got.Status != test.want.Status || got.Code != test.want.Code || got.RetryAfter != test.want.RetryAfter || got.Title != http.StatusText(got.Status) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestRetryHeaderIsOnEach503And429(t *testing.T) {
	for _, test := range []struct {
		status, seconds int
		want            string
	}{{503, 0, "5"}, {503, 7, "7"}, {429, 0, "60"}, {429, 1, "1"}, {500, 0, ""}, {409, 0, ""}, {202, 3, "3"}} {
		h := http.Header{}
		if bridge.RetryHeader(h, test.status, test.seconds); h.Get("Retry-After") != test.want {
			t.Errorf("%d after %d s: %q, want %q", test.status, test.seconds, h.Get("Retry-After"), test.want)
		}
	}
}

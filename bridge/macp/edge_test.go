package macp_test

import (
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/baton-gateway/baton/bridge/macp"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate/macpmode"
)

func TestRetryAfterIsOnEachUnavailableAnswer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err       error
		rpc, json string // Retry-After in both bindings
	}{
		"outage":       {&federation.UnavailableError{What: "record"}, "5", "5"},
		"known outage": {&federation.UnavailableError{What: "record", RetryAfter: 1500 * time.Millisecond}, "2", "2"},
		"rate":         {&federation.RefusalError{Code: federation.RateLimited}, "60", "60"},
		"known rate":   {&federation.RefusalError{Code: federation.RateLimited, RetryAfter: 500 * time.Millisecond}, "1", "1"},
		"slow reader":  {macpmode.Refuse(macpmode.RateLimited, "the reader is too slow"), "60", "60"},
		"mistake":      {macpmode.Refuse(macpmode.InvalidEnvelope, "no mode"), "", ""},
	} {
		answer := httptest.NewRecorder()
		macp.WriteError(answer, test.err)
		told, ok := errors.AsType[*connect.Error](macp.RPCError(test.err))
		if !ok || told.Meta().Get("Retry-After") != test.rpc || answer.Header().Get("Retry-After") != test.json {
			t.Errorf("%s: Retry-After %q over gRPC and %q in JSON, want %q and %q", name, told.Meta().Get("Retry-After"), answer.Header().Get("Retry-After"), test.rpc, test.json)
		}
	}
}

package airc_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/baton-gateway/baton/bridge/airc"
	"github.com/baton-gateway/baton/bridge/airc/peers"
	"github.com/baton-gateway/baton/translate/translatetest"
)

// FuzzMessage posts whatever text as a message, in each of the dialects: every answer
// is JSON, and none is a mistake of ours.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		`{"v":"0.1","id":"0123456789abcdef","kid":"k","aud":"gw.example","from":"scout_7","to":"amy_1","timestamp":1,"body":"x","payload":{"type":"ack","data":{"replyTo":"y","status":"received"}},"signature":"z"}`,
		`{"to":"amy_1","text":"x","type":"handoff","reply_to":"y","idempotency_key":"12345678"}`,
		`{"to":"@amy-1","payload":{"type":"task:request","content":{"description":"x","context":{"a":1e999}}}}`,
		`{"origin_registry":"a.test","from":"@x_1@a.test","to":"scout_7","body":"x","payload":null,"envelope":{},"origin_registry_signature":"ed25519:AA"}`,
		`{"to":"anyone","payload":{"type":"at.freeq:handoff","data":{"handoff":{"event":"offer","title":"` + "\u0000" + `","caps":["` + "\xff" + `"]}}}}`,
		`[]`, `null`, `{`, `{"a":1,"a":2}`, `{"__proto__":{}}`,
	} {
		f.Add([]byte(seed))
	}
	for _, payload := range translatetest.Payloads(f, "../../translate/aircmsg/testdata/decode") { // each shape in use
		f.Add(fmt.Appendf(nil, `{"to":"amy_1","origin_registry":"a.test","from":"x_1","body":"x","payload":%s}`, payload))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		net := newInternet()
		net.join(t, "a.test", 0x0a)
		w := newWorld(t, func(c *airc.Config, d *airc.Deps) {
			c.AppendixB, d.Fetch = true, net.client()
			c.Peers = []peers.Config{{Domain: "a.test", Unsigned: peers.ModeAllow, Networks: []string{"192.0.2.0/24"}}}
		})
		strict, client := w.agent(t, "scout_7", 0x01), w.newcomer(t, "amy_1", nil)
		for path, token := range map[string]string{
			"/messages": strict.Token, "/api/messages": client.token, "/federation/relay": "", "/federation/consent": "",
			"/api/consent": client.token, "/api/presence": "", "/identity/rotate": strict.Token, "/api/identity/revoke": client.token,
		} {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(text))
			request.Header.Set("Authorization", "Bearer "+token)
			recorder := httptest.NewRecorder()
			w.mux.ServeHTTP(recorder, request)
			if !json.Valid(recorder.Body.Bytes()) || recorder.Code == http.StatusInternalServerError {
				t.Errorf("POST %s of %q: %d %s\n%s", path, text, recorder.Code, recorder.Body, w.log)
			}
		}
	})
}

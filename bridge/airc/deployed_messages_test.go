package airc_test

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"strings"
	"testing"
)

// approvedDigest is the digest of an approved text to a recipient.
func approvedDigest(to, text string) string {
	sum := sha256.Sum256([]byte(to + "\n" + text))
	return hex.EncodeToString(sum[:])
}

// spec: wire/airc §1.3
func TestDeployedMessageIsTheApprovedOne(t *testing.T) {
	t.Parallel()
	good := approvedDigest("scout_7", "see <b>bold</b> ")
	for name, test := range map[string]struct {
		digest any
		change map[string]any
		want   string
	}{
		"the approved one":               {good, nil, "202"},
		"the approved one, in capitals":  {strings.ToUpper(good), nil, "202"},
		"its recipient in capitals":      {good, map[string]any{"to": "@Scout_7"}, "202"},
		"its recipient with a hyphen":    {approvedDigest("scout-7", "see <b>bold</b> "), map[string]any{"to": "scout-7"}, "202"},
		"no approval":                    {nil, nil, "202"},
		"another text":                   {good, map[string]any{"body": "see <b>bold</b>"}, "409 approved_content_mismatch"},
		"another recipient":              {good, map[string]any{"to": "zoe_3"}, "409 approved_content_mismatch"},
		"a digest of no SHA-256":         {"abc", nil, "400 approved_sha256_malformed"},
		"a digest that is no hex":        {strings.Repeat("x", 64), nil, "400 approved_sha256_malformed"},
		"a digest that is a number":      {7, nil, "400 approved_sha256_malformed"},
		"an approval that is empty":      {"", nil, "400 approved_sha256_malformed"},
		"the text of another member too": {approvedDigest("scout_7", "text"), map[string]any{"body": nil, "text": "text"}, "202"},
	} {
		for _, path := range []string{"/api/messages", "/api/v2/messages", "/api/messages/send"} {
			w := newWorld(t)
			amy := w.newcomer(t, "amy_1", nil)
			w.newcomer(t, "scout_7", nil)
			w.newcomer(t, "zoe_3", nil)
			body := map[string]any{"to": "scout_7", "body": "see <b>bold</b> "}
			maps.Copy(body, test.change)
			if test.digest != nil {
				body["approved_sha256"] = test.digest
			}
			status, answer := amy.call(t, http.MethodPost, path, body)
			if got := told(status, answer, nil); got != test.want {
				t.Errorf("%s at %s: %s %v, want %s", name, path, got, answer["message"], test.want)
			}
			if status != http.StatusConflict {
				continue
			}
			to, _ := body["to"].(string)
			if answer["server_text"] != body["body"] || answer["server_sha256"] != approvedDigest(to, body["body"].(string)) || answer["reason"] != "content_differs" {
				t.Errorf("%s: the preview is %v", name, answer)
			}
			if sent, err := w.record.Conversations(t.Context(), "amy_1", 10); err != nil || len(sent) != 0 {
				t.Errorf("%s: %d conversations, %v", name, len(sent), err)
			}
		}
	}
}

package a2a_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestRequestsMatchNamesExactly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, bob := w.login(t, "ada"), w.login(t, "bob").declares(t, "cite")
	message := func(more string) string {
		return `{"message":{"messageId":"m` + fmt.Sprint(len(more)) + `","role":"ROLE_USER",` + more + `},"configuration":{"returnImmediately":true}}`
	}
	for params, want := range map[string]string{
		message(`"parts":[{"text":"Cite"}]`):                                               "",
		message(`"parts":[{"text":"Cite","x-shade":"red"}],"ContextId":"a b"`):             "", // unknown members
		message(`"parts":[{"text":"Cite","Text":"Pay"}]`):                                  `params: message.parts: member "Text" is not "text"`,
		message(`"parts":[{"text":"Cite","MediaType":"text/html"}]`):                       `params: message.parts: member "MediaType" is not "mediaType"`,
		message(`"Parts":[{"text":"Cite"}]`):                                               "message.parts: want one part or more",
		message(`"parts":[{"text":"Cite"}],"metadata":{"handoff":{"Title":"Pay"}}`):        `metadata.handoff: json: unknown field "Title"`,
		message(`"parts":[{"text":"Cite"}],"parts":[{"text":"Pay"}]`):                      `duplicate member "parts"`,
		strings.Replace(message(`"parts":[{"text":"Cite"}]`), `"message"`, `"Message"`, 1): "message",
	} {
		got := ada.call(t, bob.path(), "SendMessage", params)
		if want == "" && got.Result == nil || want != "" && (got.Result != nil || !strings.Contains(got.Text, strings.TrimPrefix(strings.ReplaceAll(want, `"`, `\"`), "params: "))) {
			t.Errorf("%s is answered %s, want %q", params, got.Text, want)
		}
	}
}

package measure_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/baton-gateway/baton/deploy/bench/scale/measure"
	"github.com/baton-gateway/baton/deploy/bench/scale/model"
)

// The costs are measured anew if a message between homes changes its form.
func TestGreetingHasTheMeasuredSize(t *testing.T) {
	t.Parallel()
	costs, err := model.Measured()
	if err != nil {
		t.Fatal(err)
	}
	got, err := measure.GreetingOf(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	want := costs.Exchanges[model.Greeting]
	for name, sizes := range map[string][2]int{
		"question": {got.Question, want.Question}, "question as read": {got.QuestionRead, want.QuestionRead},
		"answer": {got.Answer, want.Answer}, "answer as read": {got.AnswerRead, want.AnswerRead},
	} {
		if math.Abs(float64(sizes[0]-sizes[1])) > 0.05*float64(sizes[1]) {
			t.Errorf("the %s has %d bytes, measured were %d: go run ./bench/scale -measure bench/scale/model/costs.json", name, sizes[0], sizes[1])
		}
	}
}

func TestTapTellsKindsApart(t *testing.T) {
	t.Parallel()
	step := func(document, more string) string {
		return fmt.Sprintf(`{"type":"steps","items":[{"step":{"document":%q}%s}]}`, document, more)
	}
	for name, test := range map[string]struct{ subject, body, want string }{
		"greeting":           {"fed.b_test.a_test.steps", `{"type":"steps","items":[]}`, "greeting"},
		"offer":              {"fed.b_test.a_test.steps", step(`{"handoff":"offer","handoff-to":"did:key:z"}`, `,"ruling":{}`), "offer"},
		"offer to anyone":    {"fed.b_test.a_test.steps", step(`{"handoff":"offer"}`, `,"ruling":{}`), "open"},
		"step with a ruling": {"fed.b_test.a_test.steps", step(`{"handoff":"claim"}`, `,"ruling":{}`), "ruled"},
		"step without one":   {"fed.b_test.a_test.steps", step(`{"handoff":"accept"}`, ""), "accept"},
		"text":               {"fed.b_test.a_test.steps", step(`{"handoff":"private text"}`, ""), "text"},
		"search":             {"fed.b_test.a_test.lookup", `{"type":"lookup","path":"/fed/v1/homes/did:key:z"}`, "mailbox"},
		"pull":               {"$JS.API.CONSUMER.MSG.NEXT.FED_a__b.home", `{"batch":1}`, "pull"},
		"acknowledgement":    {"$JS.ACK.FED_a__b.home.1.1.1.1.0", "+ACK", "ack"},
	} {
		got, err := measure.KindOf(fmt.Sprintf("PUB %s %d\r\n%s\r\n", test.subject, len(test.body), test.body))
		if got != test.want {
			t.Errorf("%s: kind %q (%v), want %q", name, got, err, test.want)
		}
	}
}

package taskfile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/translate/taskfile"
)

func TestTermsReadsCapsAndDeadlineOfTheContext(t *testing.T) {
	t.Parallel()
	deadline := time.Date(2026, 8, 29, 10, 40, 0, 0, time.UTC)
	for context, want := range map[string]struct {
		caps     []string
		deadline time.Time
		lost     []string
	}{
		`{}`:      {},
		`null`:    {},
		`{"a":1}`: {},
		`{"caps":["web-search","go"],"deadline":"2026-08-29T10:40:00Z"}`: {caps: []string{"web-search", "go"}, deadline: deadline},
		`{"deadline":"2026-08-29T12:40:00.75+02:00"}`:                    {deadline: deadline},
		`{"deadline":1788000000}`:                                        {deadline: deadline},
		`{"deadline":1788000000.75}`:                                     {deadline: deadline},
		`{"deadline":"1788000000"}`:                                      {deadline: deadline}, // from a command line
		`{"caps":"web-search, go"}`:                                      {caps: []string{"web-search", "go"}},
		`{"caps":[]}`:                                                    {},
		`{"caps":""}`:                                                    {},
		`{"caps":[""]}`:                                                  {},
		`{"caps":["a b"]}`:                                               {lost: []string{"caps"}},
		`{"caps":7,"deadline":"2026-08-29T10:40:00Z"}`:                   {deadline: deadline, lost: []string{"caps"}},
		`{"caps":["go"],"deadline":"soon"}`:                              {caps: []string{"go"}, lost: []string{"deadline"}},
		`{"deadline":0}`:                                                 {lost: []string{"deadline"}},
		`{"deadline":-5}`:                                                {lost: []string{"deadline"}},
		`{"deadline":1e12}`:                                              {lost: []string{"deadline"}},
		`{"deadline":true}`:                                              {lost: []string{"deadline"}},
		`{"deadline":["2026-08-29T10:40:00Z"]}`:                          {lost: []string{"deadline"}},
		`{"Caps":["go"],"DEADLINE":1788000000}`:                          {}, // names are exact
		fmt.Sprintf(`{"caps":[%s"z"]}`, strings.Repeat(`"a",`, 16)):      {lost: []string{"caps"}},
		fmt.Sprintf(`{"caps":[%q]}`, strings.Repeat("a", 65)):            {lost: []string{"caps"}},
	} {
		r, err := taskfile.Read([]byte(`{"task_id":"t","from_agent":"a","to_agent":"b","status":"offered","description":"x","context":` + context +
			`,"created_at":"2026-06-01T12:00:00Z","updated_at":"2026-06-01T12:00:00Z"}`))
		if err != nil {
			t.Fatal(err)
		}
		caps, at, losses := r.Terms()
		var lost []string
		for _, loss := range losses {
			lost = append(lost, loss.Field)
		}
		if !cmp.Equal(caps, want.caps) || !at.Equal(want.deadline) || !cmp.Equal(lost, want.lost) {
			t.Errorf("%s: caps %q, deadline %s, lost %v; want %+v", context, caps, at, lost, want)
		}
	}
}

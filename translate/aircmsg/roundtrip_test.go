package aircmsg_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
	"github.com/baton-gateway/baton/translate/aircmsg"
)

// said is the content of a step that both networks can express.
type said struct {
	Verb     federation.Verb
	Handoff  federation.HandoffID
	Note     string
	Context  any // as JSON, or a reference
	Title    string
	Caps     []string
	Deadline int64
	Priority string
}

func read(s aircmsg.Step) said {
	got := said{Verb: s.Verb, Handoff: s.Handoff, Note: s.Note, Context: meaning(s.Context), Title: s.Title, Caps: s.Caps, Priority: s.Priority}
	if !s.Deadline.IsZero() {
		got.Deadline = s.Deadline.Unix()
	}
	return got
}

// meaning reads a context, whose spelling does not matter.
func meaning(context string) any {
	var value any
	if json.Unmarshal([]byte(context), &value) != nil {
		return context
	}
	return value
}

// event returns a step as IRC carries it: the offer's terms are in its view.
func (s said) event(context string) translate.Step {
	ev := federation.Event{
		ID: s.Handoff, Handoff: s.Handoff, Kind: federation.Handoff, Verb: s.Verb, From: "did:key:zAda", Venue: "#ops",
		Dialect: federation.HandoffTags, Note: s.Note, Context: context, Provenance: federation.Signed,
	}
	view := federation.View{ID: s.Handoff, Kind: federation.Handoff, Offerer: "did:key:zAda", Offeree: "did:key:zBob", Title: s.Title, Caps: s.Caps, Priority: s.Priority}
	if s.Deadline > 0 {
		view.Deadline = time.Unix(s.Deadline, 0)
	}
	return translate.Step{Entry: federation.Entry{Event: ev, Version: 1}, View: view, Name: func(d federation.DID) string { return d.Short() }}
}

func throughAIRC(t *rapid.T, s translate.Step, native bool) (aircmsg.Step, []federation.Loss) {
	m, losses, err := aircmsg.Encode(s, aircmsg.Out{Native: native})
	if err != nil {
		t.Fatalf("Encode: %v", err)
	}
	if n := utf8.RuneCountInString(m.Body); n == 0 || n > 4000 {
		t.Fatalf("a body of %d characters", n)
	}
	text, err := json.Marshal(m.Payload)
	if err != nil {
		t.Fatalf("write payload: %v", err)
	}
	step, err := aircmsg.Decode(text)
	if err != nil {
		t.Fatalf("Decode of %s: %v", text, err)
	}
	return step, losses
}

// check compares the returned step with the sent one, except the named fields.
func check(t *rapid.T, want, got said, losses []federation.Loss) {
	named := func(field string) bool {
		return slices.ContainsFunc(losses, func(l federation.Loss) bool { return l.Field == field })
	}
	if named("context") {
		got.Context = want.Context
	}
	if named("note") {
		got.Note = want.Note
	}
	if named("title") {
		got.Title = want.Title
	}
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("came back as %+v, want %+v (losses %v)", got, want, losses)
	}
}

var (
	word    = rapid.StringMatching(`[a-zäöü]{1,12}`)
	scalars = rapid.SampledFrom([]any{"x", 7.0, true, nil, []any{1.0, "y"}, map[string]any{"k": "v"}})
	// Members that mean something to one of the two networks, and members of neither.
	names = rapid.SampledFrom([]string{"note", "artifacts", "context", "result", "q", "files"})
)

// contexts are none, references and inline JSON.
func contexts(t *rapid.T) string {
	switch rapid.IntRange(0, 3).Draw(t, "kind of context") {
	case 0:
		return ""
	case 1:
		return "https://gw.example/context/" + word.Draw(t, "reference")
	case 2:
		return `["a",1]`
	}
	text, err := json.Marshal(rapid.MapOf(names, scalars).Draw(t, "context"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRoundTripFromIRC(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := said{
			Verb: rapid.SampledFrom([]federation.Verb{
				federation.Offer, federation.Accept, federation.Decline, federation.Claim, federation.Progress,
				federation.Complete, federation.Fail, federation.Cancel,
			}).Draw(t, "verb"),
			Handoff: federation.EventID{1, 2, 3},
		}
		context := contexts(t)
		want.Context = meaning(context)
		title := word.Draw(t, "title")
		var caps []string
		if want.Verb == federation.Offer {
			caps = rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z-]{1,8}`), 0, 3, rapid.ID).Draw(t, "caps")
			want.Title, want.Priority = title, rapid.SampledFrom([]string{"", "low", "high", "critical"}).Draw(t, "priority")
			want.Deadline = rapid.Int64Range(0, 1).Draw(t, "deadline") * 1_788_000_000
			if len(caps) > 0 {
				want.Caps = caps
			}
		} else {
			want.Note = rapid.StringMatching(`[ -~äöü]{0,40}`).Draw(t, "note")
		}
		sent := want
		sent.Title = title
		step, losses := throughAIRC(t, sent.event(context), rapid.Bool().Draw(t, "native"))
		check(t, want, read(step), losses)
	})
}

func TestRoundTripFromAIRCReportsLostFields(t *testing.T) {
	texts := rapid.SampledFrom([]string{"", "a note", "another"})
	rapid.Check(t, func(t *rapid.T) {
		data := map[string]any{"handoff": map[string]any{"id": federation.EventID{1, 2, 3}.String()}}
		put := func(name string, value any) {
			if rapid.Bool().Draw(t, name) {
				data[name] = value
			}
		}
		kind := rapid.SampledFrom([]string{"task:request", "handoff:session", "handoff", "ack", "task:result"}).Draw(t, "type")
		switch kind {
		case "ack":
			data["status"] = rapid.SampledFrom([]string{"received", "processed", "rejected", "unsupported_payload"}).Draw(t, "status")
		case "task:result":
			data["status"] = rapid.SampledFrom([]string{"partial", "completed", "failed"}).Draw(t, "status")
			put("result", scalars.Draw(t, "scalar"))
			put("artifacts", []any{"a"})
		default:
			data["description"] = word.Draw(t, "description")
			put("priority", "high")
			put("deadline", 1_788_000_000)
			put("files", []any{"main.go"})
			put("todos", []any{"test"})
		}
		for _, name := range []string{"message", "error", "reason", "note"} {
			put(name, texts.Draw(t, "text of "+name))
		}
		put("context", scalars.Draw(t, "context"))
		member := rapid.SampledFrom([]string{"data", "content"}).Draw(t, "member")
		text, err := json.Marshal(map[string]any{"type": kind, member: data})
		if err != nil {
			t.Fatal(err)
		}
		first, err := aircmsg.Decode(text)
		if err != nil {
			t.Fatalf("Decode of %s: %v", text, err)
		}
		want := read(first)
		out := want
		if out.Title == "" {
			out.Title = "x" // of the offer, which is before
		}
		second, losses := throughAIRC(t, out.event(first.Context), rapid.Bool().Draw(t, "native"))
		want.Handoff = federation.EventID{1, 2, 3}
		check(t, want, read(second), losses)
	})
}

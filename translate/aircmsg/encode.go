package aircmsg

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/translate"
)

// maxBodyChars bounds a body: the maximum of deployed registries.
const maxBodyChars = 4000

// Out is the input for a message besides the step.
type Out struct {
	// OfferMessage is the ID of the offer's message, received or sent by the recipient. If it is
	// empty, the handoff is named by its own ID.
	OfferMessage string
	// Native is true if the recipient accepts [TypeHandoff].
	Native bool
	// Evidence replaces the proof for a recipient that accepts no payload of that size. It may be
	// nil.
	Evidence *Evidence
}

// Encode writes one step for one recipient, and returns the losses of an AIRC message.
func Encode(s translate.Step, o Out) (Message, []federation.Loss, error) {
	m := Message{Payload: Payload{Type: payloadType(s.Event), Data: map[string]any{"handoff": describe(s, o)}}}
	if o.OfferMessage == "" {
		o.OfferMessage = s.View.ID.String()
	}
	losses := writeData(m.Payload.Data, s, o)
	if o.Evidence != nil {
		losses = append(losses, federation.Loss{Field: "proof", Fate: federation.Lost, Why: "the recipient takes no payload of that size; the evidence has it"})
	}
	if o.Native {
		m.Payload.Type = TypeHandoff
	}
	m.Body = cut(Sentence(s), maxBodyChars)
	return m, losses, nil
}

// EncodeTaken writes the message for agents that saw an open offer, after another agent claimed it or
// it ended. The message is not a step.
func EncodeTaken(s translate.Step, o Out) Message {
	return Message{
		Body: cut("This offer is no longer open: "+Sentence(s), maxBodyChars),
		Payload: Payload{Type: TypeHandoff, Data: map[string]any{
			"notice": noticeTaken, "messageId": o.OfferMessage, "handoff": describe(s, o),
		}},
	}
}

// Only the kind handoff has standard types, because the taker of a task never bids for it first.
func payloadType(ev federation.Event) string {
	if ev.Kind != federation.Handoff {
		return TypeHandoff
	}
	switch ev.Verb {
	case federation.Offer:
		return typeRequest
	case federation.Accept, federation.Claim, federation.Decline:
		return typeAck
	case federation.Progress, federation.Complete, federation.Fail:
		return typeResult
	case federation.Cancel, federation.Expire, federation.Confirm:
	}
	return TypeHandoff
}

func writeData(data map[string]any, s translate.Step, o Out) []federation.Loss {
	ev := s.Event
	switch ev.Verb {
	case federation.Offer:
		data["description"] = s.View.Title
		if !s.View.Deadline.IsZero() {
			data["deadline"] = s.View.Deadline.Unix()
		}
		if s.View.Priority != "" {
			data["priority"] = s.View.Priority
		}
	case federation.Accept, federation.Claim:
		data["replyTo"], data["status"] = o.OfferMessage, statusReceived
	case federation.Decline:
		data["replyTo"], data["status"], data["message"] = o.OfferMessage, statusRejected, ev.Note
	case federation.Progress:
		data["requestId"], data["status"], data["result"] = o.OfferMessage, statusPartial, noted(ev.Note)
	case federation.Complete:
		data["requestId"], data["status"], data["result"] = o.OfferMessage, statusCompleted, noted(ev.Note)
	case federation.Fail:
		data["requestId"], data["status"], data["error"] = o.OfferMessage, statusFailed, ev.Note
	case federation.Cancel, federation.Expire, federation.Confirm:
	}
	return append(writeContext(data, ev), lost(ev)...)
}

// The lost content is in the proof.
func lost(ev federation.Event) []federation.Loss {
	var losses []federation.Loss
	for _, member := range []struct {
		name  string
		there bool
	}{
		{"accepts", !ev.Accepts.IsZero()}, {"bid_deadline", !ev.BidDeadline.IsZero()},
	} {
		if member.there {
			losses = append(losses, federation.Loss{Field: member.name, Fate: federation.Lost, Why: "no member of the payload is for it"})
		}
	}
	return losses
}

func noted(note string) map[string]any {
	if note == "" {
		return map[string]any{}
	}
	return map[string]any{"note": note}
}

// An inline context is unchanged on an offer, and becomes result and artifacts on a result. A
// reference is in data.handoff.
func writeContext(data map[string]any, ev federation.Event) []federation.Loss {
	if !federation.InlineContext(ev.Context) {
		return nil
	}
	if err := federation.LosslessJSON([]byte(ev.Context)); err != nil {
		// The registry signs canonical JSON and would change it. The text is in the proof.
		return []federation.Loss{{Field: "context", Fate: federation.Lost, Why: err.Error()}}
	}
	value := json.RawMessage(ev.Context)
	var members map[string]json.RawMessage
	result, isResult := data["result"].(map[string]any)
	if !isResult || federation.DecodeJSON(value, &members) != nil || len(members) == 0 {
		data["context"] = value
		return nil
	}
	_, noted := members["note"] // a result already has the note of the step
	if artifacts, some := members["artifacts"]; noted || some && !there(artifacts) {
		data["context"] = value
		return nil
	}
	for name, member := range members {
		switch {
		case name == "artifacts":
			data["artifacts"] = member
		case name != "note":
			result[name] = member
		}
	}
	return nil
}

func describe(s translate.Step, o Out) Handoff {
	ev, v := s.Event, s.View
	h := Handoff{
		ID: v.ID, Kind: v.Kind, Event: ev.Verb, EventID: ev.ID, Seq: s.Version, State: s.State,
		Home: v.Home, Venue: v.Venue, Dialect: v.Dialect, From: v.Offerer, To: v.Offeree,
		Title: v.Title, Caps: v.Caps, Replaces: v.Replaces, ContextH: ev.ContextHash, Note: ev.Note, Provenance: ev.Provenance,
	}
	if s.Version > 1 {
		h.Assignee = v.Assignee
	}
	if !v.Deadline.IsZero() {
		h.Deadline = v.Deadline.Unix()
	}
	if !federation.InlineContext(ev.Context) {
		h.ContextRef = ev.Context
	}
	if ev.Signature.Document != "" && o.Evidence == nil {
		h.Proof = &Proof{
			Scheme: ev.Dialect, Document: ev.Signature.Document, Signature: ev.Signature.Text,
			PublicKey: base64.RawURLEncoding.EncodeToString(ev.Signature.Key),
		}
	}
	if ev.Evidence != nil {
		h.Evidence = &Evidence{URL: ev.Evidence.URL, SHA256: hex.EncodeToString(ev.Evidence.Digest[:])}
	}
	if o.Evidence != nil {
		h.Evidence = o.Evidence
	}
	return h
}

// Update adds the current state of the handoff, as state_now, to a canonical payload. It returns
// false if the payload already has this state, or none.
//
// spec: airc-shapes "Sessions and proofs"
func Update(payload json.RawMessage, now federation.State) (updated json.RawMessage, changed bool) {
	var p Payload
	if federation.DecodeJSON(payload, &p) != nil {
		return payload, false
	}
	handoff, _ := p.Data["handoff"].(map[string]any)
	then, shown := handoff["state"].(string)
	if !shown || then == string(now) {
		return payload, false
	}
	handoff["state_now"] = now
	updated, _ = json.Marshal(p) //nolint:errchkjson // decoded from JSON
	return updated, true
}

// Sentence describes a step in a readable sentence.
func Sentence(s translate.Step) string { return federation.PlainText(sentence(s)) }

func sentence(s translate.Step) string {
	ev, v := s.Event, s.View
	who := s.Name(ev.Actor())
	say := func(verb string) string {
		if ev.Note == "" {
			return fmt.Sprintf("%s %s: %s", who, verb, v.Title)
		}
		return fmt.Sprintf("%s %s: %s (%s)", who, verb, v.Title, ev.Note)
	}
	switch ev.Verb {
	case federation.Offer:
		return offerSentence(s, who)
	case federation.Accept:
		return say("accepts")
	case federation.Decline:
		return say("declines")
	case federation.Claim:
		return say("claims")
	case federation.Progress:
		return say("reports progress on")
	case federation.Complete:
		return say("completed")
	case federation.Fail:
		return say("failed")
	case federation.Cancel:
		return say("cancels")
	case federation.Expire:
		return "expired: " + v.Title
	case federation.Confirm: // never sent to an agent
	}
	if ev.From == v.Home.DID() {
		return string(ev.Verb) + ": " + v.Title // an expiry has no author either
	}
	return say(string(ev.Verb))
}

func offerSentence(s translate.Step, who string) string {
	to := "anyone"
	if s.View.Offeree != "" {
		to = s.Name(s.View.Offeree)
	}
	var terms []string
	if !s.View.Deadline.IsZero() {
		terms = append(terms, "due "+s.View.Deadline.UTC().Format(time.RFC3339))
	}
	if len(s.View.Caps) > 0 {
		terms = append(terms, "needs "+strings.Join(s.View.Caps, ", "))
	}
	text := fmt.Sprintf("%s offers %s: %s", who, to, s.View.Title)
	if len(terms) == 0 {
		return text
	}
	return text + " (" + strings.Join(terms, ", ") + ")"
}

func cut(s string, chars int) string {
	if utf8.RuneCountInString(s) <= chars {
		return s
	}
	return string([]rune(s)[:chars-1]) + "…"
}

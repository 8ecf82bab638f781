package relay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"baton/federation"
)

// Version is the "v" of everything that homes send each other, and all that is read.
const Version = federation.HomeProtocol

// Bounds of one exchange.
const (
	maxItems      = 256       // steps of a batch
	batchBytes    = 512 << 10 // of steps in a batch; the last one may go above it
	maxBatchBytes = 2 << 20   // of a batch that is read: a bound of our own, and room for the largest step
	maxSteps      = 64        // steps that go with one result; the asker asks for more
)

// The types of what homes sign for each other, beside [federation.HomeProfileType]. No
// signature is good for another type.
const (
	typeSteps      = "steps"
	typeResults    = "results"
	typeRuling     = "ruling"
	typeVoucher    = "voucher"
	typeResident   = "resident"
	typeDigest     = "digest"
	typeComparison = "comparison"
	typeMove       = "move"
	typeMoved      = "moved"
	typeLookup     = "lookup"
	typeFound      = "found"
)

// heading is how each question of one home to another begins.
type heading struct {
	Type string            `json:"type"`
	V    int               `json:"v"`
	From federation.HomeID `json:"from"`
	To   federation.HomeID `json:"to"`
	Sent time.Time         `json:"sent"`
	Boot string            `json:"boot,omitempty"` // see [Deps].Boot
}

// check returns why a question is none of a type for a home.
func (h heading) check(kind string, to federation.HomeID) error {
	switch {
	case h.Type != kind || h.V != Version:
		return fmt.Errorf("want type %q of version %d", kind, Version)
	case h.To != to:
		return fmt.Errorf("it is for home %q", h.To)
	case h.From == "" || h.From == to:
		return errors.New("it names no other home that it is from")
	}
	return nil
}

// ask returns how a question to another home begins.
func (d Deps) ask(kind string, to federation.HomeID) heading {
	return heading{Type: kind, V: Version, From: d.Home, To: to, Sent: d.Now().UTC(), Boot: d.Boot}
}

// foot is how each answer to a question begins.
type foot struct {
	Type string            `json:"type"`
	V    int               `json:"v"`
	From federation.HomeID `json:"from"`
	To   federation.HomeID `json:"to"`
	Of   string            `json:"of"`             // SHA-256 of the question, hexadecimal
	Boot string            `json:"boot,omitempty"` // see [Deps].Boot
}

// answers returns how the answer of a type to a question begins.
func (h heading) answers(kind string, question []byte) foot {
	return foot{Type: kind, V: Version, From: h.To, To: h.From, Of: digestOf(string(question))}
}

// is reports whether an answer begins as the expected one, from any start of the other home.
func (f foot) is(expected foot) bool {
	expected.Boot = f.Boot
	return f == expected
}

// answers returns how the answer of this home to a question begins.
func (d Deps) answers(h heading, kind string, question []byte) foot {
	f := h.answers(kind, question)
	f.Boot = d.Boot
	return f
}

// batch is what one home sends another: steps, in the order of each handoff.
type batch struct {
	heading

	Items []item `json:"items"`
}

// item is one step. With a ruling it is what the home of its handoff has filed; without
// one it asks that home to.
type item struct {
	Step   carried             `json:"step"`
	Ruling *signed             `json:"ruling,omitempty"`
	Have   *federation.Version `json:"have,omitempty"` // beside a question: how far the asker's log goes
}

// signed is what a home signed.
type signed struct {
	Document  string `json:"document"` // exactly as signed
	Signature string `json:"signature"`
}

// carried is a step as its signer signed it. Beside that stands what no signature
// covers: what is in the document needs no member of its own.
type carried struct {
	Document   string                `json:"document"`
	Signature  string                `json:"signature"`
	ID         federation.EventID    `json:"id"`
	Provenance federation.Provenance `json:"provenance"`
	Party      federation.DID        `json:"party,omitempty"` // the DID that the asker knows the signer by
	Name       string                `json:"name,omitempty"`  // what the signer was called; for people only
	MessageID  string                `json:"message_id,omitempty"`
	Received   time.Time             `json:"received"`
	Evidence   *evidence             `json:"evidence,omitempty"`
	Voucher    *signed               `json:"voucher,omitempty"` // of the home that it came through
}

// evidence is the original behind a vouched step.
type evidence struct {
	URL     string `json:"url"`
	Content string `json:"content"` // whose SHA-256 the step names
}

// ruling is what the home of a handoff signs about one step.
type ruling struct {
	Type    string               `json:"type"`
	V       int                  `json:"v"`
	Home    federation.HomeID    `json:"home"`
	Handoff federation.HandoffID `json:"handoff"`
	Event   federation.EventID   `json:"event"`
	Version federation.Version   `json:"version"`
	Chain   string               `json:"chain"` // hexadecimal; see [federation.Link]
	Party   federation.DID       `json:"party,omitempty"`
	Via     federation.HomeID    `json:"via,omitempty"`
	Filed   time.Time            `json:"filed"`
}

// answer is what a home says of a batch, result by result. It is the receipt: what was
// stored or refused is durable where it came from.
type answer struct {
	foot

	Results []result `json:"results"`
}

// result is what became of one step. Event and Digest repeat which one that is.
type result struct {
	Event   federation.EventID `json:"event"`
	Digest  string             `json:"digest"` // SHA-256 of what was signed, hexadecimal
	Outcome outcome            `json:"outcome"`
	Code    string             `json:"code,omitempty"`   // of a refusal
	Detail  string             `json:"detail,omitempty"` // for people
	Have    federation.Version `json:"have,omitempty"`   // of a gap: how far the log goes
	// Steps are the ones that the asker of a ruling lacks, up to the one it asked about.
	Steps []item `json:"steps,omitempty"`
	// Moved is the parties whose mailboxes were moved to other homes: what is still to
	// come for them goes there.
	Moved []federation.MovedMailbox `json:"moved,omitempty"`
}

// outcome says what became of a step.
type outcome string

// The outcomes, each with whose move is next.
const (
	outcomeStored    outcome = "stored"    // over: it is on disk
	outcomeDuplicate outcome = "duplicate" // over: it was on disk before
	outcomeRefused   outcome = "refused"   // over: Code says why
	outcomeConflict  outcome = "conflict"  // over: it contradicts an earlier ruling of its home
	outcomeGap       outcome = "gap"       // the sender sends what comes after Have
	outcomeLater     outcome = "later"     // the sender sends it again
)

// digestOf returns how a result names what was signed.
func digestOf(document string) string {
	sum := sha256.Sum256([]byte(document))
	return hex.EncodeToString(sum[:])
}

// carry returns a step as it is sent.
func carry(ev federation.Event, original []byte) carried {
	c := carried{
		Document: ev.Signature.Document, Signature: ev.Signature.Text, ID: ev.ID, Provenance: ev.Provenance,
		Party: ev.Arrival.Party, Name: ev.Arrival.Name, MessageID: ev.Arrival.MessageID, Received: ev.Arrival.Received.UTC(),
	}
	if ev.Evidence != nil {
		c.Evidence = &evidence{URL: ev.Evidence.URL, Content: string(original)}
	}
	if v := ev.Arrival.Voucher; v != nil {
		c.Voucher = &signed{Document: v.Document, Signature: v.Signature}
	}
	return c
}

// uncarry returns a step as it was sent; read knows the dialects. A step that names evidence is
// vouched for, even where it was sent as signed.
func (c carried) uncarry(read func(document string) (federation.Event, error)) (federation.Event, error) {
	ev, err := read(c.Document)
	if err != nil {
		return ev, err
	}
	switch {
	case c.ID.IsZero() || ev.Stamped && ev.ID != c.ID:
		return ev, federation.Refuse(ev, federation.InvalidEventID, "it is signed under another one")
	case ev.Verb == federation.Offer && c.ID != ev.Handoff:
		return ev, federation.Refuse(ev, federation.InvalidEventID, "an offer has the id of its handoff")
	case c.Provenance != federation.Signed && c.Provenance != federation.Vouched:
		return ev, federation.Refuse(ev, federation.InvalidTag, "it is neither signed nor vouched for")
	}
	ev.ID, ev.Provenance = c.ID, c.Provenance
	ev.Signature.Text = c.Signature
	ev.Arrival.Party, ev.Arrival.Name, ev.Arrival.MessageID = c.Party, c.Name, c.MessageID
	if v := c.Voucher; v != nil {
		ev.Arrival.Voucher = &federation.Voucher{Document: v.Document, Signature: v.Signature}
	}
	return c.original(ev)
}

// original adds the evidence to a step, which has to be what the step names.
func (c carried) original(ev federation.Event) (federation.Event, error) {
	named := ev.Fields[string(ev.Dialect)+"-src-h"]
	switch {
	case named == "" && c.Evidence == nil:
		return ev, nil
	case named == "" || c.Evidence == nil:
		return ev, federation.Refuse(ev, federation.MissingRequirement, "the evidence that it names, and no other")
	}
	digest := sha256.Sum256([]byte(c.Evidence.Content))
	if named != "sha256:"+hex.EncodeToString(digest[:]) {
		return ev, federation.Refuse(ev, federation.InvalidTag, "the evidence is not what it names")
	}
	var foreign struct{ Document string }
	if err := json.Unmarshal([]byte(c.Evidence.Content), &foreign); err != nil {
		return ev, federation.Refuse(ev, federation.InvalidTag, "the evidence cannot be read")
	}
	ev.Provenance = federation.Vouched
	ev.Evidence = &federation.Evidence{
		URL: c.Evidence.URL, Digest: digest, Bytes: []byte(c.Evidence.Content), Source: sha256.Sum256([]byte(foreign.Document)),
	}
	return ev, nil
}

// parse reads a message of a home strictly: two programs could read an unknown or a repeated
// member in two ways.
func parse(text []byte, into any) error {
	if err := federation.ExactJSON(text); err != nil {
		return err
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// parseBatch reads a batch that is for a home.
func parseBatch(text []byte, to federation.HomeID) (batch, error) {
	var b batch
	if err := parse(text, &b); err != nil {
		return b, err
	}
	if len(b.Items) > maxItems {
		return b, fmt.Errorf("more than %d steps", maxItems)
	}
	return b, b.check(typeSteps, to)
}

// parseAnswer reads the answer to a batch.
func parseAnswer(text []byte, b batch, sent []byte) ([]result, error) {
	var a answer
	if err := parse(text, &a); err != nil {
		return nil, err
	}
	switch {
	case !a.is(b.answers(typeResults, sent)):
		return nil, errOtherAnswer
	case len(a.Results) != len(b.Items):
		return nil, fmt.Errorf("%d results for %d steps", len(a.Results), len(b.Items))
	}
	for i, r := range a.Results {
		if r.Event != b.Items[i].Step.ID || r.Digest != digestOf(b.Items[i].Step.Document) {
			return nil, fmt.Errorf("result %d is of another step", i)
		}
	}
	return a.Results, nil
}

// parseRuling reads a ruling as its home signed it.
func parseRuling(s signed) (federation.Ruling, error) {
	var r ruling
	if err := parse([]byte(s.Document), &r); err != nil {
		return federation.Ruling{}, err
	}
	chain, err := hex.DecodeString(r.Chain)
	switch {
	case r.Type != typeRuling || r.V != Version:
		return federation.Ruling{}, fmt.Errorf("want type %q of version %d", typeRuling, Version)
	case err != nil || len(chain) != sha256.Size || hex.EncodeToString(chain) != r.Chain:
		return federation.Ruling{}, errors.New("its chain is not 32 bytes in lower-case hexadecimal")
	}
	return federation.Ruling{
		Home: r.Home, Handoff: r.Handoff, Event: r.Event, Version: r.Version, Chain: [32]byte(chain),
		Party: r.Party, Via: r.Via, Filed: r.Filed, Document: s.Document, Signature: s.Signature,
	}, nil
}

// writeRuling returns what a home signs about a step that it filed.
func writeRuling(home federation.HomeID, entry federation.Entry, chain [32]byte) ([]byte, error) {
	r := ruling{
		Type: typeRuling, V: Version, Home: home, Handoff: entry.Event.Handoff, Event: entry.Event.ID, Version: entry.Version,
		Chain: hex.EncodeToString(chain[:]), Party: entry.Event.Arrival.Party, Filed: entry.Filed.UTC(),
	}
	if entry.Event.Arrival.Abroad {
		r.Via = entry.Event.Arrival.Home
	}
	return json.Marshal(r)
}

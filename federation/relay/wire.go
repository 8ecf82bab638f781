package relay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/baton-gateway/baton/federation"
)

// Version is the "v" of all messages between homes. Any other version is rejected.
const Version = federation.HomeProtocol

const (
	maxItems      = 256       // steps per batch
	batchBytes    = 512 << 10 // per batch; the last step may exceed it
	maxBatchBytes = 2 << 20   // of a received batch; enough for the largest step
	maxSteps      = 64        // per result; the requesting home requests the rest
)

// The type is signed, so that a signature does not fit another type.
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

type heading struct {
	Type string            `json:"type"`
	V    int               `json:"v"`
	From federation.HomeID `json:"from"`
	To   federation.HomeID `json:"to"`
	Sent time.Time         `json:"sent"`
	Boot string            `json:"boot,omitempty"` // see [Deps].Boot
}

func (h heading) check(kind string, to federation.HomeID) error {
	switch {
	case h.Type != kind || h.V != Version:
		return fmt.Errorf("want type %q of version %d", kind, Version)
	case h.To != to:
		return fmt.Errorf("it is for home %q", h.To)
	case h.From == "" || h.From == to:
		return errors.New("it does not name another home as its sender")
	}
	return nil
}

func (d Deps) ask(kind string, to federation.HomeID) heading {
	return heading{Type: kind, V: Version, From: d.Home, To: to, Sent: d.Now().UTC(), Boot: d.Boot}
}

type answerHeading struct {
	Type string            `json:"type"`
	V    int               `json:"v"`
	From federation.HomeID `json:"from"`
	To   federation.HomeID `json:"to"`
	Of   string            `json:"of"`             // SHA-256 of the question, hexadecimal
	Boot string            `json:"boot,omitempty"` // see [Deps].Boot
}

func (h heading) answers(kind string, question []byte) answerHeading {
	return answerHeading{Type: kind, V: Version, From: h.To, To: h.From, Of: digestOf(string(question))}
}

func (f answerHeading) is(expected answerHeading) bool {
	expected.Boot = f.Boot
	return f == expected
}

func (d Deps) answers(h heading, kind string, question []byte) answerHeading {
	f := h.answers(kind, question)
	f.Boot = d.Boot
	return f
}

// The steps of one handoff are in order.
type batch struct {
	heading

	Items []item `json:"items"`
}

// An item without a ruling requests one from the home of the handoff.
type item struct {
	Step   carried             `json:"step"`
	Ruling *signed             `json:"ruling,omitempty"`
	Have   *federation.Version `json:"have,omitempty"` // without a ruling: log version of the requesting home
}

type signed struct {
	Document  string `json:"document"`
	Signature string `json:"signature"`
}

// Only the document is signed.
type carried struct {
	Document   string                `json:"document"`
	Signature  string                `json:"signature"`
	ID         federation.EventID    `json:"id"`
	Provenance federation.Provenance `json:"provenance"`
	Party      federation.DID        `json:"party,omitempty"` // the requesting home's DID for the signer
	Name       string                `json:"name,omitempty"`  // display name of the signer
	MessageID  string                `json:"message_id,omitempty"`
	Received   time.Time             `json:"received"`
	Evidence   *evidence             `json:"evidence,omitempty"`
	Voucher    *signed               `json:"voucher,omitempty"` // of a home on the path
}

type evidence struct {
	URL     string `json:"url"`
	Content string `json:"content"` // with the SHA-256 in the step
}

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

// Each stored step is on the answering home's disk.
type answer struct {
	answerHeading

	Results []result `json:"results"`
}

type result struct {
	Event   federation.EventID `json:"event"`
	Digest  string             `json:"digest"` // SHA-256 of the document, hexadecimal
	Outcome outcome            `json:"outcome"`
	Code    string             `json:"code,omitempty"`   // after a refusal
	Detail  string             `json:"detail,omitempty"` // for people
	Have    federation.Version `json:"have,omitempty"`   // log version, for a gap
	// Steps are missing at the requesting home, up to the requested step.
	Steps []item `json:"steps,omitempty"`
	// Moved lists parties with moved mailboxes. Later steps for them go there.
	Moved []federation.MovedMailbox `json:"moved,omitempty"`
}

type outcome string

// The outcomes, each with the sender's next action.
const (
	outcomeStored    outcome = "stored"    // none: on disk
	outcomeDuplicate outcome = "duplicate" // none: on disk before
	outcomeRefused   outcome = "refused"   // none: final, see Code
	outcomeConflict  outcome = "conflict"  // none: contradicts an earlier ruling of its home
	outcomeGap       outcome = "gap"       // send the steps after Have
	outcomeLater     outcome = "later"     // send the step again
)

func digestOf(document string) string {
	sum := sha256.Sum256([]byte(document))
	return hex.EncodeToString(sum[:])
}

func carry(ev federation.Event, original []byte) carried {
	c := carried{
		Document: ev.Signature.Document, Signature: ev.Signature.Text, ID: ev.ID, Provenance: ev.Provenance,
		Party: ev.Arrival.ActingFor, Name: ev.Arrival.Name, MessageID: ev.Arrival.MessageID, Received: ev.Arrival.Received.UTC(),
	}
	if ev.Evidence != nil {
		c.Evidence = &evidence{URL: ev.Evidence.URL, Content: string(original)}
	}
	if v := ev.Arrival.Voucher; v != nil {
		c.Voucher = &signed{Document: v.Document, Signature: v.Signature}
	}
	return c
}

// A step with evidence is always vouched.
func (c carried) decode(read func(document string) (federation.Event, error)) (federation.Event, error) {
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
	ev.Arrival.ActingFor, ev.Arrival.Name, ev.Arrival.MessageID = c.Party, c.Name, c.MessageID
	if v := c.Voucher; v != nil {
		ev.Arrival.Voucher = &federation.Voucher{Document: v.Document, Signature: v.Signature}
	}
	return c.original(ev)
}

// The evidence must match the step.
func (c carried) original(ev federation.Event) (federation.Event, error) {
	named := ev.Fields[string(ev.Dialect)+"-src-h"]
	switch {
	case named == "" && c.Evidence == nil:
		return ev, nil
	case named == "" || c.Evidence == nil:
		return ev, federation.Refuse(ev, federation.MissingRequirement, "the evidence named by the step, and no other evidence")
	}
	digest := sha256.Sum256([]byte(c.Evidence.Content))
	if named != "sha256:"+hex.EncodeToString(digest[:]) {
		return ev, federation.Refuse(ev, federation.InvalidTag, "the evidence does not match the digest in the step")
	}
	var foreign struct {
		Document string `json:"document"`
	}
	if err := federation.DecodeJSON([]byte(c.Evidence.Content), &foreign); err != nil {
		return ev, federation.Refuse(ev, federation.InvalidTag, "the evidence cannot be read")
	}
	ev.Provenance = federation.Vouched
	ev.Evidence = &federation.Evidence{
		URL: c.Evidence.URL, Digest: digest, Bytes: []byte(c.Evidence.Content), Source: sha256.Sum256([]byte(foreign.Document)),
	}
	return ev, nil
}

// Unknown and repeated members are refused, because two programs could read them differently.
func parse(text []byte, into any) error {
	if err := federation.ExactJSON(text); err != nil {
		return err
	}
	return federation.DecodeStrictJSON(text, into)
}

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
			return nil, fmt.Errorf("result %d belongs to another step", i)
		}
	}
	return a.Results, nil
}

func parseRuling(s signed) (federation.Ruling, error) {
	var r ruling
	if err := parse([]byte(s.Document), &r); err != nil {
		return federation.Ruling{}, err
	}
	chain, err := hex.DecodeString(r.Chain)
	switch {
	case r.Type != typeRuling || r.V != Version:
		return federation.Ruling{}, fmt.Errorf("want type %q of version %d", typeRuling, Version)
	case r.Version > math.MaxInt64:
		return federation.Ruling{}, errors.New("its version is not the number of a step")
	case err != nil || len(chain) != sha256.Size || hex.EncodeToString(chain) != r.Chain:
		return federation.Ruling{}, errors.New("its chain is not 32 bytes in lower-case hexadecimal")
	}
	return federation.Ruling{
		Home: r.Home, Handoff: r.Handoff, Event: r.Event, Version: r.Version, Chain: [32]byte(chain),
		Party: r.Party, Via: r.Via, Filed: r.Filed, Document: s.Document, Signature: s.Signature,
	}, nil
}

func writeRuling(home federation.HomeID, entry federation.Entry, chain [32]byte) ([]byte, error) {
	r := ruling{
		Type: typeRuling, V: Version, Home: home, Handoff: entry.Event.Handoff, Event: entry.Event.ID, Version: entry.Version,
		Chain: hex.EncodeToString(chain[:]), Party: entry.Event.Arrival.ActingFor, Filed: entry.Filed.UTC(),
	}
	if entry.Event.Arrival.RemoteVenue {
		r.Via = entry.Event.Arrival.Home
	}
	return json.Marshal(r)
}

package passport

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/baton-gateway/baton/federation"
)

// Report is the result of a check.
type Report struct {
	Verdict  federation.Verdict `json:"-"` // Invalid if anything was changed, Unverifiable if only keys or erased documents are missing
	Findings []Finding          `json:"findings"`
	Handoff  Summary            `json:"handoff"`
	Claims   []Claim            `json:"claims"`
	Words    []Word             `json:"words"` // statements not proven by a signature in the passport
}

// Claim names a step, its DID and its time.
type Claim struct {
	Verb  federation.Verb `json:"verb"`
	Actor federation.DID  `json:"actor"`
	// Voucher is the DID that vouches for the actor, or "" if the actor signed.
	Voucher federation.DID `json:"voucher,omitempty"`
	Time    time.Time      `json:"time"` // by the clock of the signer if signed, else of the home
}

// Word is a statement that no signature in the passport proves.
type Word struct {
	Who  federation.DID `json:"who"`
	What string         `json:"what"`
}

func (c *checking) claim(step Step, ev federation.Event) Claim {
	claim := Claim{Verb: ev.Verb, Actor: step.Actor, Time: ev.Time()}
	_, sourced := ev.Fields[string(ev.Dialect)+"-src-h"]
	if step.Provenance == federation.Vouched || sourced || step.Actor != ev.From {
		claim.Voucher = c.passport.Issuer
	}
	return claim
}

func (c *checking) report() Report {
	if len(c.log) == len(c.passport.Steps) { // else a step was unreadable
		c.replay()
	}
	home := c.passport.Issuer
	words := []Word{{home, "the order of the steps, and when each was filed"}}
	for _, key := range c.passport.Keys {
		if key.DID.Method() != "key" {
			words = append(words, Word{home, "that key " + key.ID + " is that of " + string(key.DID) + ", by " + key.Source})
		}
	}
	for _, claim := range c.claims {
		word := Word{claim.Voucher, "that " + string(claim.Actor) + " did what is listed as vouched"}
		if claim.Voucher != "" && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	r := Report{Verdict: federation.Valid, Findings: c.findings, Handoff: c.passport.Handoff, Claims: c.claims, Words: words}
	for _, f := range c.findings {
		if f.Code != KeyMissing && f.Code != DocumentErased {
			r.Verdict = federation.Invalid
			break
		}
		r.Verdict = federation.Unverifiable
	}
	return r
}

// String names the statement and the party that makes it.
func (w Word) String() string { return printed("on the word of " + string(w.Who) + ": " + w.What) }

// Sentence returns the report in one line, such as "valid: offered by did:plc:eliza (signed),
// completed 2026-11-21T12:31:07.400Z".
func (r Report) Sentence() string {
	if r.Verdict != federation.Valid {
		told := make([]string, len(r.Findings))
		for i, f := range r.Findings {
			told[i] = f.String()
		}
		return printed(r.Verdict.String() + ": " + strings.Join(told, "; "))
	}
	var told []string
	for _, claim := range r.Claims {
		if slices.Contains([]federation.Verb{federation.Offer, federation.Accept, federation.Claim}, claim.Verb) {
			told = append(told, string(claim.Verb)+"ed by "+claim.who())
		}
	}
	if last := r.Claims[len(r.Claims)-1]; last.Verb != federation.Offer {
		told = append(told, string(r.Handoff.State)+" "+last.Time.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	return printed(r.Verdict.String() + ": " + strings.Join(told, ", "))
}

// Any program may have written the passport, and control characters could act on a terminal.
func printed(line string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, line)
}

func (c Claim) who() string {
	if c.Voucher == "" {
		return string(c.Actor) + " (signed)"
	}
	return fmt.Sprintf("%s (vouched by %s)", c.Actor, c.Voucher)
}

// String describes a finding in a few words.
func (f Finding) String() string {
	text := string(f.Code)
	if f.Step > 0 {
		text += fmt.Sprintf(" in step %d", f.Step)
	}
	if f.Detail != "" {
		text += ": " + f.Detail
	}
	return text
}

// Code names a defect of a passport.
type Code string

// The findings. Only [KeyMissing] and [DocumentErased] leave a passport unverifiable; all others
// make it invalid.
const (
	Malformed    Code = "malformed" // ambiguous or invalid JSON, or members of the wrong type
	WrongType    Code = "wrong-type"
	WrongVersion Code = "wrong-version"

	PassportSignature Code = "passport-signature" // not a signature of the home over the other members
	IssuerMismatch    Code = "issuer-mismatch"    // the issuer is not the home, or signed with the key of another

	KeyEncoding  Code = "key-encoding"  // a key is not 32 bytes in strict base64url
	KeyIDWrong   Code = "key-id"        // the ID does not match its key
	KeyOwner     Code = "key-owner"     // the did:key does not match its key
	KeyDuplicate Code = "key-duplicate" // a key of a DID is listed twice
	KeyMissing   Code = "key-missing"   // the key of a signature is not in the passport: unverifiable

	DocumentErased Code = "document-erased" // the home erased the signed document: unverifiable

	StepOrder     Code = "step-order"     // the steps are not numbered from 1 without a gap
	StepDuplicate Code = "step-duplicate" // two steps have the same ID
	StepChain     Code = "step-chain"     // the hash chain does not fit the steps
	StepDocument  Code = "step-document"  // the document is not a step, or not in canonical form
	StepSignature Code = "step-signature" // the signature is not over the document
	StepSigner    Code = "step-signer"    // the step is signed by, or listed as of, another DID
	StepVerb      Code = "step-verb"      // listed with another verb than was signed
	StepID        Code = "step-id"        // listed with another ID than was signed
	StepHandoff   Code = "step-handoff"   // a step of another handoff
	StepActor     Code = "step-actor"     // a signed step is listed under another DID
	StepTime      Code = "step-time"      // filed before it was received, or before the previous step
	StepIllegal   Code = "step-illegal"   // no rule lets it follow the previous steps

	Provenance        Code = "provenance"         // without the evidence that the step names, or listed as signed despite its evidence
	EvidenceDigest    Code = "evidence-digest"    // the evidence does not match the step
	EvidenceSignature Code = "evidence-signature" // the foreign signature in the evidence does not verify

	ReceiptDocument  Code = "receipt-document"  // not a receipt of this home
	ReceiptSubject   Code = "receipt-subject"   // of a step not in the passport
	ReceiptSignature Code = "receipt-signature" // the home did not sign it

	StateMismatch   Code = "state-mismatch"   // the steps end in another state
	PartiesMismatch Code = "parties-mismatch" // the steps name other parties
	SummaryMismatch Code = "summary-mismatch" // the steps have another ID, kind, dialect or title
)

// Finding is one error in a passport, and its place.
type Finding struct {
	Code   Code   `json:"code"`
	Step   uint64 `json:"step,omitempty"` // 0 for the passport as a whole
	Detail string `json:"detail,omitempty"`
}

// VerdictError is returned for an invalid passport.
type VerdictError struct{ Report Report }

// Err returns a [*VerdictError] unless the passport is valid.
func (r Report) Err() error {
	if r.Verdict == federation.Valid {
		return nil
	}
	return &VerdictError{r}
}

func (e *VerdictError) Error() string { return e.Report.Sentence() }

// Code returns the machine-readable code of the error.
func (e *VerdictError) Code() federation.RefusalCode {
	if e.Report.Verdict == federation.Unverifiable {
		return federation.SignatureUnverifiable
	}
	return federation.SignatureInvalid
}

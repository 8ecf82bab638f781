package passport

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"baton/federation"
)

// Report is the result of a check.
type Report struct {
	Verdict  federation.Verdict `json:"-"` // Invalid if anything was changed, Unverifiable if only keys or erased documents are missing
	Findings []Finding          `json:"findings"`
	Handoff  Summary            `json:"handoff"`
	Claims   []Claim            `json:"claims"`
	Words    []Word             `json:"words"` // statements that no signature in it proves
}

// Claim says which DID took which step, and when.
type Claim struct {
	Verb  federation.Verb `json:"verb"`
	Actor federation.DID  `json:"actor"`
	// Voucher is the DID that vouches for the actor, "" where the actor signed.
	Voucher federation.DID `json:"voucher,omitempty"`
	Time    time.Time      `json:"time"` // by the clock of the signer where it is signed, else of the home
}

// Word is a statement that no signature in the passport proves.
type Word struct {
	Who  federation.DID `json:"who"`
	What string         `json:"what"`
}

// claim returns the claim of a step, which has no more than its signature covers.
func (c *checking) claim(step Step, ev federation.Event) Claim {
	claim := Claim{Verb: ev.Verb, Actor: step.Actor, Time: ev.Time()}
	_, sourced := ev.Fields[string(ev.Dialect)+"-src-h"]
	if step.Provenance == federation.Vouched || sourced || step.Actor != ev.From {
		claim.Voucher = c.passport.Issuer
	}
	return claim
}

// report returns the result of all checks.
func (c *checking) report() Report {
	if len(c.log) == len(c.passport.Steps) { // else a step was unreadable
		c.replay()
	}
	r := Report{Verdict: federation.Valid, Findings: c.findings, Handoff: c.passport.Handoff, Claims: c.claims, Words: c.words()}
	for _, f := range c.findings {
		if f.Code != KeyMissing && f.Code != DocumentErased {
			r.Verdict = federation.Invalid
			break
		}
		r.Verdict = federation.Unverifiable
	}
	return r
}

// words returns the statements that no signature in the passport proves.
func (c *checking) words() []Word {
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
	return words
}

// String names the statement and the party that makes it.
func (w Word) String() string { return printed("on the word of " + string(w.Who) + ": " + w.What) }

// Sentence returns the report in one line, such as "valid: offered by did:plc:eliza
// (signed), accepted by did:key:z6Mkv (vouched by did:web:gw.example), completed
// 2026-11-21T12:31:07.400Z".
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

// printed removes control characters, which could act on a terminal: any program may have written the
// passport.
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

// String returns a finding in a few words.
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

package handoffs

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"baton/federation"
)

// Prepared is one event ready to be written.
type Prepared struct {
	Digest   [32]byte // two arrivals with one digest are one event
	Document [32]byte // SHA-256 of what was signed
	Body     []byte   // as JSON
}

// Prepare makes an event ready to be written. It returns an error for an event that the record
// cannot keep as it was signed.
func Prepare(ev federation.Event) (Prepared, error) {
	switch {
	case ev.ID.IsZero() || ev.Handoff.IsZero():
		return Prepared{}, errors.New("the event has no id")
	case !keepsText(ev):
		return Prepared{}, errors.New("what was signed is not UTF-8, which JSON cannot keep")
	}
	body, err := json.Marshal(ev)
	return Prepared{
		Digest:   ev.Digest(),
		Document: sha256.Sum256([]byte(ev.Signature.Document)),
		Body:     body,
	}, err
}

// keepsText reports whether JSON keeps what was signed verbatim: other bytes than
// UTF-8 it replaces without a word.
func keepsText(ev federation.Event) bool {
	for name, value := range ev.Fields {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return false
		}
	}
	return utf8.ValidString(ev.Signature.Document) && utf8.ValidString(ev.Signature.Text)
}

package signing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"baton/federation"
)

// HandoffStep is the scheme of a step in the tags of the handoff RFC. Its message is the document that
// [Document] returns, in any order and spacing.
//
// spec: handofftag "Canonical document"
func HandoffStep() Scheme {
	return Scheme{Name: string(federation.HandoffTags), Document: handoffDocument, Encoding: inTag(), KeyID: federation.KeyID}
}

// ActStep is the scheme of a step in the act tags of freeq servers.
//
// spec: freeq-act "Canonical document"
func ActStep() Scheme {
	return Scheme{Name: string(federation.ActTags), Document: actDocument, Encoding: inTag(), KeyID: federation.KeyID}
}

// Receipt is the scheme of the receipt of a home for a step, in either dialect.
//
// spec: handofftag "Confirm"; freeq-act "Receipts"
func Receipt() Scheme {
	return Scheme{Name: "receipt", Document: receiptDocument, Encoding: inTag(), KeyID: federation.KeyID}
}

// Passport is the scheme of a passport, which its home signs as a whole.
func Passport() Scheme {
	return Scheme{Name: "passport", Document: canonicalWithout("signature"), Encoding: inTag(), KeyID: federation.KeyID}
}

func handoffDocument(message []byte) ([]byte, error) {
	return stepDocument(message, federation.HandoffTags, nil)
}

func actDocument(message []byte) ([]byte, error) {
	return stepDocument(message, federation.ActTags, nil)
}

// receiptDocument finds the dialect by the tag that every step of a dialect has.
func receiptDocument(message []byte) ([]byte, error) {
	document, err := stepDocument(message, federation.HandoffTags, checkReceipt)
	if errors.Is(err, errOtherDialect) {
		return stepDocument(message, federation.ActTags, checkReceipt)
	}
	return document, err
}

// errOtherDialect says that a document lacks the tag which names its dialect.
var errOtherDialect = errors.New("it is no step of this dialect")

// stepDocument canonicalises the document of a step in one dialect. It refuses a document that the check
// refuses, and members that are no signed tags of the dialect, which no link could have read.
func stepDocument(message []byte, dialect federation.Dialect, check func(map[string]string) error) ([]byte, error) {
	canonical, members, err := canonicalStrings(message)
	if err == nil {
		err = checkStep(members, dialect)
	}
	if err == nil && check != nil {
		err = check(members)
	}
	if err != nil {
		return nil, fmt.Errorf("canonical step: %w", err)
	}
	return canonical, nil
}

func checkStep(members map[string]string, dialect federation.Dialect) error {
	if members[string(dialect)] == "" {
		return errOtherDialect
	}
	for name := range members {
		switch {
		case name == "from", name == "target", name == "id":
		case name == string(dialect), strings.HasPrefix(name, string(dialect)+"-"):
		default:
			return fmt.Errorf("%q is no signed tag of this dialect", name)
		}
	}
	required := []string{"from", "target", "id"}
	if dialect == federation.HandoffTags {
		required = []string{"from", "target", "handoff-id"}
	}
	for _, name := range required {
		if members[name] == "" {
			return fmt.Errorf("no %s", name)
		}
	}
	return nil
}

// checkReceipt refuses a document that is no receipt, and a receipt without a subject.
func checkReceipt(members map[string]string) error {
	verb, subject := members["handoff"], members["handoff-subject"]
	if members["act"] != "" {
		verb, subject = members["act-verb"], members["act-subject"]
	}
	switch {
	case verb != string(federation.Confirm):
		return fmt.Errorf("the verb is %q", verb)
	case subject == "":
		return errors.New("no subject")
	case members["id"] == "":
		return errors.New("no id")
	}
	return nil
}

// homePrefix precedes the signed bytes of a message between homes, so that the signature is valid for no
// other purpose.
const homePrefix = "baton-home/1\n"

// SignHome returns the signature of a message from one home to another. It is no [Scheme]: the signature
// covers the bytes as they are sent, and is beside them.
func SignHome(ctx context.Context, key federation.SigningKey, message []byte) (string, error) {
	sig, err := key.Sign(ctx, homeDocument(message))
	if err != nil {
		return "", fmt.Errorf("sign for another home: %w", err)
	}
	return inTag().Write(federation.KeyID(key.Public), sig), nil
}

func homeDocument(message []byte) []byte { return append([]byte(homePrefix), message...) }

// VerifyHome judges a signature of a home by the keys that its DID had at a time. The error is
// nil for [federation.Valid] alone; for [federation.Unverifiable] it wraps
// [*federation.UnavailableError] where a retry may help.
func VerifyHome(ctx context.Context, keys federation.KeySource, home federation.HomeID, message []byte, signature string, at time.Time) (federation.Verdict, error) {
	kid, sig, ours := inTag().Read(signature)
	if !ours {
		return federation.Unverifiable, errors.New("signature of a home: want ed25519 with the id of a key")
	}
	known, err := keys.Keys(ctx, federation.KeyQuery{DID: home.DID(), KeyID: kid, Received: at})
	if errors.Is(err, federation.ErrKeyEnded) {
		return federation.Invalid, fmt.Errorf("signature of home %s: %w", home, err)
	}
	if err != nil {
		return federation.Unverifiable, fmt.Errorf("keys of home %s: %w", home, err)
	}
	document := homeDocument(message)
	for _, key := range known {
		if federation.KeyID(key) == kid && verified(key, document, sig) {
			return federation.Valid, nil
		}
	}
	return federation.Invalid, fmt.Errorf("signature of home %s: it is not made with a key of its own", home)
}

// HomeSigner signs for a home, and judges the signatures of other homes.
type HomeSigner struct {
	Key  func() federation.SigningKey // of the home; the current one
	Keys func() federation.KeySource  // of the other homes; it may block on their hosts
}

// Sign returns [SignHome] with the key that signs now.
func (s HomeSigner) Sign(ctx context.Context, message []byte) (string, error) {
	return SignHome(ctx, s.Key(), message)
}

// Verify returns [VerifyHome] with the current key source.
func (s HomeSigner) Verify(ctx context.Context, home federation.HomeID, at time.Time, message []byte, signature string) (federation.Verdict, error) {
	return VerifyHome(ctx, s.Keys(), home, message, signature, at)
}

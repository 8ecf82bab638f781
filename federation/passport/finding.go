package passport

// Code names what is wrong with a passport.
type Code string

// The findings. [KeyMissing] and [DocumentErased] alone leave a passport unverifiable, all others
// make it invalid.
const (
	Malformed    Code = "malformed"     // not JSON that all readers read alike, or members of the wrong type
	WrongType    Code = "wrong-type"    // another media type
	WrongVersion Code = "wrong-version" // not of this version

	PassportSignature Code = "passport-signature" // not a signature of the home over the other members
	IssuerMismatch    Code = "issuer-mismatch"    // the issuer is not the home, or signed with the key of another

	KeyEncoding  Code = "key-encoding"  // a key is not 32 bytes in strict base64url
	KeyIDWrong   Code = "key-id"        // a key id is not that of its key
	KeyOwner     Code = "key-owner"     // a did:key is not that of its key
	KeyDuplicate Code = "key-duplicate" // a key of a DID is listed twice
	KeyMissing   Code = "key-missing"   // the key of a signature is not in the passport: unverifiable

	DocumentErased Code = "document-erased" // the home erased what was signed: unverifiable

	StepOrder     Code = "step-order"     // the steps are not numbered from 1 without a gap
	StepDuplicate Code = "step-duplicate" // two steps have one id
	StepChain     Code = "step-chain"     // the chain of hashes does not fit the steps
	StepDocument  Code = "step-document"  // the document is no step, or not in its canonical form
	StepSignature Code = "step-signature" // the signature is not over the document
	StepSigner    Code = "step-signer"    // the step is signed by, or listed as of, another DID
	StepVerb      Code = "step-verb"      // listed as another verb than was signed
	StepID        Code = "step-id"        // listed under another id than was signed
	StepHandoff   Code = "step-handoff"   // a step of another handoff
	StepActor     Code = "step-actor"     // a signed step is listed under another DID
	StepTime      Code = "step-time"      // filed before it was received, or before the step before it
	StepIllegal   Code = "step-illegal"   // no rule lets it follow the steps before it

	Provenance        Code = "provenance"         // without the evidence that the step names, or listed as signed although it has evidence
	EvidenceDigest    Code = "evidence-digest"    // the evidence is not what the step names
	EvidenceSignature Code = "evidence-signature" // the foreign signature in the evidence does not verify

	ReceiptDocument  Code = "receipt-document"  // no receipt of this home
	ReceiptSubject   Code = "receipt-subject"   // of a step that is not here
	ReceiptSignature Code = "receipt-signature" // the home did not sign it

	StateMismatch   Code = "state-mismatch"   // the steps end in another state
	PartiesMismatch Code = "parties-mismatch" // the steps name other parties
	SummaryMismatch Code = "summary-mismatch" // the steps say another id, kind, dialect or title
)

// Finding is one error in a passport, and its place.
type Finding struct {
	Code   Code   `json:"code"`
	Step   uint64 `json:"step,omitempty"` // its number; 0 for the passport as a whole
	Detail string `json:"detail,omitempty"`
}

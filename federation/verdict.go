package federation

// Verdict is what this gateway concluded about a signature. There are three: an
// outage is no evidence, so Unverifiable is never read as Invalid.
type Verdict int

// The verdicts, each with what to do about it.
const (
	Unverifiable Verdict = iota // no key to be had now: judge again when there is one
	Valid                       // the document verifies: go on to the lifecycle
	Invalid                     // the key is known and the bytes fail: refuse
)

// String returns the verdict as metrics and logs spell it.
func (v Verdict) String() string {
	switch v {
	case Valid:
		return "valid"
	case Invalid:
		return "invalid"
	case Unverifiable:
	}
	return "unverifiable"
}

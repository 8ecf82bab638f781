package federation

// Finding is the result of one check that a command shows to operators.
type Finding struct {
	What   string // the subject of the check
	State  FindingState
	Detail string
}

// FindingState says how urgent a finding is.
type FindingState string

// The states, each with the party that has the next move.
const (
	FindingOK   FindingState = "ok"   // no action is needed
	FindingWarn FindingState = "warn" // the operators, at some time
	FindingFail FindingState = "FAIL" // the operators, now: steps wait or could be lost
)

package contract

// DiagnosisState is how grave the result of a check is.
type DiagnosisState string

// The states of a [Diagnosis].
const (
	DiagnosisOK   DiagnosisState = "ok"
	DiagnosisWarn DiagnosisState = "warn" // for the operators, at some time
	DiagnosisFail DiagnosisState = "fail" // for the operators, now
)

// Diagnosis is the result of one check of the doctor.
type Diagnosis struct {
	Check  string         `json:"check"`
	State  DiagnosisState `json:"state" enum:"ok,warn,fail"`
	Detail string         `json:"detail"`
	Remedy string         `json:"remedy"` // the remedy; empty if none is needed
}

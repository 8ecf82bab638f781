package passport

import "baton/federation"

// VerdictError is returned for a passport that is not valid.
type VerdictError struct{ Report Report }

// Err returns the report on a passport that is not valid as an error, nil for a valid one.
func (r Report) Err() error {
	if r.Verdict == federation.Valid {
		return nil
	}
	return &VerdictError{r}
}

// Error implements error.
func (e *VerdictError) Error() string { return e.Report.Sentence() }

// Code returns the code of the error for machines.
func (e *VerdictError) Code() federation.RefusalCode {
	if e.Report.Verdict == federation.Unverifiable {
		return federation.SignatureUnverifiable
	}
	return federation.SignatureInvalid
}

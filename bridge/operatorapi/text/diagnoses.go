package text

import (
	"fmt"
	"io"
	"strings"

	"baton/bridge/operatorapi/contract"
)

// Diagnoses writes a line for each check of doctor.
func Diagnoses(out io.Writer, items []contract.Diagnosis) error {
	for _, each := range items {
		line := string(each.State) + " " + each.Check + ": " + each.Detail
		if each.State == contract.DiagnosisFail {
			line = strings.ToUpper(string(each.State)) + strings.TrimPrefix(line, string(each.State))
		}
		if each.Remedy != "" {
			line += "; " + each.Remedy
		}
		if _, err := fmt.Fprintln(out, Printable(line)); err != nil {
			return err
		}
	}
	return nil
}

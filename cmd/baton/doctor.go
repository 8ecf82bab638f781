package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"baton/bridge/operatorapi/client"
	"baton/bridge/operatorapi/contract"
	"baton/bridge/operatorapi/text"
)

// doctorCommand checks a running gateway.
type doctorCommand struct {
	Online bool `help:"Offer a canary to each peer too, and wait for it to come back."`
}

// Run prints one line a check. It fails where one check does.
func (cmd doctorCommand) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	page, err := client.Ask[contract.DiagnosisPage](gateway, func(api *contract.Client) (*http.Response, error) {
		if cmd.Online {
			return api.ExamineOnline(ctx)
		}
		return api.Examine(ctx)
	})
	if err != nil {
		return err
	}
	err = printDocument(c, streams, page, func(out io.Writer, page contract.DiagnosisPage) error { return text.Diagnoses(out, page.Items) })
	return errors.Join(err, failedDiagnosis(page.Items))
}

// failedDiagnosis returns an error that names the checks that failed, nil where none did.
func failedDiagnosis(items []contract.Diagnosis) error {
	var failed []string
	for _, each := range items {
		if each.State == contract.DiagnosisFail {
			failed = append(failed, each.Check)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return errors.New("failed: " + strings.Join(failed, ", "))
}

// policyCommands look at the policy.
type policyCommands struct {
	Show policyShow `cmd:"" example:"policy show" help:"Print the rules in the order in which they are tried, and the limits, with the lines that they come from."`
}

// policyShow prints the policy.
type policyShow struct{}

// Run prints the rules, then the limits.
func (policyShow) Run(ctx context.Context, c *cli, streams std) error {
	return show(c, streams, func(api *contract.Client) (*http.Response, error) { return api.GetPolicy(ctx) }, text.Policy)
}

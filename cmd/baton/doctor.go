package main

import (
	"context"
	"errors"
	"fmt"
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
	if c.JSON {
		err = printJSON(streams, page)
	} else {
		err = writeDiagnoses(streams.out, page.Items)
	}
	return errors.Join(err, failedDiagnosis(page.Items))
}

// writeDiagnoses writes a line for each check.
func writeDiagnoses(out io.Writer, items []contract.Diagnosis) error {
	for _, each := range items {
		line := string(each.State) + " " + each.Check + ": " + each.Detail
		if each.State == contract.DiagnosisFail {
			line = strings.ToUpper(string(each.State)) + strings.TrimPrefix(line, string(each.State))
		}
		if each.Remedy != "" {
			line += "; " + each.Remedy
		}
		if _, err := fmt.Fprintln(out, text.Printable(line)); err != nil {
			return err
		}
	}
	return nil
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

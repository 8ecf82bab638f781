package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"baton/bridge/admin"
	"baton/bridge/admin/client"
	"baton/bridge/admin/render"
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
	examine := admin.Examine
	if cmd.Online {
		examine = admin.ExamineOnline
	}
	page, err := client.Call(ctx, gateway, examine, struct{}{})
	if err != nil {
		return err
	}
	err = printDocument(c, streams, page, func(out io.Writer, page admin.Page[admin.Diagnosis]) error {
		return render.Diagnoses(out, page.Items)
	})
	return errors.Join(err, failedDiagnosis(page.Items))
}

// failedDiagnosis returns an error that names the checks that failed, nil where none did.
func failedDiagnosis(items []admin.Diagnosis) error {
	var failed []string
	for _, each := range items {
		if each.State == admin.DiagnosisFail {
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
	return show(ctx, c, streams, admin.GetPolicy, struct{}{}, render.Policy)
}

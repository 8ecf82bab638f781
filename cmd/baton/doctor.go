package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/client"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/configs"
)

type doctorCommand struct {
	Online bool `help:"Also offer a canary to each peer, and wait for its completion."`
}

// Run prints one line per check. It fails if one check does, or if no gateway runs.
func (cmd doctorCommand) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if invalid, ok := errors.AsType[*configs.InvalidError](err); ok {
		return c.sayInvalid(streams, invalid)
	}
	if err != nil {
		return err
	}
	examine := admin.Examine
	if cmd.Online {
		examine = admin.ExamineOnline
	}
	page, err := client.Call(ctx, gateway, examine, struct{}{})
	dial, failed := errors.AsType[*net.OpError](err)
	if failed && dial.Op == "dial" && dial.Net == "unix" && !errors.Is(err, fs.ErrPermission) {
		return c.examineStopped(ctx, streams, dial)
	}
	if err != nil {
		return err
	}
	return errors.Join(printDiagnoses(c, streams, page), failedDiagnosis(page.Items))
}

// The error is never nil, because the gateway is down.
func (c *cli) examineStopped(ctx context.Context, streams std, dial error) error {
	file, err := configs.Load(c.configPath())
	if err != nil {
		return err
	}
	if err := printDiagnoses(c, streams, admin.Page[admin.Diagnosis]{Items: server.ExamineStopped(ctx, file, networks)}); err != nil {
		return err
	}
	last := "its log has no error"
	if line := server.NewLastError(file).Read(); line != "" {
		last = "the last error in its log: " + line
	}
	return &downError{fmt.Sprintf("%v; %s", dial, last)}
}

func (c *cli) sayInvalid(streams std, invalid *configs.InvalidError) error {
	broken := admin.Diagnosis{
		Check: "configuration", State: admin.DiagnosisFail, Detail: bridge.OneLine(invalid), Remedy: "baton config check " + c.configPath(),
	}
	return errors.Join(printDiagnoses(c, streams, admin.Page[admin.Diagnosis]{Items: []admin.Diagnosis{broken}}), &downError{"the configuration does not name its socket"})
}

type downError struct{ why string }

func (e *downError) Error() string { return "the gateway is down: " + e.why }

func printDiagnoses(c *cli, streams std, page admin.Page[admin.Diagnosis]) error {
	return printDocument(c, streams, page, func(out io.Writer, page admin.Page[admin.Diagnosis]) error {
		return render.Diagnoses(out, page.Items)
	})
}

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

type policyCommands struct {
	Show policyShow `cmd:"" example:"policy show" help:"Print the rules in the order of evaluation, and the limits, with their lines in the configuration."`
}

type policyShow struct{}

// Run prints the rules, then the limits.
func (policyShow) Run(ctx context.Context, c *cli, streams std) error {
	return show(ctx, c, streams, admin.GetPolicy, struct{}{}, render.Policy)
}

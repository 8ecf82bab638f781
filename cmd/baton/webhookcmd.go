package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"text/tabwriter"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
)

// webhookCommands see and repeat what is posted to addresses of agents, and have them
// called again.
type webhookCommands struct {
	List      webhookList      `cmd:"" help:"List webhooks, and what waits for each."`
	Show      webhookShow      `cmd:"" help:"Show one, with what it was given and waits for."`
	Redeliver webhookRedeliver `cmd:"" help:"Post again what a webhook was not given, or one thing."`
	Enable    webhookEnable    `cmd:"" help:"Call a webhook again whose address said that it is gone."`
}

// webhookList lists webhooks.
type webhookList struct {
	listFlags

	DID string `help:"Of one DID." name:"did" placeholder:"DID"`
}

// Help has one example.
func (webhookList) Help() string { return "Example:\n\n\tbaton webhook list" }

// Run prints the list.
func (cmd webhookList) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ListWebhooks(ctx, &contract.ListWebhooksParams{Limit: &cmd.Limit, Cursor: cmd.Cursor, DID: cmd.DID})
	}, false, table[operatorapi.Webhook]{
		header: "ID | DID | AGENT | WAITING | OLDEST | DEAD | DISABLED | URL",
		row: func(h operatorapi.Webhook) []string {
			return []string{h.ID, h.DID, h.Agent, strconv.Itoa(h.Waiting), h.Oldest.String(), strconv.Itoa(h.Dead), h.Disabled.String(), h.URL}
		},
	})
}

// webhookShow shows one webhook.
type webhookShow struct {
	ID string `arg:"" help:"As in webhook list, or its last six characters or more."`
}

// Help has one example.
func (webhookShow) Help() string { return "Example:\n\n\tbaton webhook show Y6Z0AB" }

// Run prints it.
func (cmd webhookShow) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client(cmd.ID)
	if err != nil {
		return err
	}
	h, err := answered[operatorapi.Webhook](gateway.GetWebhook(ctx, cmd.ID, &contract.GetWebhookParams{}))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, h)
	}
	return printWebhook(streams, h)
}

// printWebhook writes a webhook for people: a line for each thing to know, then one for
// each delivery.
func printWebhook(streams std, h operatorapi.Webhook) error {
	out := tabwriter.NewWriter(streams.out, 0, 0, 2, ' ', 0)
	say := func(name, value string) { fmt.Fprintf(out, "%s\t%s\n", name, shown(value)) }
	say("id", h.ID)
	say("did", h.DID)
	if h.Agent != "" {
		say("agent", h.Agent)
	}
	say("url", h.URL)
	say("since", h.Since.String())
	say("waiting", strconv.Itoa(h.Waiting))
	say("dead", strconv.Itoa(h.Dead))
	if !h.Disabled.IsZero() {
		say("disabled", h.Disabled.String()+"  "+h.Why)
	}
	if err := out.Flush(); err != nil || h.WebhookDetail == nil || len(h.Deliveries) == 0 {
		return err
	}
	fmt.Fprintln(out, "QUEUED\tOF\tVERB\tSTATE\tATTEMPTS\tNEXT OR ENDED\tLAST ERROR")
	for _, d := range h.Deliveries {
		when := d.Ended
		if when.IsZero() {
			when = d.Next
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", d.Queued, d.Of, shown(string(d.Verb)), d.State, d.Attempt, shown(when.String()), shown(d.LastError))
	}
	return out.Flush()
}

// webhookChange is what every change of a webhook is told.
type webhookChange struct {
	changeFlags

	ID  string `arg:"" help:"Of a webhook, or the last six characters of it or more."`
	DID string `help:"Only if the webhook is of this DID." name:"did" placeholder:"DID"`
}

// webhookRedeliver posts again.
type webhookRedeliver struct {
	webhookChange

	Of string `help:"One thing alone, as webhook show names it; else all that was not delivered." placeholder:"ID"`
}

// Help has one example.
func (webhookRedeliver) Help() string {
	return "Example:\n\n\tbaton webhook redeliver Y6Z0AB --reason \"their server is back\""
}

// Run says how many deliveries are made again.
func (cmd webhookRedeliver) Run(ctx context.Context, c *cli, streams std) error {
	return change(c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ChangeWebhook(ctx, cmd.ID, "redeliver", &contract.ChangeWebhookParams{DID: cmd.DID, Of: cmd.Of}, cmd.act())
	}, cmd.changeFlags, func(n int) string {
		return fmt.Sprintf("%s: %d to be posted again", cmd.ID, n)
	}, cmd.ID)
}

// webhookEnable has a webhook called again.
type webhookEnable struct{ webhookChange }

// Help has one example.
func (webhookEnable) Help() string {
	return "Its address is checked again, and what waits in the inbox is posted.\n\nExample:\n\n\tbaton webhook enable Y6Z0AB --reason \"it answered 410 by mistake\""
}

// Run says whether it was disabled.
func (cmd webhookEnable) Run(ctx context.Context, c *cli, streams std) error {
	return change(c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ChangeWebhook(ctx, cmd.ID, "enable", &contract.ChangeWebhookParams{DID: cmd.DID}, cmd.act())
	}, cmd.changeFlags, func(n int) string {
		if n == 0 {
			return cmd.ID + ": was not disabled"
		}
		return cmd.ID + ": is called again"
	}, cmd.ID)
}

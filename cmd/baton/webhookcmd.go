package main

import (
	"context"
	"fmt"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
)

type webhookCommands struct {
	List      webhookList      `cmd:"" example:"webhook list" help:"List webhooks and their pending deliveries."`
	Show      webhookShow      `cmd:"" example:"webhook show Y6Z0AB" help:"Show one webhook, with its delivered and pending entries."`
	Redeliver webhookRedeliver `cmd:"" example:"webhook redeliver Y6Z0AB --reason \"their server is back\"" help:"Retry the failed deliveries of a webhook, or one entry."`
	Enable    webhookEnable    `cmd:"" help:"Enable a webhook again after its address answered 410."`
}

type webhookList struct {
	listFlags

	DID string `help:"Only webhooks of this DID." name:"did" placeholder:"DID"`
}

// Run prints the list.
func (cmd webhookList) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, admin.ListWebhooks, admin.WebhookQuery{DID: cmd.DID, Paging: cmd.page()}, render.Webhooks)
}

type webhookShow struct {
	ID string `arg:"" help:"ID as listed by webhook list, or at least its last six characters."`
}

// Run prints the webhook.
func (cmd webhookShow) Run(ctx context.Context, c *cli, streams std) error {
	return show(ctx, c, streams, admin.GetWebhook, admin.IDPage{ID: cmd.ID}, render.Webhook)
}

type webhookChange struct {
	changeFlags

	ID  string `arg:"" help:"ID of the webhook, or at least its last six characters."`
	DID string `help:"Only if the webhook belongs to this DID." name:"did" placeholder:"DID"`
}

type webhookRedeliver struct {
	webhookChange

	Of string `help:"One entry, as listed by webhook show. Default: all failed deliveries." placeholder:"ID"`
}

// Run prints the number of requeued deliveries.
func (cmd webhookRedeliver) Run(ctx context.Context, c *cli, streams std) error {
	in := admin.WebhookChange{ID: cmd.ID, Verb: "redeliver", DID: cmd.DID, Of: cmd.Of, Body: cmd.body()}
	return change(ctx, c, streams, cmd.changeFlags, admin.ChangeWebhook, in, func(n int) string {
		return fmt.Sprintf("%s: %d to be posted again", cmd.ID, n)
	})
}

type webhookEnable struct{ webhookChange }

// Help describes the consequences, with an example.
func (webhookEnable) Help() string {
	return "The address is checked again, and pending entries of the inbox are posted.\n\nExample:\n\n\tbaton webhook enable Y6Z0AB --reason \"it answered 410 by mistake\""
}

// Run prints whether the webhook was disabled.
func (cmd webhookEnable) Run(ctx context.Context, c *cli, streams std) error {
	in := admin.WebhookChange{ID: cmd.ID, Verb: "enable", DID: cmd.DID, Body: cmd.body()}
	return change(ctx, c, streams, cmd.changeFlags, admin.ChangeWebhook, in, func(n int) string {
		if n == 0 {
			return cmd.ID + ": was not disabled"
		}
		return cmd.ID + ": is called again"
	})
}

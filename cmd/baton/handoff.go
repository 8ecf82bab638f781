package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// handoffCommands look at handoffs and take steps in them.
type handoffCommands struct {
	List   handoffList   `cmd:"" help:"List handoffs, the newest movement first."`
	Show   handoffShow   `cmd:"" help:"Show one handoff with its steps."`
	Export handoffExport `cmd:"" help:"Write the passport of one handoff."`
	Verify handoffVerify `cmd:"" help:"Check a passport, offline."`
	Offer  offerCommand  `cmd:"" help:"Offer a handoff; prints its id."`

	Accept   stepCommand `cmd:"" help:"Accept an offer."`
	Decline  stepCommand `cmd:"" help:"Decline an offer."`
	Claim    stepCommand `cmd:"" help:"Claim an open offer."`
	Progress stepCommand `cmd:"" help:"Tell how far the work is."`
	Complete stepCommand `cmd:"" help:"End the work well."`
	Fail     stepCommand `cmd:"" help:"End the work without success."`
	Cancel   stepCommand `cmd:"" help:"Take an offer back."`

	Orphan orphanCommands `cmd:"" help:"Settle handoffs whose home has lost them."`
}

// newHandoffCommands returns the commands, each step with its verb.
func newHandoffCommands() handoffCommands {
	step := func(v federation.Verb) stepCommand { return stepCommand{verb: v} }
	return handoffCommands{
		Accept: step(federation.Accept), Decline: step(federation.Decline), Claim: step(federation.Claim),
		Progress: step(federation.Progress), Complete: step(federation.Complete), Fail: step(federation.Fail),
		Cancel: step(federation.Cancel),
	}
}

// handoffList lists handoffs.
type handoffList struct {
	listFlags
	watchFlag

	DID        string `help:"In which it takes part." name:"did" placeholder:"DID"`
	State      string `enum:",offered,open,assigned,completed,failed,declined,cancelled,expired" default:"" help:"As it stands now." placeholder:"STATE"`
	Kind       string `help:"Such as handoff." placeholder:"KIND"`
	Channel    string `help:"In which it is written." placeholder:"#C"`
	Capability string `help:"That the offer asks for." placeholder:"CAP"`
	Since      string `help:"Moved then or later: a time, or a duration back from now." placeholder:"TIME"`
}

// Help has one example.
func (handoffList) Help() string {
	return "Example:\n\n\tbaton handoff list --state assigned --since 24h"
}

// Run prints the list.
func (cmd handoffList) Run(ctx context.Context, c *cli, streams std) error {
	since, err := parseSince(cmd.Since, time.Now())
	if err != nil {
		return err
	}
	params := contract.ListHandoffsParams{
		Limit: &cmd.Limit, Cursor: cmd.Cursor, Watch: cmd.parameter(),
		DID: cmd.DID, State: cmd.State, Kind: cmd.Kind, Channel: cmd.Channel, Capability: cmd.Capability, Since: since,
	}
	return list(ctx, c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ListHandoffs(ctx, &params)
	}, cmd.Watch, table[operatorapi.Handoff]{
		header: "ID | KIND | STATE | CHANNEL | OFFERER | WITH | MOVED | TITLE",
		row: func(h operatorapi.Handoff) []string {
			with := h.Assignee
			if with == "" {
				with = h.Offeree
			}
			return []string{
				h.ID.String(), string(h.Kind), stateName(h), venueName(h.Venue), h.Offerer.Short(), with.Short(),
				h.Moved.String(), h.Title,
			}
		},
	})
}

// parseSince reads a time, or a duration before now.
func parseSince(text string, now time.Time) (string, error) {
	if text == "" {
		return "", nil
	}
	if back, err := time.ParseDuration(text); err == nil {
		return now.Add(-back).UTC().Format(time.RFC3339), nil
	}
	if _, err := time.Parse(time.RFC3339, text); err != nil {
		return "", &usageError{fmt.Errorf("--since: want a time such as 2026-11-21T12:00:00Z or a duration such as 24h, not %q", text)}
	}
	return text, nil
}

// stateName returns the state of a handoff, with a mark where its home is away.
func stateName(h operatorapi.Handoff) string {
	if h.Orphaned {
		return string(h.State) + " (orphaned)"
	}
	return string(h.State)
}

func venueName(venue string) string {
	if federation.Private(venue) {
		return "private"
	}
	return venue
}

// handoffShow shows one handoff.
type handoffShow struct {
	ID string `arg:"" help:"The id, or its last six characters or more."`
}

// Help has one example.
func (handoffShow) Help() string { return "Example:\n\n\tbaton handoff show Y6Z0AB" }

// Run prints the handoff with all its steps.
func (cmd handoffShow) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client(cmd.ID)
	if err != nil {
		return err
	}
	h, err := fetchHandoff(ctx, gateway, cmd.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, h)
	}
	return printHandoff(streams, h)
}

// fetchHandoff returns a handoff with all its steps.
func fetchHandoff(ctx context.Context, gateway *client, id string) (operatorapi.Handoff, error) {
	var whole operatorapi.Handoff
	params := contract.GetHandoffParams{Limit: new(operatorapi.MaxLimit)}
	for {
		part, err := answered[operatorapi.Handoff](gateway.GetHandoff(ctx, id, &params))
		if err != nil {
			return whole, err
		}
		part.Steps = append(whole.Steps, part.Steps...)
		whole = part
		if part.NextCursor == "" {
			return whole, nil
		}
		params.Cursor = part.NextCursor
	}
}

// printHandoff writes a handoff for people: what it is, and a line for each step.
func printHandoff(streams std, h operatorapi.Handoff) error {
	out := tabwriter.NewWriter(streams.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "%s  %s  %s   home %s   channel %s\n", h.ID, h.Kind, stateName(h), h.Home, shown(venueName(h.Venue)))
	fmt.Fprintf(out, "  offer   %s", shown(h.Title))
	if !h.Deadline.IsZero() {
		fmt.Fprintf(out, "   deadline %s", h.Deadline)
	}
	if len(h.Caps) > 0 {
		fmt.Fprintf(out, "   caps %s", shown(strings.Join(h.Caps, ",")))
	}
	fmt.Fprintln(out)
	if h.OrphanReason != "" {
		fmt.Fprintf(out, "  orphaned   %s\n", shown(h.OrphanReason))
	}
	for _, s := range h.Steps {
		who := s.From
		if s.For != "" {
			who = s.For
		}
		line := fmt.Sprintf("  %sZ\t%s\t%s (%s: %s)\t%s\t%s\t%s", time.Time(s.Time).UTC().Format("15:04:05.000"), s.Verb,
			who.Short(), s.Link, s.Name, s.Provenance, s.Verdict, shown(became(s.Delivered)))
		fmt.Fprintln(out, printable(line))
	}
	return out.Flush()
}

// became says what became of a step on each link.
func became(deliveries []operatorapi.Delivery) string {
	parts := make([]string, len(deliveries))
	for i, d := range deliveries {
		parts[i] = fmt.Sprintf("%s %s %s", d.State, d.Via, d.To)
		if !d.Time.IsZero() {
			parts[i] += " " + time.Time(d.Time).UTC().Format("15:04:05.000") + "Z"
		}
	}
	return strings.Join(parts, ", ")
}

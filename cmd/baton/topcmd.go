package main

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
)

// topCommand lists the senders that send the most.
type topCommand struct {
	watchFlag

	By    string        `default:"did" enum:"did,address,link" help:"Count by did, address or link." placeholder:"WHAT"`
	Since time.Duration `default:"10m" help:"How far back, at most 1h." placeholder:"DURATION"`
	Limit int           `default:"50" help:"How many, at most 500." placeholder:"N"`
}

// Help has one example.
func (topCommand) Help() string { return "Example:\n\n\tbaton top --by address --since 30m" }

// Run prints the list.
func (cmd topCommand) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ListTop(ctx, &contract.ListTopParams{Limit: &cmd.Limit, Watch: cmd.parameter(), By: cmd.By, Since: cmd.Since.String()})
	}, cmd.Watch, table[operatorapi.Sender]{
		header: "SENDER | STEPS | REFUSED | LIMITED | BLOCKED | BYTES",
		row: func(s operatorapi.Sender) []string {
			return []string{
				s.Name, strconv.Itoa(s.Steps), strconv.Itoa(s.Refused), strconv.Itoa(s.Limited), strconv.Itoa(s.Blocked), strconv.FormatInt(s.Bytes, 10),
			}
		},
	})
}

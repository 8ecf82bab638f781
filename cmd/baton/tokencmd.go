package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"baton/bridge/operatorapi"
	"baton/bridge/operatorapi/contract"
	"baton/federation"
)

// tokenCommands keep the tokens of operators who do not come over the socket.
type tokenCommands struct {
	Create tokenCreate `cmd:"" help:"Make a token, and print it this once."`
	List   tokenList   `cmd:"" help:"List tokens, without the tokens themselves."`
	Revoke tokenRevoke `cmd:"" help:"End a token at once."`
}

// tokenCreate makes a token.
type tokenCreate struct {
	reasonFlag

	Scope string        `enum:"read,operate,admin" default:"read" help:"read sees; operate also moves deliveries and links; admin also keys, tokens, peers, bindings." placeholder:"SCOPE"`
	TTL   time.Duration `default:"720h" help:"How long it is good, at most a year." name:"ttl" placeholder:"DURATION"`
	Name  string        `help:"Whose it is: the audit log has it. Default: the scope and some digits." placeholder:"TEXT"`
}

// Help has one example.
func (tokenCreate) Help() string {
	return "Example:\n\n\tbaton token create --scope operate --name ann@laptop > ann.token"
}

// Run prints the token, and nothing else, on standard output.
func (cmd tokenCreate) Run(ctx context.Context, c *cli, streams std) error {
	gateway, err := c.client()
	if err != nil {
		return err
	}
	ask := operatorapi.TokenAsk{Name: cmd.Name, Scope: federation.Scope(cmd.Scope), TTL: cmd.TTL.String(), Reason: cmd.Reason}
	made, err := answered[operatorapi.NewToken](gateway.CreateToken(ctx, ask))
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(streams, made)
	}
	fmt.Fprintf(streams.err, "token %s, scope %s, good until %s; it is not shown again\n", made.Name, made.Scope, made.Expires)
	_, err = fmt.Fprintln(streams.out, made.Text)
	return err
}

// tokenList lists tokens.
type tokenList struct{ listFlags }

// Help has one example.
func (tokenList) Help() string { return "Example:\n\n\tbaton token list" }

// Run prints the list.
func (cmd tokenList) Run(ctx context.Context, c *cli, streams std) error {
	return list(ctx, c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.ListTokens(ctx, &contract.ListTokensParams{Limit: &cmd.Limit, Cursor: cmd.Cursor})
	}, false, table[operatorapi.Token]{
		header: "NAME | SCOPE | CREATED | EXPIRES | LEFT",
		row: func(t operatorapi.Token) []string {
			now, left := time.Now(), "over"
			if time.Time(t.Expires).After(now) {
				left = until(t.Expires, now)
			}
			return []string{t.Name, string(t.Scope), t.Created.String(), t.Expires.String(), left}
		},
	})
}

// tokenRevoke ends a token.
type tokenRevoke struct {
	changeFlags

	Name string `arg:"" help:"As in token list."`
}

// Help has one example.
func (tokenRevoke) Help() string {
	return "Example:\n\n\tbaton token revoke ann@laptop --reason \"lost it\""
}

// Run ends it.
func (cmd tokenRevoke) Run(ctx context.Context, c *cli, streams std) error {
	return change(c, streams, func(api *contract.Client) (*http.Response, error) {
		return api.RevokeToken(ctx, cmd.Name, cmd.act())
	}, cmd.changeFlags, func(int) string {
		return cmd.Name + " is good for nothing now"
	}, cmd.Name)
}

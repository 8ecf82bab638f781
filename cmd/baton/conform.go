package main

import (
	"context"
	"fmt"

	"baton/bridge/conform"
	"baton/bridge/conform/irc"
	"baton/bridge/conform/rest"
	"baton/bridge/operatorapi/text"
	"baton/federation"
	"baton/federation/identity"
)

// conformCommand holds a gateway to what its clients rely on.
type conformCommand struct {
	URL     string `arg:"" help:"The server: irc://HOST:PORT, ircs://, ws:// or wss:// for irc, http:// or https:// for rest." name:"url"`
	Suite   string `enum:"irc,rest" help:"Which cases: irc or rest." required:""`
	KeyFile string `help:"The Ed25519 key of the DID that makes offers, 64 hexadecimal characters; else made for each case." name:"key-file" placeholder:"FILE"`
}

// Help shows examples.
func (conformCommand) Help() string {
	return "Examples:\n\n\tbaton conform irc://127.0.0.1:6667 --suite irc\n\tbaton conform http://127.0.0.1:8080 --suite rest\n"
}

// conformed is what became of one case, as machines read it.
type conformed struct {
	Section string `json:"section"`
	Case    string `json:"case"`
	Passed  bool   `json:"passed"`
	Skipped bool   `json:"skipped,omitempty"` // the server does not claim what the case checks
	Why     string `json:"why,omitempty"`
}

// Run ends with a refusal where a case failed.
func (v conformCommand) Run(ctx context.Context, c *cli, streams std) error {
	key := func(string) (federation.SigningKey, error) { return identity.NewPerson(), nil }
	if v.KeyFile != "" {
		given, err := identity.ReadSeed(v.KeyFile)
		if err != nil {
			return err
		}
		key = func(name string) (federation.SigningKey, error) {
			if name == irc.Offerer || name == rest.Offerer {
				return given, nil
			}
			return identity.NewPerson(), nil
		}
	}
	var items []conformed
	results, err := v.run(ctx, key, func(r conform.Result) {
		if !c.JSON {
			fmt.Fprintln(streams.out, text.Printable(lineOf(r)))
		}
	})
	if err != nil {
		return err
	}
	failed := 0
	for _, r := range results {
		item := conformed{Section: r.Section, Case: r.Case, Passed: r.Err == nil, Skipped: r.Skipped()}
		if r.Err != nil {
			item.Why = r.Err.Error()
		}
		if !item.Passed && !item.Skipped {
			failed++
		}
		items = append(items, item)
	}
	if c.JSON {
		if err := printJSON(streams, map[string]any{"items": items, "next_cursor": ""}); err != nil {
			return err
		}
	}
	if failed > 0 {
		return &unconformedError{failed: failed, of: len(results)}
	}
	return nil
}

// run plays the cases of the conform.
func (v conformCommand) run(
	ctx context.Context, key func(name string) (federation.SigningKey, error), tell func(conform.Result),
) ([]conform.Result, error) {
	if v.Suite == "irc" {
		return irc.Run(ctx, irc.Config{URL: v.URL, Key: key}, tell)
	}
	return rest.Run(ctx, rest.Config{URL: v.URL, Key: key}, tell)
}

// unconformedError is a server that does not do what its clients rely on.
type unconformedError struct{ failed, of int }

// Error says how much of it.
func (e *unconformedError) Error() string {
	return fmt.Sprintf("%d of %d cases fail", e.failed, e.of)
}

// lineOf writes a result for people.
func lineOf(r conform.Result) string {
	if r.Skipped() {
		return fmt.Sprintf("skip  %s: %s\n      %v", r.Section, r.Case, r.Err)
	}
	if r.Err != nil {
		return fmt.Sprintf("FAIL  %s: %s\n      %v", r.Section, r.Case, r.Err)
	}
	return fmt.Sprintf("ok    %s: %s", r.Section, r.Case)
}

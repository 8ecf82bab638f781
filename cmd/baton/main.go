// Command baton runs a gateway, and has the commands of its operators.
//
// Each command is a struct with a Run method in its own file. The common parts are here: flags,
// exit codes, and the output of errors.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/admin/render"
	"github.com/baton-gateway/baton/bridge/conform"
	"github.com/baton-gateway/baton/bridge/files/directory"
	"github.com/baton-gateway/baton/bridge/route"
	"github.com/baton-gateway/baton/bridge/server"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/passport"
	"github.com/baton-gateway/baton/federation/store/fsck"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitRefused     = 3
	exitUnavailable = 4
)

type cli struct {
	Config      string           `env:"BATON_CONFIG" help:"The configuration. Default: ./baton.toml, else /etc/baton/baton.toml." placeholder:"FILE"`
	Gateway     string           `env:"BATON_GATEWAY" help:"Address of the running gateway: unix:PATH or http(s)://HOST:PORT. Default: admin.socket of the configuration." placeholder:"URL"`
	TokenFile   string           `env:"BATON_TOKEN_FILE" help:"File with an operator token, for an HTTP address." name:"token-file" placeholder:"FILE"`
	JSON        bool             `help:"Print one JSON document on stdout." name:"json"`
	ShowVersion kong.VersionFlag `help:"Print version and revision." name:"version"`
	LogLevel    string           `enum:",debug,info,warn,error" env:"BATON_LOG_LEVEL" default:"" help:"Overrides log.level: debug, info, warn or error." placeholder:"LEVEL"`
	LogFormat   string           `enum:",text,json" env:"BATON_LOG_FORMAT" default:"" help:"Overrides log.format: text or json." placeholder:"FORMAT"`

	args []string

	Serve       serveCommand    `cmd:"" group:"serve" example:"serve --config /etc/baton/baton.toml" help:"Run the gateway until SIGTERM."`
	Demo        demoCommand     `cmd:"" group:"serve" example:"demo --smoke" help:"Show one handoff crossing from IRC to an AIRC agent and back."`
	Mcp         mcpCommand      `cmd:"" group:"serve" example:"mcp --as did:key:z6Mk…" help:"Serve the Model Context Protocol on standard input and output, for one agent."`
	Healthcheck healthcheck     `cmd:"" group:"serve" example:"healthcheck --gateway http://127.0.0.1:8081 --wait 30s" help:"Exit with 0 if the gateway is ready, and with 4 otherwise."`
	ConfigCmd   configCommands  `cmd:"" group:"setup" help:"Check a configuration, or print the reference." name:"config"`
	Handoff     handoffCommands `cmd:"" group:"handoffs" help:"Show handoffs, and send steps."`
	Explain     explainCommand  `cmd:"" group:"handoffs" help:"Explain one event, or the document of a DID."`
	Inbox       inboxCommands   `cmd:"" group:"handoffs" help:"Show, acknowledge or move the inbox of a DID."`
	Link        linkCommands    `cmd:"" group:"networks" help:"Show and control links."`
	Bind        bindCommands    `cmd:"" group:"networks" help:"Manage bindings of names to DIDs."`
	Airc        aircCommands    `cmd:"" group:"networks" help:"Manage handles of the AIRC registry, and held messages from other registries."`
	A2A         a2aCommands     `cmd:"" group:"networks" help:"Manage external A2A agents." name:"a2a"`
	Block       blockCommands   `cmd:"" group:"watch" help:"Manage blocked sources."`
	Erase       eraseCommand    `cmd:"" group:"maintain" help:"Erase the content of the handoffs of a DID."`
	Top         topCommand      `cmd:"" group:"watch" example:"top --by address --since 30m" help:"List the senders with the most steps."`
	Feed        feedCommands    `cmd:"" group:"networks" help:"Manage pending deliveries."`
	Dead        deadCommands    `cmd:"" group:"networks" help:"Manage dead letters: deliveries that failed permanently."`
	Dir         dirCommands     `cmd:"" group:"handoffs" help:"Manage the tasks of a .handoffs directory, without a gateway."`
	Webhook     webhookCommands `cmd:"" group:"networks" help:"Manage webhooks of agents."`
	Peer        peerCommands    `cmd:"" group:"networks" help:"Manage other homes and registries."`
	Relay       relayCommands   `cmd:"" group:"networks" help:"Set up and check the hub, a NATS server that connects homes."`
	Policy      policyCommands  `cmd:"" group:"setup" help:"Show the policy for steps."`
	Reload      reloadCommand   `cmd:"" group:"setup" example:"reload --dry-run" help:"Reload the configuration, and apply the settings that need no restart."`
	Log         logCommands     `cmd:"" group:"watch" help:"Control the log of the gateway."`
	Doctor      doctorCommand   `cmd:"" group:"watch" example:"doctor --online" help:"Check the gateway, its links and its peers, and print remedies. Without a running gateway, check its prerequisites."`
	Quickstart  quickstart      `cmd:"" group:"setup" help:"Write the configuration of a new gateway."`
	Status      statusCommand   `cmd:"" group:"watch" example:"status --json" help:"Print the overview: readiness, links, pending deliveries, rates, the last checks, and the last day by hour."`
	Session     sessionCommands `cmd:"" group:"watch" help:"Manage sessions of agents and their hosts."`
	Clock       clockCommands   `cmd:"" group:"watch" help:"Confirm the clock used for the expiry of handoffs and keys."`
	Audit       auditCommands   `cmd:"" group:"watch" help:"Show the audit log of operators."`
	Backup      backupCommand   `cmd:"" group:"maintain" help:"Back up the record and the keys to one file, even while the gateway is running."`
	Restore     restoreCommand  `cmd:"" group:"maintain" help:"Restore the record and the keys from a backup."`
	Verify      verifyCommand   `cmd:"" group:"maintain" help:"Verify the whole record."`
	Migrate     migrateCommand  `cmd:"" group:"maintain" help:"Upgrade an older record, as serve does at startup."`
	Bench       benchCommand    `cmd:"" group:"maintain" help:"Measure the performance of a gateway on this machine, as ratios."`
	Conform     conformCommand  `cmd:"" group:"maintain" help:"Run a conformance suite against a server."`
	Keys        keysCommands    `cmd:"" group:"setup" help:"List, create, show and rotate the gateway's own keys."`
	Token       tokenCommands   `cmd:"" group:"setup" help:"Manage the tokens of operators."`
	Version     versionCommand  `cmd:"" group:"program" example:"version --json" help:"Print the versions of the program, Go and the protocols."`
	Completion  completion      `cmd:"" group:"program" help:"Print the completion script for a shell."`
	Man         manCommand      `cmd:"" group:"program" help:"Write the man pages."`
}

const description = `A federation gateway: it carries signed handoffs between IRC networks and AIRC registries.

Example:

	baton demo --smoke
	baton serve --config /etc/baton/baton.toml
`

func groups() []kong.Group {
	return []kong.Group{
		{Key: "serve", Title: "Run a gateway:"},
		{Key: "setup", Title: "Configure it:"},
		{Key: "handoffs", Title: "Handoffs:"},
		{Key: "networks", Title: "Networks, peers and deliveries:"},
		{Key: "watch", Title: "Find out what is wrong:"},
		{Key: "maintain", Title: "Maintain it:"},
		{Key: "program", Title: "The program:"},
	}
}

// expected resolves the shorthands of a command line: a missing command and "help COMMAND" both
// request help. Each further KEY=VALUE after --context is another context of "dir offer", as in
// handoff.py.
func expected(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	case len(args) < 2 || !slices.Contains(args, "dir") || !slices.Contains(args, "offer"):
		return args
	}
	var meant []string
	open := false // the previous argument belongs to --context
	for _, arg := range args {
		key, _, pair := strings.Cut(arg, "=")
		pair = pair && !strings.HasPrefix(arg, "-") && !strings.ContainsAny(key, " \t")
		if open && pair && meant[len(meant)-1] != "--context" {
			meant = append(meant, "--context")
		}
		open = arg == "--context" || strings.HasPrefix(arg, "--context=") || open && pair
		meant = append(meant, arg)
	}
	return meant
}

type std struct {
	out, err io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], std{out: os.Stdout, err: os.Stderr}))
}

// headroom raises the heap size at which the garbage collector starts. Otherwise a small gateway
// would collect continuously, and scan the stacks of thousands of waiting requests each time.
const headroom = 64 << 20

// The ballast is allocated first and never written to, so that it uses address space but no memory.
// After a first collection the runtime would clear it.
func run(ctx context.Context, args []string, streams std) int {
	ballast := make([]byte, headroom)
	defer runtime.KeepAlive(ballast)
	alone := len(args) == 0
	args = expected(args)
	c := cli{Handoff: newHandoffCommands(), args: args}
	v := buildVersion()
	exited := -1
	parser, err := kong.New(&c, kong.Name("baton"),
		kong.Description(description), kong.ExplicitGroups(groups()), kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, FlagsLast: true, WrapUpperBound: 100}),
		kong.Vars{"version": "baton " + v.Version + ", revision " + v.Revision},
		kong.Writers(streams.out, streams.err), kong.Exit(func(code int) { exited = code }), kong.UsageOnError(),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(streams), kong.Bind(&c))
	if err != nil {
		return printError(streams, false, "start", err)
	}
	addExamples(parser.Model.Node)
	command, err := parser.Parse(args)
	switch {
	case alone:
		return exitUsage // help was printed
	case exited >= 0:
		return exited // help or the version was printed
	case err != nil:
		return printError(streams, slices.Contains(args, "--json"), "usage", &usageError{err}) // c may be unset
	}
	if err := command.Run(); err != nil {
		return printError(streams, c.JSON, commandName(command.Command()), err)
	}
	return exitDone
}

func addExamples(node *kong.Node) {
	for _, command := range node.Children {
		if line := command.Tag.Get("example"); line != "" {
			command.Detail = "Example:\n\n\tbaton " + line
		}
		addExamples(command)
	}
}

func commandName(parsed string) string {
	isArgument := func(word string) bool { return strings.ContainsAny(word, "<[") }
	return strings.Join(slices.DeleteFunc(strings.Fields(parsed), isArgument), " ")
}

type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func printError(streams std, asJSON bool, command string, err error) int {
	code, word, retry := classify(err)
	if invalid, ok := errors.AsType[*configs.InvalidError](err); ok && !asJSON {
		for _, mistake := range invalid.Mistakes {
			fmt.Fprintln(streams.err, mistake)
		}
		return code
	}
	if !asJSON {
		fmt.Fprintf(streams.err, "baton: %s: %s\n", command, render.Printable(bridge.OneLine(err)))
		return code
	}
	answer := map[string]any{"error": map[string]any{"code": word, "detail": bridge.OneLine(err), "retry_after": retry}}
	if err := json.NewEncoder(streams.err).Encode(answer); err != nil {
		return exitFailed
	}
	return code
}

// classify returns the exit code, the name and the retry delay in seconds for an error.
func classify(err error) (code int, word string, retryAfter int) {
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage, "usage", 0
	}
	if _, ok := errors.AsType[*route.NameError](err); ok {
		return exitUsage, "usage", 0
	}
	if _, ok := errors.AsType[*directory.AmbiguousError](err); ok {
		return exitUsage, "usage", 0
	}
	if _, ok := errors.AsType[*directory.RefusedError](err); ok {
		return exitRefused, string(federation.IllegalStep), 0
	}
	if _, ok := errors.AsType[*directory.NotFoundError](err); ok {
		return exitFailed, "not-found", 0
	}
	if told, ok := errors.AsType[*admin.ProblemError](err); ok {
		return problemExit(told.Code), told.Code, told.RetryAfter
	}
	if refused, ok := errors.AsType[*federation.RefusalError](err); ok {
		return exitRefused, string(refused.Code), 0
	}
	if _, ok := errors.AsType[*fsck.DamageError](err); ok {
		return exitRefused, "damaged", 0
	}
	if _, ok := errors.AsType[*conform.FailedError](err); ok {
		return exitRefused, "not-conformant", 0
	}
	if judged, ok := errors.AsType[*passport.VerdictError](err); ok {
		return problemExit(string(judged.Code())), string(judged.Code()), 0
	}
	if word := server.RefusedKey(err); word != "" {
		return exitRefused, word, 0
	}
	if _, ok := errors.AsType[*downError](err); ok {
		return exitUnavailable, "unavailable", 0
	}
	if away, ok := errors.AsType[*federation.UnavailableError](err); ok {
		return exitUnavailable, "unavailable", int(away.RetryAfter.Seconds())
	}
	if errors.Is(err, federation.ErrNotFound) {
		return exitFailed, "not-found", 0
	}
	return exitFailed, "failed", 0
}

func problemExit(code string) int {
	switch code {
	case admin.CodeUsage:
		return exitUsage
	case admin.CodeNotFound, admin.CodeFailed:
		return exitFailed
	case admin.CodeUnavailable, string(federation.SignatureUnverifiable):
		return exitUnavailable
	}
	return exitRefused
}

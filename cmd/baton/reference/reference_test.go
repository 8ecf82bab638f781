package reference_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/cmd/baton/reference"
)

// grammar is a small command line.
type grammar struct {
	JSON  bool       `help:"For machines." name:"json"`
	Keys  keys       `cmd:"" help:"Keep keys."`
	Inner struct{}   `cmd:"" help:"For tests." hidden:""`
	Top   topCommand `cmd:"" help:"List senders."`
}

type keys struct {
	Rotate rotate `cmd:"" help:"Replace a key."`
}

type rotate struct {
	Name    string `arg:"" help:"server | registry."`
	Overlap string `help:"How long the old key stays valid." placeholder:"DURATION"`
}

func (rotate) Help() string {
	return "It signs <nothing>.\n\nExample:\n\n\tbaton keys rotate server --overlap 48h"
}

type topCommand struct{}

func model(t *testing.T) *kong.Application {
	t.Helper()
	parser, err := kong.New(&grammar{}, kong.Name("baton"), kong.Description("A gateway.\n\nMore."))
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model
}

func TestDocumentHasEachCommandWithItsFlags(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := reference.Markdown(&b, model(t)); err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(b.String(), "\n## Commands\n\n")
	want := "| command | function |\n|---|---|\n" +
		"| [`keys rotate`](#baton-keys-rotate) | Replace a key. |\n" +
		"| [`top`](#baton-top) | List senders. |\n" +
		"\n### baton keys rotate\n\nReplace a key.\n\n```text\nbaton keys rotate <name>\n```\n\n" +
		"| argument, flag | meaning |\n|---|---|\n| `<name>` | server \\| registry. |\n| `--overlap=DURATION` | How long the old key stays valid. |\n" +
		"\nIt signs &lt;nothing>.\n\nExample:\n\n```text\nbaton keys rotate server --overlap 48h\n```\n" +
		"\n### baton top\n\nList senders.\n\n```text\nbaton top\n```\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestManPagesExistForTopCommands(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man")
	if err := reference.Man(dir, model(t), configuration); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if diff := cmp.Diff([]string{"baton-keys.1", "baton-top.1", "baton.1", "baton.toml.5"}, names); diff != "" {
		t.Error(diff)
	}
	page, err := os.ReadFile(filepath.Join(dir, "baton-keys.1"))
	if err != nil {
		t.Fatal(err)
	}
	if want := ".TP\n.B \\-\\-overlap=DURATION\nHow long the old key stays valid.\n.PP\nIt signs <nothing>.\n.PP\nExample:\n.PP\n.nf\nbaton keys rotate server \\-\\-overlap 48h\n.fi\n"; !strings.Contains(string(page), want) {
		t.Errorf("the page is\n%s", page)
	}
}

// configuration is a small reference file.
const configuration = `# The configuration.
#
#   durations   strings such as "500ms"
#   secrets     are never here: a key
#               names a file

[home]
# Required. The host name.
name = "gw.example"
# Both are "" for none.
cert_file = ""
key_file = ""

# Another home.
#[[peers]]
#name = "b.example"
`

func TestConfigurationHasAPage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := reference.Man(dir, model(t), configuration); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "baton.toml.5"))
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(string(page), "\n.TH ")
	want := `BATON.TOML 5
.SH NAME
baton.toml \- the configuration of baton
.SH DESCRIPTION
The configuration.
.PP
.TP
.B durations
strings such as "500ms"
.TP
.B secrets
are never here: a key
names a file
.PP
.SH [home]
.TP
.B name = \(dqgw.example\(dq
Required. The host name.
.PP
.TP
.B cert_file = \(dq\(dq
.TQ
.B key_file = \(dq\(dq
Both are "" for none.
.PP
.SH [[peers]]
Another home.
.PP
.TP
.B #name = \(dqb.example\(dq
.SH SEE ALSO
baton(1), baton\-config(1), baton\-reload(1)
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

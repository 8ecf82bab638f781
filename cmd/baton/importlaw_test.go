package main_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// module precedes the folder of a package in its import path.
const module = "github.com/baton-gateway/baton/"

// law is the import law of the repository: for each folder, the packages of ours that it
// may import. The first row whose pattern fits a folder holds for it. A pattern has * for one
// folder, and a trailing "/..." for the folder itself and all below it. A new folder fits a
// row without an edit here, or the test names it.
var law = []struct {
	folder string
	may    []string
}{
	{"federation", nil},
	{"federation/federationtest/...", kit},
	{"federation/lifecycle", []string{"federation"}},
	{"federation/fault", nil},
	{"federation/identity", []string{"federation", "federation/fault"}},
	{"federation/peering", []string{"federation", "federation/identity", "federation/signing"}},
	{"federation/relay", []string{"federation", "federation/fault"}},
	{"federation/simulation", kit},
	{"federation/store/postgrestest", kit},
	{"federation/store/storetest", kit},
	{"federation/agents", []string{"federation"}},
	{"federation/store/engine", []string{"federation", "federation/fault", "federation/store/eventform"}},
	{"federation/store/eventform", []string{"federation"}},
	{"federation/store/...", []string{"federation", "federation/agents", "federation/fault", "federation/store/..."}},
	{"federation/delivery", []string{"federation", "federation/fault", "federation/store/..."}},
	{"federation/*", []string{"federation", "federation/fault", "federation/lifecycle", "federation/signing"}},
	{"translate/translatetest", kit},
	{"translate/...", []string{"federation", "translate/..."}},
	{"bridge", []string{"federation", "federation/delivery", "federation/fault", "federation/signing", "federation/store/deliveries"}},
	{"bridge/bridgetest", kit},
	{"bridge/httpd", []string{"bridge"}},
	{"bridge/server", []string{"bridge/...", "configs", "federation/...", "translate/..."}},
	{"bridge/route", []string{"bridge", "federation"}},
	{"bridge/route/openapi", kit},
	{"bridge/conform/...", []string{"bridge/conform", "bridge/irc", "federation", "federation/signing", "translate/..."}},
	{"bridge/admin", append([]string{"federation/peering"}, networks...)},
	{"bridge/admin/client", []string{
		"bridge", "bridge/admin", "bridge/agents/participant", "bridge/route", "federation", "federation/passport", "federation/signing", "translate/...",
	}},
	{"bridge/admin/page", []string{"bridge", "bridge/admin", "bridge/admin/client", "bridge/admin/render", "bridge/route", "federation", "federation/store/operators"}},
	{"bridge/admin/render", []string{"bridge", "bridge/admin", "bridge/admin/client", "bridge/route", "federation", "federation/agents"}},
	{"bridge/airc/wire", []string{"federation", "federation/agents", "federation/signing", "translate"}},
	{"bridge/airc/*", append([]string{"bridge/airc/wire"}, networks...)},
	{"bridge/irc/*", append([]string{"bridge/irc"}, networks...)},
	{"bridge/agents/participant", append([]string{"federation/lifecycle"}, networks...)},
	{"bridge/webhook", append([]string{"federation/identity"}, networks...)},
	{"bridge/*/...", networks},
	{"configs/...", nil},
	{"cmd/baton", []string{
		"bridge/...", "cmd/...", "configs/...", "federation", "federation/identity", "federation/lifecycle", "federation/passport", "federation/relay", "federation/signing", "federation/store/backup", "federation/store/fsck", "federation/store/registry", "translate/...",
	}},
	{"cmd/...", []string{"bridge/...", "cmd/...", "configs/...", "federation/...", "translate/..."}},
}

// networks is the allowed imports of each network; "./..." is its own folder
// and those below it.
var networks = []string{
	"./...", "bridge", "bridge/credential", "bridge/agents/participant", "bridge/route", "bridge/stepbuilder", "bridge/webhook", "federation", "federation/agents", "federation/delivery", "federation/fault", "federation/identity", "federation/signing", "federation/store/...", "translate/...",
}

// kit marks code for tests, which imports freely and which nothing but tests imports.
var kit = []string{"bridge/...", "federation/...", "translate/..."}

// foreign is the law of the standard library and of modules: each of these is imported by
// the folders named, or by any folder but those.
var foreign = []struct {
	imported []string
	only     []string // the folders that may, or
	never    []string // or the folders that may not
	because  string
}{
	{imported: []string{"github.com/labstack/..."}, only: []string{"bridge/httpd"}, because: "one package imports echo"},
	{imported: []string{"github.com/nats-io/..."}, only: []string{"federation/relay"}, because: "one package speaks NATS"},
	{imported: []string{"golang.org/x/crypto/acme/..."}, only: []string{"bridge/certificate"}, because: "one package speaks ACME"},
	{imported: []string{"go.opentelemetry.io/..."}, only: []string{"bridge/tracing", "bridge/bridgetest"}, because: "one package speaks OpenTelemetry"},
	{
		imported: []string{"database/sql/...", "modernc.org/...", "github.com/jackc/..."},
		only:     []string{"federation/store/..."}, because: "one package speaks SQL",
	},
	{
		imported: []string{"net", "net/http/...", "os/...", "log/..."},
		never:    []string{"federation", "federation/lifecycle", "translate/..."}, because: "the core and the translators do no I/O",
	},
	{
		imported: []string{"net/http/..."},
		never:    []string{"federation/home", "federation/routing", "federation/passport", "federation/signing"},
		because:  "the services take ports",
	},
}

// listed is a package as "go list" prints it.
type listed struct {
	ImportPath, Name string
	Imports          []string
}

func TestImportLaw(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		folder := strings.TrimPrefix(p.ImportPath, module)
		may, ok := allowed(folder)
		if !ok {
			t.Errorf("%s fits no row of the import law", folder)
			continue
		}
		for _, imported := range p.Imports {
			if ours, isOurs := strings.CutPrefix(imported, module); isOurs {
				if !fitsAny(may, folder, ours) {
					t.Errorf("%s imports %s", folder, ours)
				}
				if imports, _ := allowed(ours); slices.Equal(imports, kit) && !slices.Equal(may, kit) {
					t.Errorf("%s imports %s, which is code for tests", folder, ours)
				}
				continue
			}
			if !slices.Equal(may, kit) {
				checkForeign(t, folder, imported)
			}
		}
	}
}

// The search for unused functions looks only at packages that the program has.
func TestPackagesArePartOfAProgram(t *testing.T) {
	t.Parallel()
	imports, programs := map[string][]string{}, []string{}
	for _, p := range packages(t) {
		folder := strings.TrimPrefix(p.ImportPath, module)
		switch may, _ := allowed(folder); {
		case p.Name == "main":
			programs = append(programs, p.Imports...)
		case !slices.Equal(may, kit) && folder != "bridge/bridgetest/jsonlines": // the example of the guide
			imports[p.ImportPath] = p.Imports
		}
	}
	for len(programs) > 0 {
		next := programs[0]
		programs = append(programs[1:], imports[next]...)
		delete(imports, next)
	}
	for unused := range imports {
		t.Errorf("no program has %s", unused)
	}
}

func checkForeign(t *testing.T, folder, imported string) {
	t.Helper()
	for _, rule := range foreign {
		if !fitsAny(rule.imported, "", imported) {
			continue
		}
		if fitsAny(rule.never, "", folder) || rule.only != nil && !fitsAny(rule.only, "", folder) {
			t.Errorf("%s imports %s: %s", folder, imported, rule.because)
		}
	}
}

func TestImportLawRefuses(t *testing.T) {
	t.Parallel()
	for folder, imported := range map[string]string{
		"federation":              "federation/signing",
		"federation/home":         "federation/store",
		"federation/relay":        "bridge",
		"bridge/irc/freeq":        "bridge/irc/inspircd",
		"bridge/agents/mcp":       "bridge/airc", // a folder that does not exist yet
		"bridge/airc":             "federation/home",
		"bridge/airc/peers":       "bridge/airc",
		"bridge/airc/wire":        "bridge/airc/peers",
		"translate/acttag":        "bridge",
		"federation/routing":      "federation/identity",
		"bridge/server":           "cmd/baton/demo",
		"cmd/baton":               "federation/routing",
		"bridge/macp/runtime":     "bridge/agents/mcp",
		"federation/newcomers":    "federation/store",
		"federation/store/engine": "federation/store/handoffs",
	} {
		may, ok := allowed(folder)
		if !ok || fitsAny(may, folder, imported) {
			t.Errorf("%s may import %s", folder, imported)
		}
	}
}

func allowed(folder string) (may []string, ok bool) {
	for _, row := range law {
		if fits(row.folder, folder) {
			return row.may, true
		}
	}
	return nil, false
}

// fitsAny reports whether one of the patterns fits a folder, as seen from another.
func fitsAny(patterns []string, from, folder string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if below, own := strings.CutPrefix(pattern, "./"); own {
			pattern = from + "/" + below
		}
		return fits(pattern, folder)
	})
}

func fits(pattern, folder string) bool {
	top, below := strings.CutSuffix(pattern, "/...")
	depth := strings.Count(top, "/") + 1
	parts := strings.Split(folder, "/")
	if len(parts) < depth || len(parts) > depth && !below {
		return false
	}
	ok, err := path.Match(top, strings.Join(parts[:depth], "/"))
	return ok && err == nil
}

// packages lists all packages of the repository, without their tests.
func packages(t *testing.T) []listed {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Name,Imports", module+"...")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

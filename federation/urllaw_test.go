package federation_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// concatenations are the functions that may build the text of a URL without JoinURL, each
// with its reason.
var concatenations = map[string]string{
	"federation/url.go JoinURL":                        "it is the one place",
	"federation/blob.go URL":                           "a Capability is parsed base64url, and the base is the configured public_url",
	"federation/relay/accounts.go Instructions":        "it prints the address of a server of a hub for an operator",
	"bridge/contexts.go hashed":                        "it compares a prefix and asks nothing",
	"bridge/irc/client/link.go Describe":               "it prints a constant path below the configured public_url",
	"bridge/agents/a2a/card.go card":                   "it names a constant path below the configured public_url",
	"bridge/agents/a2a/card.go endpoint":               "it names constant paths below the configured public_url, and escapes the DID",
	"bridge/agents/a2a/card.go sign":                   "it names a constant path below the configured public_url",
	"bridge/agents/a2a/task.go metadata":               "it names the path of an ID below the configured public_url",
	"bridge/macp/link.go href":                         "it names the path of an ID below the configured public_url",
	"bridge/agents/mcp/link.go package":                "it is a constant path",
	"bridge/agents/mcp/link.go getMetadata":            "it names a constant path below the configured public_url",
	"bridge/agents/mcp/link.go serve":                  "it names a constant path below the configured public_url",
	"bridge/agents/mcp/link.go serveAccount":           "it names a constant path below the configured public_url",
	"bridge/agents/oauth/oauth.go getMetadata":         "it names constant paths below the configured public_url",
	"bridge/agents/oauth/assertion.go checkClaims":     "it compares with a constant path below the configured public_url",
	"bridge/agents/oauth/authorize.go targetOf":        "it names the source of a checked address for a policy, and asks nothing",
	"bridge/agents/oauth/device.go authorizeDevice":    "it names a constant path below the configured public_url, and escapes the code",
	"bridge/agents/a2a/legacy.go withLegacyMembers":    "it names a constant path below the configured public_url",
	"bridge/agents/a2a/a2aclient/deliver.go passport":  "it names the path of an ID below the configured public_url",
	"bridge/agents/a2a/a2aclient/follow.go subscribe":  "it names a path of base64url below the configured public_url",
	"bridge/agents/a2a/a2aclient/grpc.go grpcHost":     "it completes the address that a card has, before the address is parsed",
	"bridge/agents/a2a/a2aclient/network.go CardURL":   "it completes the address that an operator wrote, before the address is parsed",
	"bridge/conform/airc/stage.go ask":                 "an operator names the server that the suite tests, and the paths are those of the cases",
	"bridge/conform/rest/cast.go newCast":              "an operator names the server that the suite tests, and the path is a constant",
	"bridge/conform/rest/cast.go send":                 "the paths are those of the table of cases",
	"cmd/baton/bench/caller.go request":                "the benchmark starts the gateway itself, and its paths are constants and IDs",
	"cmd/baton/bench/gateway.go awaitReady":            "it names a constant path of the gateway that the benchmark started",
	"cmd/baton/bench/gateway.go open":                  "it writes the configuration of the gateway that the benchmark starts",
	"cmd/baton/bench/latency.go register":              "it names the gateway that the benchmark started",
	"cmd/baton/demo.go Run":                            "it prints the address of a listener for a person",
	"deploy/agent/agent.go send":                       "the lab starts the gateways itself, and its paths are constants and IDs",
	"deploy/bench/scale/measure/homes.go openGateways": "the measurement starts the gateways itself",
	"deploy/bench/scale/measure/tap.go url":            "it names the proxy that the measurement starts",
	"deploy/lab/a2a.go serve":                          "it names the address that the lab gives its agent",
	"deploy/lab/irc.go offer":                          "the lab starts the gateway itself, and the path is of an ID",
	"configs/check.go parseOrigin":                     "it compares spellings, asks nothing, and configs imports nothing of ours",
}

// Words at the end of a name that say that its value is an address or a part of one.
var addressName = regexp.MustCompile(`(URL|Base|API)$|^(url|base|api|address|target)$`)

// A literal that begins, or continues, an address.
var addressText = regexp.MustCompile(`^https?://|://$|^/\.well-known|^/(api|federation|fed|operator)/`)

// A format that makes an address of its arguments.
var addressFormat = regexp.MustCompile(`https?://[^ ]*%|%s://|%[sv]/\.well-known`)

// The calls that send a request to an address.
var requests = []string{"NewRequest", "NewRequestWithContext", "Get", "Post", "Head", "Look", "Do", "Call", "Fetch"}

// A handle of a caller once became a path at another registry, by concatenation.
func TestURLsAreNotBuiltByConcatenation(t *testing.T) {
	t.Parallel()
	var found []string
	used := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		switch {
		case entry.IsDir() && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") && path != ".."):
			return filepath.SkipDir
		case entry.IsDir(), !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"), strings.HasSuffix(name, ".gen.go"), isTestKit(name):
			return nil
		}
		lines, err := urlsBuiltIn(path)
		for place, where := range lines {
			key := name + " " + place
			if _, ok := concatenations[key]; ok {
				used[key] = true
				continue
			}
			found = append(found, key+": "+where)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	for _, each := range found {
		t.Errorf("%s: join URLs with federation.JoinURL", each)
	}
	for key := range concatenations {
		if !used[key] {
			t.Errorf("%s builds no URL any more: take it off the list", key)
		}
	}
}

// isTestKit reports whether a file is of tests, or of programs to be read.
func isTestKit(name string) bool {
	dir := name[:max(0, strings.LastIndexByte(name, '/'))]
	return strings.HasPrefix(name, "deploy/examples/") || strings.HasSuffix(dir, "test")
}

// urlsBuiltIn returns the places at which a file builds URLs, by function.
func urlsBuiltIn(path string) (map[string]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return urlsBuilt(files, file), nil
}

func urlsBuilt(files *token.FileSet, file *ast.File) map[string]string {
	found := map[string]string{}
	for _, decl := range file.Decls {
		place := "package"
		if f, ok := decl.(*ast.FuncDecl); ok {
			place = f.Name.Name
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			if buildsURL(n) {
				found[place] = fmt.Sprint("line ", files.Position(n.Pos()).Line)
			}
			return true
		})
	}
	return found
}

// buildsURL reports whether a node joins the parts of an address, or sends a request to an
// address joined in its arguments.
func buildsURL(n ast.Node) bool {
	switch e := n.(type) {
	case *ast.AssignStmt:
		return e.Tok == token.ADD_ASSIGN && isAddress(append(operands(e.Lhs[0]), operands(e.Rhs[0])...))
	case *ast.BinaryExpr:
		return e.Op == token.ADD && isAddress(operands(e))
	case *ast.CallExpr:
		name := lastName(e.Fun)
		if strings.HasSuffix(name, "printf") && len(e.Args) > 1 {
			return slices.ContainsFunc(e.Args[:2], func(arg ast.Expr) bool { return addressFormat.MatchString(literal(arg)) })
		}
		return slices.Contains(requests, name) && slices.ContainsFunc(e.Args, isJoined)
	}
	return false
}

func isJoined(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return e.Op == token.ADD && slices.ContainsFunc(operands(e), func(part ast.Expr) bool { return strings.Contains(literal(part), "/") || lastName(part) != "" })
	case *ast.CallExpr:
		return strings.HasSuffix(lastName(e.Fun), "printf")
	}
	return false
}

// isAddress reports whether the parts of a sum form an address.
func isAddress(parts []ast.Expr) bool {
	for i, part := range parts {
		text := literal(part)
		switch {
		case i+1 < len(parts) && (addressText.MatchString(text) && !strings.Contains(text, " ")):
			return true
		case i > 0 && addressText.MatchString(text) && !strings.Contains(text, " "):
			return true
		case i == 0 && addressName.MatchString(lastName(part)) && isPathPart(parts[1]):
			return true
		}
	}
	return false
}

// isPathPart reports whether an operand continues an address with a path.
func isPathPart(e ast.Expr) bool {
	return strings.HasPrefix(literal(e), "/") || regexp.MustCompile(`(?i)path$`).MatchString(lastName(e))
}

// operands returns the parts of a sum, from left to right.
func operands(e ast.Expr) []ast.Expr {
	if sum, ok := e.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
		return append(operands(sum.X), operands(sum.Y)...)
	}
	return []ast.Expr{e}
}

// literal returns the text of a string literal, "" for any other expression.
func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return text
}

// lastName returns the last part of a name such as l.deps.PublicURL, also of a call of it.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.CallExpr:
		return lastName(e.Fun)
	}
	return ""
}

func TestURLLawFindsConcatenation(t *testing.T) {
	t.Parallel()
	// The parser takes only expressions: an assignment stands in a function.
	for expression, want := range map[string]bool{
		`p.base + path`:           true,
		`p.base + "/x/" + handle`: true, `"https://" + domain`: true, `u.Scheme + "://" + u.Host`: true, `publicURL + EvidencePath + id`: true,
		`api() + "/x"`: true, `where + "/.well-known/airc"`: true, `fmt.Sprintf("https://%s/x", host)`: true, `fmt.Sprintf("%s://%s", scheme, host)`: true,
		`fetch.Get(ctx, p.base+path)`: true, `fetch.Get(ctx, fmt.Sprintf("%s/%s", a, b))`: true, `http.NewRequestWithContext(ctx, "GET", a+b, nil)`: true,
		`federation.JoinURL(base, path.Join(handle), nil)`: false, `"want https:// and a host, not " + text`: false, `fmt.Errorf("at https:// %s", text)`: false,
		`network + "/" + name`: false, `fetch.Get(ctx, address)`: false, `func() { address += "/" + handle }`: true, `func() { n += 1 }`: false, `a + 1`: false,
	} {
		e, err := parser.ParseExpr(expression)
		if err != nil {
			t.Fatal(err)
		}
		got := false
		ast.Inspect(e, func(n ast.Node) bool {
			got = got || buildsURL(n)
			return true
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", expression, diff)
		}
	}
}

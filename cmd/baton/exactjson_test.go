package main_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Peer input is decoded by federation.DecodeJSON and federation.DecodeStrictJSON, which match the names of members
// exactly and refuse repeated ones. The package encoding/json does neither.
func TestSourceDecodesJSONByExactNames(t *testing.T) {
	t.Parallel()
	decoders := []string{"Unmarshal", "NewDecoder", "UnmarshalRead", "UnmarshalDecode", "UnmarshalFrom"}
	libraries := []string{
		"encoding/json", "github.com/go-json-experiment/json", "github.com/go-json-experiment/json/v1",
		"github.com/segmentio/encoding/json", "github.com/goccy/go-json",
	}
	// These libraries decode with encoding/json. Their callers must check names with
	// federation.ExactNames first.
	loose := map[string][]string{
		"github.com/golang-jwt/jwt/v5":                             {"bridge/agents/participant", "bridge/credential", "bridge/agents/a2a/a2aclient"}, // credential only parses tokens of this gateway, and a2aclient only writes
		"github.com/coreos/go-oidc/v3/oidc":                        {"bridge/airc"},
		"github.com/a2aproject/a2a-go/v2/a2a":                      {"bridge/agents/a2a", "bridge/agents/a2a/a2aclient", "translate/a2atask"},
		"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0":          {"bridge/agents/a2a", "bridge/agents/a2a/a2aclient"}, // its result is written again, and that text is the evidence
		"github.com/modelcontextprotocol/go-sdk/mcp":               {"bridge/agents/mcp", "cmd/baton"},                   // it matches case
		"github.com/standard-webhooks/standard-webhooks/libraries": nil,
	}
	walkers := []string{"translate/taskfile/taskfile.go", "translate/voicefile/json.go", "translate/a2atask/proto.go"} // read tokens, and compare names themselves or read none
	called := 0
	err := filepath.WalkDir("../..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file := filepath.ToSlash(strings.TrimPrefix(name, "../../"))
		folder := path.Dir(file)
		switch {
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && entry.Name() != "..":
			return filepath.SkipDir
		case !strings.HasSuffix(file, ".go"), strings.HasSuffix(file, "_test.go"), file == "federation/json.go", slices.Contains(walkers, file):
			return nil
		case strings.HasPrefix(file, "deploy/"), folder == "cmd/baton/bench": // programs that only talk to their own gateway
			return nil
		}
		if may, _ := allowed(folder); slices.Equal(may, kit) {
			return nil
		}
		source, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		imported := map[string]bool{} // by local name
		for _, spec := range source.Imports {
			from, _ := strconv.Unquote(spec.Path.Value)
			if folders, known := loose[from]; known && folders != nil && !slices.Contains(folders, folder) {
				t.Errorf("%s imports %s, which does not match names exactly", file, from)
			}
			as := strings.TrimSuffix(path.Base(from), "/v1")
			if as == "v1" {
				as = "json"
			}
			if spec.Name != nil {
				as = spec.Name.Name
			}
			if slices.Contains(libraries, from) {
				imported[as] = true
			}
		}
		generated := ast.IsGenerated(source)
		ast.Inspect(source, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if strings.HasPrefix(selector.Sel.Name, "Decode") && strings.HasSuffix(selector.Sel.Name, "JSON") {
				called++
			}
			library, ok := selector.X.(*ast.Ident)
			if ok && !generated && imported[library.Name] && slices.Contains(decoders, selector.Sel.Name) {
				t.Errorf("%s calls %s.%s: call federation.DecodeJSON", file, library.Name, selector.Sel.Name)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if called < 100 {
		t.Errorf("found %d decoders, want the whole repository", called)
	}
}

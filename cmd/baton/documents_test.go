package main_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the folder of the repository, seen from this package.
const root = "../.."

// fence is one block of code of a document.
type fence struct {
	language string // such as "sh"; only that one is executed
	needs    string // a need of the block that a test cannot meet; "" for none
	text     string
	line     int
}

// document is one Markdown file of the repository.
type document struct {
	path   string // below the root
	text   string
	fences []fence
}

var (
	opening = regexp.MustCompile("^ *```([a-z]*)(?: needs=\"([^\"]+)\")?$")
	closing = regexp.MustCompile("^ *```$")
)

// readDocument splits a file into its blocks of code and the rest.
func readDocument(t *testing.T, path string) document {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	d := document{path: path}
	var open *fence
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		bare := strings.TrimRight(line, "\n")
		switch {
		case open != nil && closing.MatchString(bare):
			d.fences, open = append(d.fences, *open), nil
		case open != nil:
			open.text += line
		case strings.HasPrefix(strings.TrimLeft(bare, " "), "```"):
			match := opening.FindStringSubmatch(bare)
			if match == nil {
				t.Fatalf("%s:%d: a block begins with %q, want a language and at most needs=\"...\"", path, number, bare)
			}
			open = &fence{language: match[1], needs: match[2], line: number}
		default:
			d.text += line
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the block does not end", path, open.line)
	}
	return d
}

// allDocuments reads all Markdown files of the repository.
func allDocuments(t *testing.T) (all []document) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (slices.Contains([]string{"node_modules", "testdata", "dist", "data"}, entry.Name()) || entry.Name() == ".git"):
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			below, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			all = append(all, readDocument(t, below))
		}
		return nil
	})
	if err != nil || len(all) < 10 {
		t.Fatalf("%d documents, %v", len(all), err)
	}
	return all
}

var (
	link    = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the fragments that name the headings of a document, as forges make them.
func (d document) anchors() (all []string) {
	for _, match := range heading.FindAllStringSubmatch(d.text, -1) {
		plain := dropped.ReplaceAllString(strings.ToLower(link.ReplaceAllStringFunc(match[1], func(l string) string {
			return l[1:strings.Index(l, "]")]
		})), "")
		all = append(all, strings.ReplaceAll(strings.TrimSpace(plain), " ", "-"))
	}
	return all
}

func TestLinksBetweenDocumentsExist(t *testing.T) {
	t.Parallel()
	anchors := map[string][]string{}
	for _, d := range allDocuments(t) {
		anchors[d.path] = d.anchors()
	}
	for _, d := range allDocuments(t) {
		for _, match := range link.FindAllStringSubmatch(d.text, -1) {
			target, fragment, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			path := d.path
			if target != "" {
				path = filepath.Join(filepath.Dir(d.path), target)
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s: %s leads nowhere", d.path, match[1])
				continue
			}
			if fragment != "" && !slices.Contains(anchors[path], fragment) {
				t.Errorf("%s: %s has no heading %q", d.path, path, fragment)
			}
		}
	}
}

// The README repeats the first sentence of the proof.
func TestReadmeHasTheFiguresOfTheProof(t *testing.T) {
	t.Parallel()
	claim := regexp.MustCompile(`\*\*\d+ acknowledged steps, \d+ faults, 0 lost, 0 twice`).FindString(readDocument(t, "deploy/bench/proof.md").text)
	if claim == "" {
		t.Fatal("deploy/bench/proof.md does not say that nothing was lost")
	}
	if !strings.Contains(readDocument(t, "README.md").text, claim) {
		t.Errorf("README.md does not say %q", claim)
	}
}

// The README is a tour. The guide to a subject is in the folder of the subject.
func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(text), "\n"); lines > 200 {
		t.Errorf("README.md has %d lines, want at most 200: shorten another part", lines)
	}
}

// The table of support has the folder of each network.
func TestReadmeHasEachNetwork(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, support, _ := strings.Cut(string(text), "\n## Support\n")
	list, err := parser.ParseFile(token.NewFileSet(), "networks.go", nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, imported := range list.Imports {
		folder := strings.TrimPrefix(strings.Trim(imported.Path.Value, `"`), module)
		isNetwork := strings.HasPrefix(folder, "bridge/") && folder != "bridge/server"
		if isNetwork && !strings.Contains(support, "| `"+folder+"` |") {
			t.Errorf("no row of the table has %s", folder)
		}
	}
}

// command matches a call of the program at the begin of a line or after a shell operator.
var command = regexp.MustCompile(`(?m)(?:^|&& |\|\| |; |\$\()\s*(?:\./)?baton((?: --[a-z-]+[ =]\S+)*)((?: [a-z][a-z0-9]*)+)([^|;&#\n]*)`)

// Commands of blocks that no test executes must be in the generated reference, with their
// flags.
func TestCommandsInDocumentsExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	reference := string(text)
	checked := 0
	for _, d := range allDocuments(t) {
		for _, f := range d.fences {
			if f.language != "sh" && f.language != "text" && f.language != "" || d.path == "cmd/baton/README.md" {
				continue
			}
			for _, match := range command.FindAllStringSubmatch(f.text, -1) {
				checked++
				if why := missing(reference, strings.Fields(match[2]), match[1]+match[3]); why != "" {
					t.Errorf("%s:%d: %q: %s", d.path, f.line, strings.TrimSpace(match[0]), why)
				}
			}
		}
	}
	if checked < 20 {
		t.Errorf("%d commands were checked", checked)
	}
}

var flag = regexp.MustCompile(`(?:^|\s)(--[a-z-]+)`)

// missing returns why a command is not in the reference, "" if it is. Words after the
// command are its arguments.
func missing(reference string, words []string, flags string) string {
	for n := len(words); n > 0; n-- {
		name := strings.Join(words[:n], " ")
		_, section, found := strings.Cut(reference, "\n### baton "+name+"\n")
		if !found {
			continue
		}
		section, _, _ = strings.Cut(section, "\n### ")
		global, _, _ := strings.Cut(reference, "\n## Commands")
		for _, match := range flag.FindAllStringSubmatch(flags, -1) {
			if !strings.Contains(section+global, "`"+match[1]) {
				return name + " has no flag " + match[1]
			}
		}
		return ""
	}
	return "no such command"
}

//go:build interop

package reference_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/cmd/baton/reference"
)

// These programs print a shell's completions of the words in its first
// argument, one a line.
var offers = map[string][]string{
	"bash": {"-c", `source ../bash; read -ra COMP_WORDS <<<"$1"; COMP_WORDS+=(""); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _baton; printf '%s\n' "${COMPREPLY[@]}"`, "bash"},
	"zsh":  {"-f", "-c", `compdef() { }; compadd() { shift; printf '%s\n' "$@" }; _files() { }; source ../zsh; words=(${=1} ""); CURRENT=$#words; _baton`, "zsh"},
	"fish": {"--no-config", "-c", `source ../fish; complete -C "$argv[1] "; complete -C "$argv[1] --"`},
}

// follows are the words that a shell offers after some words of the small command line.
var follows = map[string][]string{
	"baton":                    {"--help", "--json", "keys", "top"},
	"baton keys":               {"--help", "--json", "rotate"},
	"baton --json keys rotate": {"--help", "--json", "--overlap"},
}

func TestCompletionWorksInShells(t *testing.T) {
	t.Parallel()
	folder, app := t.TempDir(), model(t)
	empty := filepath.Join(folder, "empty") // shells offer the names of files too
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	for shell, script := range offers {
		var text strings.Builder
		if known, err := reference.Completion(&text, app, shell); err != nil || !known {
			t.Fatalf("Completion for %s: %v, %v", shell, known, err)
		}
		if err := os.WriteFile(filepath.Join(folder, shell), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		for words, want := range follows {
			command := exec.CommandContext(t.Context(), shell, append(slices.Clone(script), words)...)
			command.Dir = empty
			out, err := command.CombinedOutput()
			if err != nil {
				t.Fatalf("%s after %q: %v: %s", shell, words, err, out)
			}
			found := []string{}
			for line := range strings.Lines(string(out)) {
				word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
				found = append(found, word)
			}
			slices.Sort(found)
			if diff := cmp.Diff(want, slices.Compact(found)); diff != "" {
				t.Errorf("%s after %q (-want +got):\n%s", shell, words, diff)
			}
		}
	}
}

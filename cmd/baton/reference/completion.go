package reference

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type candidate struct{ word, help string }

type follows struct {
	at    string
	words []candidate
}

// Completion writes the completion script of a shell: bash, zsh or fish. It returns false for any
// other shell.
func Completion(w io.Writer, app *kong.Application, shell string) (known bool, err error) {
	out := bufio.NewWriter(w)
	all := followsOf(app.Node, nil)
	switch shell {
	case "bash":
		bashCompletion(out, app.Name, all)
	case "zsh":
		zshCompletion(out, app.Name, all)
	case "fish":
		fishCompletion(out, app.Name, all)
	default:
		return false, nil
	}
	return true, out.Flush()
}

// A command inherits the flags above it.
func followsOf(node *kong.Node, above []candidate) []follows {
	flags := above
	for _, f := range flagsOf(node) {
		name, _, _ := strings.Cut(f.name, "=")
		if _, long, short := strings.Cut(name, ", "); short {
			name = long
		}
		flags = append(slices.Clip(flags), candidate{name, f.help})
	}
	own := follows{at: node.FullPath()}
	var below []follows
	for _, child := range node.Children {
		if !child.Hidden {
			own.words = append(own.words, candidate{child.Name, child.Help})
			below = append(below, followsOf(child, flags)...)
		}
	}
	for _, argument := range node.Positional {
		if argument.Enum != "" {
			for _, value := range argument.EnumSlice() {
				own.words = append(own.words, candidate{value, argument.Help})
			}
		}
	}
	own.words = append(own.words, flags...)
	return append([]follows{own}, below...)
}

func (f follows) list() string {
	words := make([]string, len(f.words))
	for i, each := range f.words {
		words[i] = each.word
	}
	return strings.Join(words, " ")
}

func bashCompletion(out io.Writer, name string, all []follows) {
	fmt.Fprintf(out, "# Completes %[1]s in bash: source <(%[1]s completion bash)\n_%[1]s_next() {\n    case \"$1\" in\n", name)
	for _, each := range all {
		fmt.Fprintf(out, "        %q) echo %q ;;\n", each.at, each.list())
	}
	fmt.Fprintf(out, `    esac
}
_%[1]s() {
    local at=%[1]s word
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        if [ -n "$(_%[1]s_next "$at $word")" ]; then at="$at $word"; fi
    done
    COMPREPLY=($(compgen -W "$(_%[1]s_next "$at")" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _%[1]s %[1]s
`, name)
}

func zshCompletion(out io.Writer, name string, all []follows) {
	fmt.Fprintf(out, "#compdef %[1]s\n# Completes %[1]s in zsh: %[1]s completion zsh > a folder of $fpath, as _%[1]s\n_%[1]s() {\n    local -A next\n    next=(\n", name)
	for _, each := range all {
		fmt.Fprintf(out, "        '%s' '%s'\n", each.at, each.list())
	}
	fmt.Fprintf(out, `    )
    local at=%[1]s word
    for word in "${(@)words[2,CURRENT-1]}"; do
        if [[ -n "${next[$at $word]}" ]]; then at="$at $word"; fi
    done
    compadd -- ${=next[$at]}
    _files
}
if [[ "${funcstack[1]}" = _%[1]s ]]; then _%[1]s "$@"; else compdef _%[1]s %[1]s; fi
`, name)
}

func fishCompletion(out io.Writer, name string, all []follows) {
	fmt.Fprintf(out, "# Completes %[1]s in fish: %[1]s completion fish | source\nfunction __%[1]s_at\n    set -l at %[1]s\n    for word in (commandline -opc)[2..-1]\n        switch \"$at $word\"\n            case", name)
	for _, each := range all[1:] {
		fmt.Fprintf(out, " %s", fishQuoted(each.at))
	}
	fmt.Fprint(out, "\n                set at \"$at $word\"\n        end\n    end\n    echo $at\nend\n")
	for _, each := range all {
		for _, follow := range each.words {
			fmt.Fprintf(out, "complete -c %s -n %s -a %s -d %s\n", name, fishQuoted(fmt.Sprintf("test (__%s_at) = '%s'", name, each.at)), fishQuoted(follow.word), fishQuoted(follow.help))
		}
	}
}

func fishQuoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}

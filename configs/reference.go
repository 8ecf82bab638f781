package configs

import (
	_ "embed"
	"strings"
)

// frame is the reference of the tables in [Config].
//
//go:embed baton.toml
var frame string

// networksMark is the line of the frame where the tables of the networks stand.
const networksMark = "#%networks\n"

// Reference returns the configuration file with every key, its default and what it is for:
// the frame, with the parts of the networks in their order. Tables that may be given any
// number of times are commented out, so that the file is valid as it is.
func Reference(parts ...string) string {
	return strings.Replace(frame, networksMark, strings.Join(parts, "\n"), 1)
}

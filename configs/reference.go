package configs

import _ "embed"

// Reference is the configuration file with every key, its default and what it is
// for. Tables that may be given any number of times are commented out, so that it
// is valid as it stands.
//
//go:embed baton.toml
var Reference string

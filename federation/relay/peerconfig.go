package relay

import (
	"slices"

	"baton/federation"
)

// PeerConfig says how another home is reached.
type PeerConfig struct {
	Home federation.HomeID
	URL  string // without a path; empty for a home that is reached through the hub alone
	Path Path   // empty for HTTPS alone
	Mode Mode
	// Key is the id of the key that signs the DID document of the other home where the document
	// comes through a hub. Its operator told it on another way. Empty for none.
	Key string
}

// Path says how a home is reached.
type Path string

// The paths.
const (
	ByRelay Path = "relay" // through the hub, and by HTTPS while the hub or the home does not answer there
	ByHTTPS Path = "https"
)

// Check calls mistake with the key and the reason of each value that cannot work. The name of a
// home is its identity; own is the name of this one.
func (c PeerConfig) Check(own federation.HomeID, mistake func(key, why string)) {
	switch c.Home {
	case "":
		mistake("name", "required: its home.name, such as b.example")
	case own:
		mistake("name", "it is this gateway's own")
	case federation.UnroutedLink:
		mistake("name", `"`+federation.UnroutedLink+`" is the feed of what has no home yet`)
	}
	switch {
	case c.URL == "" && c.Path == ByHTTPS:
		mistake("url", `required with path = "https": https:// and a host, without a path`)
	case c.URL != "" && federation.CheckOrigin(c.URL) != nil:
		mistake("url", `want https:// and a host, without a path, or "" for a home that the hub alone reaches`)
	}
	if c.Path != ByRelay && c.Path != ByHTTPS {
		mistake("path", `want "relay" or "https"`)
	}
	if !slices.Contains([]Mode{Allow, Limit, Hold, Block}, c.Mode) {
		mistake("mode", `want "allow", "limit", "hold" or "block"`)
	}
}

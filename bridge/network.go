package bridge

import "errors"

// Network describes a foreign protocol: how its links are configured and opened. A network is
// a value, which the folder of the network returns; the program has one list of them.
type Network struct {
	Name  string // the label in metrics, such as "spanningtree"
	Table string // of the configuration, such as "irc.spanningtree"
	// Many says that the table may be given any number of times, one for each link.
	Many bool
	// Reference is the part of the reference file: each key of the table with its default and
	// its purpose. A table that may be given many times is commented out.
	Reference string
	// Open returns the link that a table describes, or [ErrOff] for a table that turns its
	// network off. It reads secret files and does no other I/O. Its error joins one [*KeyError]
	// for each mistake in the table. A check of the configuration calls Open too, and gives it
	// no interface but Secrets: Open itself calls no other one.
	Open func(t Table, p Ports) (Link, error)
}

// ErrOff is returned by Open of a [Network] for a table that turns the network off.
var ErrOff = errors.New("turned off")

// Table is one table of the configuration.
type Table interface {
	// Decode writes the table into the struct that a pointer points to. The tags "toml" of its
	// fields name the keys; keys that the table does not have keep their value. The file gathers
	// unknown keys and values of the wrong type as mistakes, and so Decode returns none.
	Decode(into any)
}

package federation

// Mistake is one mistake in a table of the configuration.
type Mistake struct {
	Key string // within the table, such as "peers"
	Why string
}

package contract

// Policy is what the gateway judges by.
type Policy struct {
	// Rules are in the order in which they are tried. The last one is require of [policy].
	Rules  []PolicyRule  `json:"rules"`
	Limits []PolicyLimit `json:"limits"`
}

// PolicyRule is what steps need that it fits. An empty list fits all.
type PolicyRule struct {
	Verbs      []string `json:"verbs"`
	Peers      []string `json:"peers"`
	Recipients []string `json:"recipients"`
	Senders    []string `json:"senders"`
	Require    string   `json:"require"` // signed, vouched, nothing or deny
	File       string   `json:"file"`
	Line       int      `json:"line"` // 0 for a default
}

// PolicyLimit is one key of the table [limits].
type PolicyLimit struct {
	Key   string `json:"key"`
	Value string `json:"value"` // as in the configuration
	File  string `json:"file"`  // empty for a default
	Line  int    `json:"line"`  // 0 for a default
}

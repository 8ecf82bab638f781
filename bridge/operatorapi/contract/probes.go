package contract

// PeersParameter is the parameter of /readyz that asks for the links to other homes too.
const PeersParameter = "peers"

// Readiness is the answer of /readyz, a route outside the contract.
type Readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"` // what does not work, a sentence each
}

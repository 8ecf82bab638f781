package bridge

// Explainer is a [Link] that can tell what the operator of the other side must set.
type Explainer interface {
	Link
	// Explain returns that as text to send to them, without a secret in it. It needs no
	// connection.
	Explain() string
}

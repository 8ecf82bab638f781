package contract

// Held is a message of an unverified sender of another registry that waits for consent.
type Held struct {
	ID       int64  `json:"id"`
	From     string `json:"from"` // the handle that its recipient decides about
	To       string `json:"to"`   // the handle of its recipient
	Text     string `json:"text"` // its body, or else its payload
	Received Moment `json:"received"`
}

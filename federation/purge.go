package federation

// Purged counts what a purge took from the record.
type Purged struct {
	Inbox    int `json:"inbox"`    // unread entries of inboxes
	Messages int `json:"messages"` // entries that wait for participants in the tables of a network
	Deferred int `json:"deferred"` // steps that waited for a key or for the ruling of another home
	Dead     int `json:"dead"`     // dead letters
	Outbox   int `json:"outbox"`   // deliveries to links, their peers and other homes
}

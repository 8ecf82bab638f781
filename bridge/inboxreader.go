package bridge

// InboxReader is a [Link] whose participants have no connection to be told on: they read
// their inbox and their notices from the record.
type InboxReader interface {
	Link
	// ReadsInbox marks the link. It does nothing.
	ReadsInbox()
}

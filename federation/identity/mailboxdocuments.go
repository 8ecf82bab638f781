package identity

import (
	"context"
	"errors"
	"time"

	"baton/federation"
)

// MailboxDocuments reads the mailbox homes of DIDs from published documents.
type MailboxDocuments struct {
	Directory func() *Directory // the current one
	Client    *Client           // fetches from addresses that strangers chose
}

// MailboxURL returns the address of the mailbox home in the document of a DID, "" where the
// document has none. It blocks on the network.
func (d MailboxDocuments) MailboxURL(ctx context.Context, did federation.DID) (string, error) {
	document, err := d.Directory().Resolve(ctx, did, time.Now())
	if err != nil {
		return "", err
	}
	return document.Mailbox, nil
}

// HostHome returns the home in the well-known document of a host, "" for a host without such a
// document. It blocks on the network.
func (d MailboxDocuments) HostHome(ctx context.Context, host string) (federation.HomeID, error) {
	address, err := federation.JoinURL(federation.BaseURL(host), federation.ProfilePath, nil)
	if err != nil {
		return "", err
	}
	text, err := d.Client.Get(ctx, address)
	if errors.Is(err, federation.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	profile, err := federation.ParseHomeProfile(text)
	return profile.Home, err
}

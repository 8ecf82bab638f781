package agentapi

import (
	"context"
	"fmt"
	"net/url"

	"baton/bridge/agentapi/contract"
	"baton/bridge/participant"
	"baton/federation"
)

// contactsPath is the path below which a caller decides about senders.
const contactsPath = Prefix + "contacts/"

func (l *Link) listContacts(ctx context.Context, p contract.Paging) (contract.ContactPage, error) {
	found, err := l.access.Contacts(ctx, callerOf(ctx).Caller, p.Cursor, p.Limit)
	if err != nil {
		return contract.ContactPage{}, err
	}
	page := contract.ContactPage{Items: make([]contract.Contact, len(found.Items)), NextCursor: found.Next}
	for i, c := range found.Items {
		page.Items[i] = shapeContact(c)
	}
	return page, nil
}

func (l *Link) putContact(ctx context.Context, req contract.ContactChange) (contract.Contact, error) {
	body, err := req.Body.Read()
	if err != nil {
		return contract.Contact{}, err
	}
	c, err := l.access.Decide(ctx, callerOf(ctx).Caller, req.Sender, federation.ContactState(body.State))
	return shapeContact(c), err
}

func shapeContact(c participant.Contact) contract.Contact {
	return contract.Contact{DID: string(c.DID), Name: c.Name, State: string(c.State), Since: moment(c.Since)}
}

// introduction returns what a recipient is told with the first message of an unknown sender, and
// the zero Introduction with any other message.
func introduction(ev federation.Event) contract.Introduction {
	if ev.Fields[federation.Introduces] == "" {
		return contract.Introduction{}
	}
	contact := contactsPath + url.PathEscape(string(ev.Actor()))
	return contract.Introduction{Contact: contact, Text: fmt.Sprintf(
		`%s writes to you for the first time. PUT {"state":"blocked"} to %s to refuse its messages on every network; {"state":"allowed"}, or an answer, allows it.`,
		ev.Actor(), contact)}
}

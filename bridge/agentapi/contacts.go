package agentapi

import (
	"cmp"
	"context"
	"fmt"
	"net/url"

	"baton/bridge/agentapi/contract"
	"baton/bridge/participant"
	"baton/federation"
)

// contactsPath is the path below which a caller decides about senders.
const contactsPath = Prefix + "contacts/"

// ListContacts implements [contract.StrictServerInterface].
func (l *Link) ListContacts(ctx context.Context, req contract.ListContactsRequestObject) (contract.ListContactsResponseObject, error) {
	found, err := l.access.Contacts(ctx, callerOf(ctx).Caller, req.Params.Cursor, cmp.Or(req.Params.Limit, defaultLimit))
	if err != nil {
		return nil, err
	}
	page := contract.ContactPage{Items: make([]contract.Contact, len(found.Items)), NextCursor: found.Next}
	for i, c := range found.Items {
		page.Items[i] = shapeContact(c)
	}
	return contract.ListContacts200JSONResponse(page), nil
}

// PutContact implements [contract.StrictServerInterface].
func (l *Link) PutContact(ctx context.Context, req contract.PutContactRequestObject) (contract.PutContactResponseObject, error) {
	c, err := l.access.Decide(ctx, callerOf(ctx).Caller, req.Sender, federation.ContactState(req.Body.State))
	return contract.PutContact200JSONResponse(shapeContact(c)), err
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

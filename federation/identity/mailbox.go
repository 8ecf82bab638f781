package identity

import (
	"encoding/json"
	"slices"

	"baton/federation"
)

// mailboxService is the type of the entry in a DID document that names the mailbox home of the DID. Its
// endpoint is the public address of that home:
//
//	"service": [{"id": DID#baton, "type": "BatonHome", "serviceEndpoint": "https://b.example"}]
//
// A did:plc has it among its services, as {"type": "BatonHome", "endpoint": URL}.
//
// spec: did-core §5.4
const mailboxService = "BatonHome"

// service is an entry in a document that this gateway serves.
type service struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Endpoint string `json:"serviceEndpoint"`
}

// mailboxOf returns the endpoint of the first entry of a DID document that names a home,
// "" for none. An unreadable entry names none, and is no error of the document.
func mailboxOf(list json.RawMessage) string {
	var items []json.RawMessage
	if federation.DecodeJSON(list, &items) != nil {
		return ""
	}
	for _, item := range items {
		var fields map[string]json.RawMessage
		if federation.DecodeJSON(item, &fields) != nil {
			continue
		}
		var types []string
		if federation.DecodeJSON(fields["type"], &types) != nil {
			types = []string{text(fields["type"])}
		}
		if slices.Contains(types, mailboxService) {
			return text(fields["serviceEndpoint"])
		}
	}
	return ""
}

// plcMailbox returns the endpoint of the service of a did:plc that names a home, "" for
// none or for more than one.
func plcMailbox(services map[string]any) string {
	var found []string
	for _, value := range services {
		fields, _ := value.(map[string]any)
		if kind, _ := fields["type"].(string); kind == mailboxService {
			endpoint, _ := fields["endpoint"].(string)
			found = append(found, endpoint)
		}
	}
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

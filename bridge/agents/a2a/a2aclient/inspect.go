package a2aclient

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/baton-gateway/baton/federation"
)

// Inspection is a summary of the card of an agent.
type Inspection struct {
	Card      string   `json:"card"` // URL
	Name      string   `json:"name"`
	Version   string   `json:"version"`
	URL       string   `json:"url"` // of the chosen interface
	Binding   string   `json:"binding"`
	Protocol  string   `json:"protocol"`
	Streaming bool     `json:"streaming"`
	Push      bool     `json:"push_notifications"`
	Updates   string   `json:"updates"` // how the gateway follows the tasks
	Skills    []string `json:"skills"`  // only those valid as capabilities
	Schemes   []string `json:"schemes"` // names of the security schemes
	Key       string   `json:"key"`     // thumbprint of the signing key; "" for none
	Doubt     string   `json:"doubt"`   // why a signature could not be verified; "" for none
}

// Inspect reads and verifies the card of an agent, and chooses the interface. It sends no credentials.
func Inspect(ctx context.Context, address string, allowPrivate bool, transport *http.Transport) (Inspection, error) {
	address, err := CardURL(address)
	if err != nil {
		return Inspection{}, err
	}
	l := &Link{
		cfg:  Config{Card: address, AllowPrivate: allowPrivate},
		deps: Deps{Transport: func(bool) *http.Transport { return transport }},
	}
	c, err := l.fetchCard(ctx)
	if err != nil {
		return Inspection{}, err
	}
	at, err := c.best()
	if err != nil {
		return Inspection{}, err
	}
	schemes := []string{}
	for _, name := range slices.Sorted(maps.Keys(c.schemes)) {
		schemes = append(schemes, federation.PlainText(string(name)))
	}
	return Inspection{
		Card: address, Name: c.Name, Version: c.Version, URL: at.URL, Binding: string(at.ProtocolBinding), Protocol: string(at.ProtocolVersion),
		Streaming: c.Capabilities.Streaming, Push: c.Capabilities.PushNotifications, Updates: updatesOf(c.Capabilities), Skills: c.skills(), Schemes: schemes, Key: c.key, Doubt: c.obstacle(),
	}, nil
}

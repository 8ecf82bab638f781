package contract

import "baton/federation"

// Rotation asks for another key.
type Rotation struct {
	Overlap string `json:"overlap,omitempty"` // a duration; how long what the old key signed is good
	Reason  string `json:"reason,omitempty"`
}

// Key is the public part of a key of the gateway.
type Key struct {
	Name       string         `json:"name"`
	PublicKey  string         `json:"public_key,omitempty"` // base64url; none of a secret
	KeyID      string         `json:"kid"`
	Since      string         `json:"since,omitempty"` // RFC 3339; empty where a signer keeps the key
	State      string         `json:"state"`
	Until      string         `json:"until,omitempty"`       // of a key that was rotated
	DID        federation.DID `json:"did,omitempty"`         // of the server
	DIDKey     federation.DID `json:"did_key,omitempty"`     // of the server
	EndpointID string         `json:"endpoint_id,omitempty"` // of the endpoint
}

package contract

import "baton/federation"

// Token is an operator token, without the token itself.
type Token struct {
	Name    string           `json:"name"`
	Scope   federation.Scope `json:"scope"`
	Created Moment           `json:"created"`
	Expires Moment           `json:"expires"`
}

// TokenAsk asks for a token.
type TokenAsk struct {
	Name   string           `json:"name,omitempty"` // "": the scope and some digits
	Scope  federation.Scope `json:"scope"`
	TTL    string           `json:"ttl,omitempty"` // a duration, at most a year; 720h
	Reason string           `json:"reason,omitempty"`
}

// NewToken is a token that was made just now.
type NewToken struct {
	Token

	Text string `json:"token"` // told this once
}

// Change is something that an operator did.
type Change struct {
	Time    Moment `json:"time"`
	Actor   string `json:"actor"`
	What    string `json:"what"`
	Subject string `json:"subject"`
	Reason  string `json:"reason"`
}

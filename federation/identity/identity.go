// Package identity finds out which keys may sign for whom, and keeps the gateway's
// own.
//
// A [Directory] resolves DIDs: did:key by itself, did:web over HTTPS. A [KeySource]
// puts the keys of the record beside it. Whatever is fetched on the way, at an
// address that a stranger chose, goes through a [Client], which does not reach into
// private networks and reads no more than it was told to. A [Keyring] holds the
// private keys, and [DIDDocument] is what the gateway says about its own.
//
// An outage is no evidence. Unless the far side said clearly that there is no
// document, the error is an [*federation.UnavailableError], and the signature in
// question stays unverifiable.
//
//	did:key   Ed25519 alone                   spec: w3c-ccg did-method-key v0.9
//	did:web   document at its HTTPS address   spec: w3c-ccg did-method-web
//
// Everything here may be called concurrently.
package identity

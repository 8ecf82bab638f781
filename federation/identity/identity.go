// Package identity finds the keys that may sign for a DID, and keeps the gateway's
// own.
//
// A [Directory] resolves DIDs: did:key by itself, did:web over HTTPS or at a home that it knows, did:plc from
// the log of operations at its directory. A [KeySource] joins what it says with the
// keys of other sources: a client registered one by MSGSIG, the server behind a link
// serves one, or an AIRC registry has it. All of them go on record
// with the time and the source, and a step is judged by the keys that were good when it
// was first received. Whatever is fetched on the way, at an address that a stranger
// chose, goes through a [Client], which does not reach into private networks and
// reads no more than it was told to. A [Keyring] holds the private keys, and
// [DIDDocument] is what the gateway says about its own.
//
// An outage is no evidence. Unless the far side said clearly that there is no
// document, the error is an [*federation.UnavailableError], and the signature in
// question stays unverifiable. For a while an old document serves instead.
//
//	did:key   Ed25519, P-256, secp256k1        spec: w3c-ccg did-method-key v0.9
//	did:web   document at its HTTPS address    spec: w3c-ccg did-method-web
//	did:plc   log of operations, all checked   spec: did-plc v0.1
//
// Steps are signed with Ed25519 alone; keys of the other kinds are read and kept.
//
// Everything here may be called concurrently.
package identity

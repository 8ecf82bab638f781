// Package identity finds the keys that may sign for a DID, and keeps the keys of the gateway.
//
// # Keys of other DIDs
//
//   - [Directory] resolves DIDs: did:key by itself, did:web over HTTPS or through a known home, did:plc
//     from the log of operations at its directory.
//   - [KeySource] joins these documents with the keys of other sources: keys that clients
//     registered by MSGSIG, keys that the server behind a link serves, and keys of AIRC registries. It
//     records each key with the time and the source, so that a step is judged by the keys that
//     were valid when the step first arrived.
//   - [CachedKeys] is the part of a KeySource that asks no host. [Lookups] fetches the rest meanwhile.
//   - [Client] fetches from addresses that strangers chose: it dials no private network, and reads
//     a bounded number of bytes. [PeerClient] calls hosts that an operator named.
//
// # Keys of the gateway
//
//   - [Keyring] has the private keys, in a folder of files or behind a [Signer].
//   - [DIDDocument] and [Publisher] publish their public parts.
//
// # Guarantees
//
// An outage proves nothing. Unless the host stated that there is no document, the error is a
// [*federation.UnavailableError], and the signature stays unverifiable. For a limited time, the
// last document is used instead.
//
//	did:key   Ed25519, P-256, secp256k1        spec: w3c-ccg did-method-key v0.9
//	did:web   document at its HTTPS address    spec: w3c-ccg did-method-web
//	did:plc   log of operations, all checked   spec: did-plc v0.1
//
// Only Ed25519 keys sign steps; keys of the other kinds are read and kept.
//
// All methods may be called concurrently.
package identity

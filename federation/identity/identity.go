// Package identity finds the keys that may sign for a DID, and keeps the keys of the gateway.
//
// # Keys of other DIDs
//
//   - [Directory] resolves DIDs: did:key locally, did:web over HTTPS or through a known home, did:plc from
//     the log of operations at its directory.
//   - [KeySource] joins these documents with keys registered by clients with MSGSIG, served by the server
//     behind a link, or stored by AIRC registries. It records the time and the source of each key, so that
//     a step is judged by the keys that were valid when it first arrived.
//   - [CachedKeys] is the part of a KeySource that sends no requests. [Lookups] fetches the rest.
//   - [Client] fetches documents from untrusted addresses. [PeerClient] calls configured hosts.
//
// # Keys of the gateway
//
//   - [Keyring] contains the private keys, in a folder of files or in a [Signer].
//   - [DIDDocument] and [Publisher] publish their public parts.
//
// # Guarantees
//
// An outage proves nothing. Unless the host stated that there is no document, the error is a
// [*federation.UnavailableError], and the signature stays unverifiable. The last document is used for a
// limited time.
//
//	did:key   Ed25519, P-256, secp256k1        spec: w3c-ccg did-method-key v0.9
//	did:web   document at its HTTPS address    spec: w3c-ccg did-method-web
//	did:plc   log of operations, all checked   spec: did-plc v0.1
//
// Only Ed25519 keys sign steps.
//
// All methods may be called concurrently.
package identity

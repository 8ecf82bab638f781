package server

import (
	"encoding/base64"
	"errors"
	"time"

	"baton/bridge/operatorapi/contract"
	"baton/configs"
	"baton/federation"
	"baton/federation/identity"
	"baton/federation/signing"
)

// keysFolder is the folder of the keys, below data_dir.
const keysFolder = "keys"

// KeyFolder returns the folder of the keys of a configuration.
func KeyFolder(file *configs.File) identity.KeyFolder {
	return identity.KeyFolder{Dir: file.Path(keysFolder), Signer: identity.Signer(file.Keys.Signer)}
}

// ShowKey returns the public part of a key as it is printed.
func ShowKey(key identity.NamedKey, file *configs.File, now time.Time) contract.Key {
	shown := contract.Key{
		Name: string(key.Name), PublicKey: base64.RawURLEncoding.EncodeToString(key.Public), KeyID: federation.KeyID(key.Public),
		Since: contract.Moment(key.Since).String(), State: key.State(now), Until: contract.Moment(key.Until).String(),
	}
	switch key.Name {
	case identity.ServerKey:
		shown.DID, shown.DIDKey = federation.HomeID(file.Home.Name).DID(), identity.KeyDID(key.Public)
	case identity.RegistryKey:
		shown.KeyID = signing.RegistryKeyID(key.Public)
	case identity.EndpointKey:
		shown.EndpointID = identity.EndpointID(key.Public)
	case identity.KeptSecret, identity.TokenSecret: // have no public part
	}
	return shown
}

// RefusedKey returns the word for a refused key, and "" for another error.
func RefusedKey(err error) string {
	switch {
	case errors.Is(err, identity.ErrKeyExists):
		return "key-exists"
	case errors.Is(err, identity.ErrNotRotated):
		return "not-rotated"
	}
	return ""
}

package credential

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/xdg-go/scram"

	"github.com/baton-gateway/baton/federation"
)

// passwordIterations is the PBKDF2 cost of each guess, about 20 ms of CPU time.
const passwordIterations = 100_000

// Sizes of passwords, in bytes. The minimum is from NIST SP 800-63B.
const (
	minPassword  = 8
	maxPassword  = 256
	passwordSalt = 16
)

// ErrPassword means that a text cannot be a password.
var ErrPassword = fmt.Errorf("want %d to %d bytes without control characters", minPassword, maxPassword)

// CheckPassword returns [ErrPassword] for a text of a wrong length. Unlike [NewPassword], it is cheap.
func CheckPassword(text string) error {
	if len(text) < minPassword || len(text) > maxPassword {
		return ErrPassword
	}
	return nil
}

// NewPassword returns the stored form of a DID's password. It takes about 20 ms.
func NewPassword(did federation.DID, text string, now time.Time) (federation.Password, error) {
	if err := CheckPassword(text); err != nil {
		return federation.Password{}, err
	}
	var salt [passwordSalt]byte
	_, _ = rand.Read(salt[:]) // never fails
	keys, err := derive(text, scram.KeyFactors{Salt: string(salt[:]), Iters: passwordIterations})
	if err != nil {
		return federation.Password{}, errors.Join(ErrPassword, err)
	}
	return federation.Password{
		DID: did, Salt: salt[:], Iterations: passwordIterations, StoredKey: keys.StoredKey, ServerKey: keys.ServerKey, Since: now,
	}, nil
}

// NoPassword returns a password record that matches no text, for an account without a password. Its
// salt is derived from a secret key and is stable, so that such an account looks like any other.
func NoPassword(key []byte, account string) federation.Password {
	salt := hmac.New(sha256.New, key)
	_, _ = salt.Write([]byte("password salt\x00" + account))
	var keys [64]byte
	_, _ = rand.Read(keys[:]) // never fails
	return federation.Password{Salt: salt.Sum(nil)[:passwordSalt], Iterations: passwordIterations, StoredKey: keys[:32], ServerKey: keys[32:]}
}

// MatchesPassword reports whether a text is the password. It takes about 20 ms.
func MatchesPassword(p federation.Password, text string) bool {
	keys, err := derive(text, scram.KeyFactors{Salt: string(p.Salt), Iters: p.Iterations})
	return err == nil && hmac.Equal(keys.StoredKey, p.StoredKey)
}

func derive(text string, factors scram.KeyFactors) (scram.StoredCredentials, error) {
	client, err := scram.SHA256.NewClient("", text, "")
	if err != nil {
		return scram.StoredCredentials{}, err
	}
	return client.GetStoredCredentialsWithError(factors)
}

// NewScram returns a SCRAM-SHA-256 login; lookup returns the password of a user name.
func NewScram(lookup func(name string) (federation.Password, error)) (*scram.ServerConversation, error) {
	server, err := scram.SHA256.NewServer(func(name string) (scram.StoredCredentials, error) {
		p, err := lookup(name)
		return scram.StoredCredentials{
			KeyFactors: scram.KeyFactors{Salt: string(p.Salt), Iters: p.Iterations}, StoredKey: p.StoredKey, ServerKey: p.ServerKey,
		}, err
	})
	if err != nil {
		return nil, err
	}
	return server.NewConversation(), nil
}

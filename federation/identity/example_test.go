package identity_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/identity"
)

// nowhere is a network without connection.
type nowhere struct{}

func (nowhere) Get(context.Context, string) ([]byte, error) {
	return nil, &federation.UnavailableError{What: "network", Err: errors.New("no route to host")}
}

// A did:key resolves without a look-up. A did:web needs its host, and an outage is not an answer.
func ExampleDirectory_Resolve() {
	directory := identity.NewDirectory(identity.DirectoryConfig{Fresh: time.Hour, Negative: time.Minute}, nowhere{})
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

	document, err := directory.Resolve(context.Background(), "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK", now)
	fmt.Println(len(document.Keys), err)

	_, err = directory.Resolve(context.Background(), "did:web:bob.example", now)
	fmt.Println(err)
	// Output:
	// 1 <nil>
	// resolve did:web:bob.example: network unavailable: no route to host
}

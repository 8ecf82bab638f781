package credential_test

import (
	"errors"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/credential"
)

func TestSealerOpensItsOwnTextForItsPurposeAndTime(t *testing.T) {
	t.Parallel()
	type value struct{ Name string }
	s := credential.NewSealer(secret(1), "client")
	text, err := s.Seal(value{"host"}, now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	var got value
	if err := s.Open(text, now().Add(59*time.Second), &got); err != nil || got.Name != "host" {
		t.Errorf("Open: %+v, %v", got, err)
	}
	changed := []byte(text)
	changed[len(changed)/2] ^= 1
	for name, tt := range map[string]struct {
		by   credential.Sealer
		text string
		at   time.Time
		want error
	}{
		"at its end":      {s, text, now().Add(time.Minute), credential.ErrSealExpired},
		"another purpose": {credential.NewSealer(secret(1), "code"), text, now(), credential.ErrSealed},
		"another key":     {credential.NewSealer(secret(2), "client"), text, now(), credential.ErrSealed},
		"changed":         {s, string(changed), now(), credential.ErrSealed},
		"cut":             {s, text[:20], now(), credential.ErrSealed},
		"empty":           {s, "", now(), credential.ErrSealed},
		"no base64url":    {s, "?" + text, now(), credential.ErrSealed},
	} {
		if err := tt.by.Open(tt.text, tt.at, &got); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

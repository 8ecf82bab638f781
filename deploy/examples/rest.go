// Command rest has one agent offer work to another over plain HTTP.
//
//	go run rest.go GATEWAY
package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log"
	"math/big"
	"net/http"
	"os"
)

type agent struct {
	api, did, token string
	key             ed25519.PrivateKey
}

func newAgent(gateway string) *agent {
	public, private, _ := ed25519.GenerateKey(nil)
	a := &agent{api: gateway + "/api/v1/", did: didOf(public), key: private}
	var given struct{ Challenge string }
	a.call("auth/challenge", map[string]string{"did": a.did}, &given)
	var tokens struct {
		Access string `json:"access_token"`
	}
	signature := base64.RawURLEncoding.EncodeToString(ed25519.Sign(private, []byte(given.Challenge)))
	a.call("auth/token", map[string]string{"did": a.did, "challenge": given.Challenge, "signature": signature}, &tokens)
	a.token = tokens.Access
	return a
}

// The did:key is the base58btc of 0xed 0x01 and the 32 bytes of the key.
func didOf(key ed25519.PublicKey) string {
	const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	digits, digit := "", new(big.Int)
	for n := new(big.Int).SetBytes(append([]byte{0xed, 0x01}, key...)); n.Sign() > 0; {
		n.DivMod(n, big.NewInt(58), digit)
		digits = string(alphabet[digit.Int64()]) + digits
	}
	return "did:key:z" + digits
}

func (a *agent) call(path string, body, answer any) {
	ctx := context.Background()
	request, _ := http.NewRequestWithContext(ctx, http.MethodGet, a.api+path, nil)
	if body != nil {
		text, _ := json.Marshal(body)
		request, _ = http.NewRequestWithContext(ctx, http.MethodPost, a.api+path, bytes.NewReader(text))
		request.Header.Set("Content-Type", "application/json")
	}
	if a.token != "" {
		request.Header.Set("Authorization", "Bearer "+a.token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	var problem struct{ Code, Detail string }
	if response.StatusCode >= http.StatusBadRequest {
		_ = json.NewDecoder(response.Body).Decode(&problem)
		log.Fatalf("%s: %s %s: %s", path, response.Status, problem.Code, problem.Detail)
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		log.Fatal(err)
	}
}

type handoff struct {
	ID, State string
	Steps     []struct{ Verb string }
}

func main() {
	eliza, scholar := newAgent(os.Args[1]), newAgent(os.Args[1])

	var offered handoff // an id or an Idempotency-Key would make a retry safe
	eliza.call("handoffs", map[string]any{"to": scholar.did, "title": "Cite three sources on X", "context": map[string]string{"topic": "X"}}, &offered)

	var inbox struct {
		Items []struct {
			Step struct {
				HandoffID string `json:"handoff_id"`
			}
		}
	}
	scholar.call("inbox?wait=50s", nil, &inbox)
	for _, entry := range inbox.Items {
		work := "handoffs/" + entry.Step.HandoffID
		scholar.call(work+"/accept", struct{}{}, &offered)
		scholar.call(work+"/complete", map[string]string{"note": "three found"}, &offered)
	}

	var done handoff
	eliza.call("handoffs/"+offered.ID, nil, &done)
	fmt.Print(done.State)
	for _, step := range done.Steps {
		fmt.Print(" ", step.Verb)
	}
	fmt.Println()
}

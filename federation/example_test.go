package federation_test

import (
	"errors"
	"fmt"

	"github.com/baton-gateway/baton/federation"
)

func ExampleParseDID() {
	did, err := federation.ParseDID("did:plc:z72i7hdynmk6r22z27h6tvur")
	fmt.Println(did.Method(), err)

	_, err = federation.ParseDID("did:PLC:z72i7hdynmk6r22z27h6tvur")
	fmt.Println(errors.Is(err, federation.ErrNotCanonical))
	// Output:
	// plc <nil>
	// true
}

func ExampleRefuse() {
	step := federation.Event{Verb: federation.Claim}
	err := federation.Refuse(step, federation.IllegalStep, "the handoff is assigned")

	refused, ok := errors.AsType[*federation.RefusalError](err)
	fmt.Println(ok, refused.Code)
	// Output: true illegal-step
}

func ExampleBlocks_Match() {
	block, err := federation.ParseBlock("host:evil.example")
	if err != nil {
		fmt.Println(err)
		return
	}
	blocks := federation.NewBlocks([]federation.Block{block})

	agent := federation.Source{DIDs: []federation.DID{"did:web:agents.evil.example:mallory"}}
	found, blocked := blocks.Match(agent, block.Since)
	fmt.Println(found.What, blocked)
	// Output: host:evil.example true
}

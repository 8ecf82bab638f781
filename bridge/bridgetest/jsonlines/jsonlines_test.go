package jsonlines_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/bridgetest/jsonlines"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/registry"
)

type table jsonlines.Config

// Decode implements [bridge.Table].
func (t table) Decode(into any) {
	if cfg, ok := into.(*jsonlines.Config); ok {
		*cfg = jsonlines.Config(t)
	}
}

func TestReferenceHasEveryKey(t *testing.T) {
	diff, err := bridgetest.ReferenceDiff(jsonlines.Network(registry.Bound{}), &jsonlines.Config{})
	if err != nil || diff != "" {
		t.Errorf("%v, (-code +reference):\n%s", err, diff)
	}
}

func TestOpenNamesEveryMistake(t *testing.T) {
	_, err := jsonlines.Network(registry.Bound{}).Open(table{}, bridgetest.Ports(nil))
	var keys []string
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, each := range joined.Unwrap() {
			if mistake, ok := errors.AsType[*bridge.KeyError](each); ok {
				keys = append(keys, mistake.Key)
			}
		}
	}
	if diff := cmp.Diff([]string{"name", "address"}, keys); diff != "" {
		t.Errorf("mistakes (-want +got):\n%s", diff)
	}
}

func TestLinkCarriesStepsOfBoundParties(t *testing.T) {
	const ada, bob = federation.DID("did:plc:ada"), federation.DID("did:plc:bob")
	ports := bridgetest.Ports(nil)
	ports.Bindings = bridgetest.Bindings{Names: []federation.BoundName{{Network: "desk", Name: "ada", DID: ada}}}
	link, err := jsonlines.Network(registry.Bound{}).Open(table{Name: "desk", Address: "127.0.0.1:7100"}, ports)
	if err != nil {
		t.Fatal(err)
	}
	view := federation.View{Version: 1, Offerer: bob, Offeree: ada}
	for sender, want := range map[federation.DID]bool{bob: true, ada: false} {
		carries, err := link.Carries(t.Context(), federation.Event{From: sender}, view)
		if err != nil || carries != want {
			t.Errorf("a step of %s: %t, %v", sender, carries, err)
		}
	}
}

func TestLinkRepeatsAnUnansweredDelivery(t *testing.T) {
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	link, err := jsonlines.Network(registry.Bound{}).Open(table{Name: "desk", Address: listener.Addr().String()}, bridgetest.Ports(nil))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	up, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- link.Run(ctx, func() { close(up) }) }()
	<-up
	delivering, stop := context.WithCancel(ctx)
	go func() { // the peer reads the step and goes away
		if conn, err := listener.Accept(); err == nil {
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
	}()
	go func() { <-ended; stop() }() // as the gateway does
	err = link.Deliver(delivering, federation.Delivery{})
	if _, later := errors.AsType[*federation.UnavailableError](err); !later {
		t.Errorf("the delivery ends with %v", err)
	}
}

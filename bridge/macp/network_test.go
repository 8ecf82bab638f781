package macp_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/bridgetest"
	"github.com/baton-gateway/baton/bridge/macp"
)

func TestReferenceHasEveryKey(t *testing.T) {
	t.Parallel()
	cfg := macp.DefaultConfig()
	if diff, err := bridgetest.ReferenceDiff(macp.Network(macp.Deps{}), &cfg); err != nil || diff != "" {
		t.Errorf("%v, (-code +reference):\n%s", err, diff)
	}
}

// keys returns the keys of the mistakes in an error.
func keys(err error) []string {
	var all []string
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, each := range joined.Unwrap() {
			if mistake, ok := errors.AsType[*bridge.KeyError](each); ok {
				all = append(all, mistake.Key)
			}
		}
	}
	return all
}

func TestOpenNamesEveryMistake(t *testing.T) {
	t.Parallel()
	ports := bridgetest.Ports(nil)
	ports.Secrets = bridgetest.Secrets{"short": "x", "one": token("one")}
	open := func(cfg macp.Config) error {
		_, err := macp.Network(macp.Deps{}).Open(table(cfg), ports)
		return err
	}
	if err := open(macp.DefaultConfig()); !errors.Is(err, bridge.ErrOff) {
		t.Errorf("without an address: %v", err)
	}
	one := macp.Participant{Name: "one", DID: "did:plc:bbbbbbbbbbbbbbbbbbbbbbbb", TokenFile: "one"}
	for name, tt := range map[string]struct {
		cfg  macp.Config
		want []string
	}{
		"all": {
			macp.Config{Listen: "nowhere", TLS: true, Profile: "task-follow-on", Participants: []macp.Participant{one, one, {Name: " x", DID: "x"}}},
			[]string{"listen", "tls", "profile", "participants[1].name", "participants[1].did", "participants[2].name", "participants[2].did", "participants[2].token_file"},
		},
		"tokens": {
			macp.Config{Listen: ":0", Profile: "transfer", Participants: []macp.Participant{
				one, {Name: "two", DID: "did:web:two.example", TokenFile: "one"}, {Name: "three", DID: "did:web:three.example", TokenFile: "short"}, {Name: "four", DID: "did:web:four.example", TokenFile: "none"},
			}},
			[]string{"participants[1].token_file", "participants[2].token_file", "participants[3].token_file"},
		},
	} {
		if diff := cmp.Diff(tt.want, keys(open(tt.cfg))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	_, err := macp.Runtimes(macp.Deps{}).Open(runtimeTable{URL: "ftp://x", Profile: "hold-open"}, ports)
	if diff := cmp.Diff([]string{"name", "url", "token_file", "participant", "did", "profile"}, keys(err)); diff != "" {
		t.Errorf("runtimes (-want +got):\n%s", diff)
	}
}

func TestServeEndsRequestsIfItsListenerFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ada")
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- macp.Serve(t.Context(), w.link, listener) }()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = io.WriteString(conn, "POST /macp/v1/Initialize HTTP/1.1\r\nHost: runtime\r\nAuthorization: Bearer "+token("ada")+
		"\r\nContent-Type: application/json\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n")
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("the request is answered %q, %v, before its body", line, err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the failure of the listener is no error")
		}
	case <-time.After(20 * time.Second):
		t.Error("serve waits for the body of a request")
	}
}

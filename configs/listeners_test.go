package configs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/baton-gateway/baton/configs"
)

// clients is a table of a listener that another package owns.
const clients = "[irc.client]\nlisten = '127.0.0.1:6667'\ntls_listen = ':6697'\n"

func TestListenersAreThoseOfAllTables(t *testing.T) {
	t.Parallel()
	file := parsed(t, home+"[admin]\nlisten = ''\n"+clients+`[[irc.spanningtree]]
listen = "0.0.0.0:7001"
[[irc.spanningtree]]
address = "127.0.0.1:7000"
[[irc.freeq]]
listen = "192.0.2.1:4433"
[[irc.freeq]]
transport = "unix"
listen = "/run/freeq"
[tls.acme]
http_listen = ":80"
`)
	var got []string
	for _, l := range file.Listeners() {
		got = append(got, l.Key+" "+l.Address)
	}
	want := []string{"http.listen 127.0.0.1:8080", "irc.client.listen 127.0.0.1:6667", "irc.client.tls_listen :6697", "irc.spanningtree.listen 0.0.0.0:7001", "tls.acme.http_listen :80"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAdminListenerOnAPublicAddressIsAMistake(t *testing.T) {
	t.Parallel()
	for address, public := range map[string]bool{
		"127.0.0.1:8081": false, "[::1]:8081": false, "10.1.2.3:8081": false, "100.64.0.7:8081": false, "[fd00::7]:8081": false, ":8081": false, "gw.example:8081": false,
		"8.8.8.8:8081": true, "[2001:4860::1]:8081": true,
	} {
		err := parsed(t, home+"[admin]\nlisten = '"+address+"'\n").Err()
		if (err != nil) != public || err != nil && !strings.Contains(err.Error(), "admin.listen: it has no TLS") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestAdminListenerOnAllAddressesIsWarnedOf(t *testing.T) {
	t.Parallel()
	for address, all := range map[string]bool{"": false, "127.0.0.1:8081": false, "10.1.2.3:8081": false, ":8081": true, "0.0.0.0:8081": true, "[::]:8081": true} {
		warnings := parsed(t, home+"[admin]\nlisten = '"+address+"'\n").Warnings(time.Now())
		if (len(warnings) == 1 && warnings[0].Key == "admin.listen" && warnings[0].Line > 0) != all {
			t.Errorf("%s: %v", address, warnings)
		}
	}
}

func TestListenersOnOnePortAreAMistake(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[http]\nlisten = '127.0.0.1:8081'\n":                                       "http.listen: the port of admin.listen, 127.0.0.1:8081: choose another one",
		"[http]\nlisten = ':8081'\n":                                                "http.listen: the port of admin.listen",
		"[http]\nlisten = '[::]:6667'\n" + clients:                                  "irc.client.listen: the port of http.listen, [::]:6667",
		"[admin]\nlisten = '127.0.0.2:8080'\n":                                      "",
		"[admin]\nlisten = '127.0.0.1:0'\n[http]\nlisten = '127.0.0.1:0'\n":         "",
		"[http]\nlisten = ''\n[admin]\nlisten = ''\n":                               "",
		"[http]\nlisten = 'localhost:7001'\n[[irc.spanningtree]]\nlisten = ':7001'": "irc.spanningtree.listen: the port of http.listen",
	} {
		file, err := configs.Parse("baton.toml", home+text)
		if err != nil {
			t.Fatal(err)
		}
		file.Table("irc.client")
		file.Tables("irc.spanningtree")
		if err := file.Err(); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

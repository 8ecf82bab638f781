package configs_test

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/baton-gateway/baton/configs"
)

// link is the table of an imagined network.
type link struct {
	Name     string        `toml:"name"`
	Address  string        `toml:"address"`
	Channels []string      `toml:"channels"`
	Summary  bool          `toml:"summary"`
	Wait     time.Duration `toml:"wait"`
	Login    login         `toml:"login"`
	Peers    []peer        `toml:"peers"`
}

// login is a table below a link, and peer one of a list of tables.
type login struct {
	Issuer string `toml:"issuer"`
}

type peer struct {
	Domain string       `toml:"domain"`
	Proxy  netip.Prefix `toml:"proxy"` // it reads itself from text, and is no table
}

// mistakes reads a text as the whole program would, with one repeatable network,
// "irc.test", and one single, "solo".
func mistakes(t *testing.T, text string) []string {
	t.Helper()
	file, err := configs.Parse("baton.toml", text)
	if err == nil {
		file.Table("solo").Decode(&struct {
			Size int64 `toml:"size"`
		}{})
		for _, table := range file.Tables("irc.test") {
			var l link
			table.Decode(&l)
			if l.Name == "" {
				table.Mistake("name", "required")
			}
		}
		err = file.Err()
	}
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*configs.InvalidError](err); !ok {
		t.Fatalf("got %v, want an InvalidError", err)
	}
	return strings.Split(err.Error(), "\n")
}

const home = "[home]\nname = 'gw.example'\n" // two lines

func TestLoadNamesEachMistakeWithItsLine(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"a good file":   {home, nil},
		"an empty file": {"", []string{"baton.toml:1: home.name: required: the host name of this gateway, such as gw.example"}},
		"a text that is no TOML": {
			home + "data_dir = \n", []string{"baton.toml:3: expected value but found '\\n' instead"},
		},
		"a key twice": {home + "name = 'b.example'\n", []string{"baton.toml:3: Key 'home.name' has already been defined."}},
		"an unknown key": {
			home + "naem = 'gw.example'\n", []string{"baton.toml:3: home.naem: unknown key, did you mean name?"},
		},
		"a key in another case":               {home + "Data_Dir = 'x'\n", []string{"baton.toml:3: home.Data_Dir: unknown key, did you mean data_dir?"}},
		"an unknown key that looks like none": {home + "colour = 'red'\n", []string{"baton.toml:3: home.colour: unknown key"}},
		"an unknown key of the file":          {"colour = 'red'\n" + home, []string{"baton.toml:1: colour: unknown table"}},
		"a denied network that is no CIDR": {
			home + "[fetch]\ndenied_networks = ['10.0.0.0/8', '2001:db8::/32', '10.0.0.1']\n",
			[]string{`baton.toml:4: fetch.denied_networks: want CIDRs, such as 198.51.100.0/24 or 2001:db8::/32; not "10.0.0.1"`},
		},
		"an unknown table":              {home + "[fecth]\ntimeout = '1s'\n", []string{"baton.toml:3: fecth: unknown table, did you mean fetch?"}},
		"an unknown network":            {home + "[[irc.tset]]\n", []string{"baton.toml:3: irc.tset: unknown table, did you mean test?"}},
		"a key where networks are":      {home + "[irc]\nx = 1\n", []string{"baton.toml:4: irc.x: unknown table"}},
		"a value where networks are":    {"irc = 1\n" + home, []string{"baton.toml:1: irc: want a table"}},
		"a table twice where one is":    {home + "[[http]]\n", []string{"baton.toml:3: http: want one table, [http]"}},
		"a value where a table is":      {"http = 1\n" + home, []string{"baton.toml:1: http: want one table, [http]"}},
		"a network once where many are": {home + "[irc.test]\nname = 'a'\n", []string{"baton.toml:3: irc.test: want a list of tables, [[irc.test]]"}},
		"values where networks are": {
			home + "[irc]\ntest = [1]\n",
			[]string{"baton.toml:4: irc.test: want a list of tables, [[irc.test]]", "baton.toml:4: irc.test.name: required"},
		},
		"every wrong type at once": {
			"[home]\nname = 1\n[http]\nlisten = true\ncors_origins = '*'\nmax_body_bytes = '1'\n[fetch]\nallow_private = 'no'\ntimeout = 5\nmax_bytes = 1.5\n",
			[]string{
				"baton.toml:2: home.name: want a string, not an integer",
				"baton.toml:4: http.listen: want a string, not a boolean",
				"baton.toml:5: http.cors_origins: want a list, not a string",
				"baton.toml:6: http.max_body_bytes: want an integer, not a string",
				"baton.toml:8: fetch.allow_private: want true or false, not a string",
				`baton.toml:9: fetch.timeout: want a duration such as "500ms", "15s" or "24h", not an integer`,
				"baton.toml:10: fetch.max_bytes: want an integer, not a fraction",
			},
		},
		"types inside a list": {
			home + "[http]\ncors_origins = [\n 'https://a.example',\n {},\n]\ntrusted_proxies = ['10.0.0.0/8', '10.0.0.1', 7]\n",
			[]string{
				"baton.toml:4: http.cors_origins: item 2: want a string, not a table",
				`baton.toml:8: http.trusted_proxies: item 2: netip.ParsePrefix("10.0.0.1"): no '/'`,
			},
		},
		"lifetimes and directories that cannot be": {
			home + "[identity]\nplc_url = 'http://plc.example'\ncache_ttl = '0s'\nnegative_ttl = '-1s'\nstale_ttl = '-1h'\n",
			[]string{
				"baton.toml:4: identity.plc_url: want https:// and a host, without a path; http:// takes allow_private in [fetch]",
				"baton.toml:5: identity.cache_ttl: want more than 0s",
				"baton.toml:6: identity.negative_ttl: want more than 0s",
				"baton.toml:7: identity.stale_ttl: want cache_ttl or more",
			},
		},
		"every bad value at once": {
			`[home]
name = 'GW.example'
description = ''
data_dir = ''
[http]
listen = '8080'
public_url = 'https://gw.example/'
cors_origins = ['https://app.example/x']
max_body_bytes = 0
tls = true
[tls]
mode = 'caddy'
[admin]
listen = 'localhost:http'
[fetch]
timeout = '0s'
max_bytes = -1
per_host = 0
[store]
driver = 'mysql'
path = ''
[limits]
clock_skew = '-1s'
max_deadline = '30 days'
did_events_per_minute = -1
registrations_per_hour = -1
user_events_per_minute = -1
link_events_per_second = -1
inbox_events = -1
inbox_bytes = -1
open_handoffs_per_did = 1.5
[webhooks]
max_per_did = 0
[policy]
claim_caps = 'yes'
[retention]
unanswered = '-1h'
abandoned = '-1h'
undelivered = '-1h'
finished = '-1h'
ids = '719h'
airc_messages = '-1h'
[log]
level = 'trace'
format = 'xml'
`,
			[]string{
				"baton.toml:2: home.name: want a lower-case host name with a dot, such as gw.example",
				"baton.toml:3: home.description: want one line of 1 to 200 bytes",
				"baton.toml:4: home.data_dir: want a folder",
				"baton.toml:6: http.listen: want host:port",
				"baton.toml:7: http.public_url: want http:// or https:// and a host, without a path",
				`baton.toml:8: http.cors_origins: want "*" or origins such as "https://app.example"`,
				"baton.toml:9: http.max_body_bytes: want 1 or more",
				"baton.toml:10: http.tls: want a certificate: cert_file and key_file in [tls], or mode = \"acme\"",
				"baton.toml:12: tls.mode: want files or acme",
				"baton.toml:14: admin.listen: want host:port",
				"baton.toml:16: fetch.timeout: want more than 0s",
				"baton.toml:17: fetch.max_bytes: want 1 or more",
				"baton.toml:18: fetch.per_host: want 1 or more",
				"baton.toml:20: store.driver: want sqlite or postgres",
				"baton.toml:21: store.path: want a file",
				"baton.toml:23: limits.clock_skew: want more than 0s",
				`baton.toml:24: limits.max_deadline: want a duration such as "500ms", "15s" or "24h", not "30 days"`,
				"baton.toml:25: limits.did_events_per_minute: want 1 or more, or 0 for no limit",
				"baton.toml:26: limits.registrations_per_hour: want 1 or more, or 0 for no limit",
				"baton.toml:27: limits.user_events_per_minute: want 1 or more, or 0 for no limit",
				"baton.toml:28: limits.link_events_per_second: want 1 or more, or 0 for no limit",
				"baton.toml:29: limits.inbox_events: want 1 or more, or 0 for no limit",
				"baton.toml:30: limits.inbox_bytes: want 1 or more, or 0 for no limit",
				"baton.toml:31: limits.open_handoffs_per_did: want an integer, not a fraction",
				"baton.toml:33: webhooks.max_per_did: want 1 or more",
				"baton.toml:35: policy.claim_caps: want true or false, not a string",
				"baton.toml:37: retention.unanswered: want more than 0s, or 0s for ever",
				"baton.toml:38: retention.abandoned: want more than 0s, or 0s for ever",
				"baton.toml:39: retention.undelivered: want more than 0s, or 0s for ever",
				"baton.toml:40: retention.finished: want more than 0s, or 0s for ever",
				"baton.toml:41: retention.ids: want 720h or more, or 0s for ever",
				"baton.toml:42: retention.airc_messages: want more than 0s, or 0s for ever",
				"baton.toml:44: log.level: want debug or info or warn or error",
				"baton.toml:45: log.format: want text or json",
			},
		},
		"nothing where nothing is no limit": {
			home + "[limits]\ndid_events_per_minute = 0\nregistrations_per_hour = 0\nuser_events_per_minute = 0\nlink_events_per_second = 0\n" +
				"inbox_events = 0\ninbox_bytes = 0\nopen_handoffs_per_did = 0\n[retention]\nunanswered = '0s'\nabandoned = '0s'\n" +
				"undelivered = '0s'\nfinished = '0s'\nids = '0s'\nairc_messages = '0s'\n", nil,
		},
		"limits of an address below nothing": {
			home + "[limits]\nconnections_per_address = -1\nhttp_connections_per_address = -1\nhttp_connections = -1\n" +
				"unregistered_connections = -1\nlogins_per_minute = -1\naddress_events_per_minute = -1\n",
			[]string{
				"baton.toml:4: limits.connections_per_address: want 1 or more, or 0 for no limit",
				"baton.toml:5: limits.http_connections_per_address: want 1 or more, or 0 for no limit",
				"baton.toml:6: limits.http_connections: want 1 or more, or 0 for half of the open files that the system allows",
				"baton.toml:7: limits.unregistered_connections: want 1 or more, or 0 for no limit",
				"baton.toml:8: limits.logins_per_minute: want 1 or more, or 0 for no limit",
				"baton.toml:9: limits.address_events_per_minute: want 1 or more, or 0 for no limit",
			},
		},
		"no limit of an address": {
			home + "[limits]\nconnections_per_address = 0\nhttp_connections_per_address = 0\nhttp_connections = 0\n" +
				"unregistered_connections = 0\nlogins_per_minute = 0\naddress_events_per_minute = 0\n", nil,
		},
		"a certificate without its key": {home + "[tls]\ncert_file = 'gw.crt'\n", []string{"baton.toml:3: tls.key_file: required with cert_file"}},
		"a key without its certificate": {home + "[tls]\nkey_file = 'gw.key'\n", []string{"baton.toml:3: tls.cert_file: required with key_file"}},
		"mistakes of two networks, each in its own table": {
			home + "[[irc.test]]\nname = 'a'\naddrss = 'x'\nwait = 1\n\n[[irc.test]]\naddress = 5\n[solo]\nsize = 'big'\n",
			[]string{
				"baton.toml:5: irc.test.addrss: unknown key, did you mean address?",
				`baton.toml:6: irc.test.wait: want a duration such as "500ms", "15s" or "24h", not an integer`,
				"baton.toml:8: irc.test.name: required",
				"baton.toml:9: irc.test.address: want a string, not an integer",
				"baton.toml:11: solo.size: want an integer, not a string",
			},
		},
		"an unknown table inside a network": {
			home + "[solo]\nsize = 1\n[[solo.peers]]\nname = 'x'\n", []string{"baton.toml:5: solo.peers: unknown key"},
		},
		"NATS in this process, and elsewhere too": {
			home + "[relay]\nurls = ['nats://a:4222']\nlisten = ':4222'\nreplicas = 6\nmax_bytes = 1\n",
			[]string{
				"baton.toml:5: relay.listen: with urls there is no server in this process: want one of the two",
				"baton.toml:6: relay.replicas: want 1 to 5", "baton.toml:7: relay.max_bytes: want 8388608 or more",
			},
		},
		"NATS in this process as if it were elsewhere": {
			home + "[relay]\ncreds_file = 'a'\nnkey_file = 'b'\nca_file = 'c'\nlisten = ':4222'\nreplicas = 3\nmax_bytes = 16777217\n",
			[]string{
				"baton.toml:4: relay.creds_file: it requires urls", "baton.toml:5: relay.nkey_file: it requires urls", "baton.toml:6: relay.ca_file: it requires urls",
				"baton.toml:8: relay.replicas: one server stores one copy: for more copies, set urls of a cluster",
				"baton.toml:9: relay.max_bytes: an account has room for 16777216 bytes in each stream",
			},
		},
		"a required key of the wrong type is told once": {
			home + "[[irc.test]]\nname = 7\n", []string{"baton.toml:4: irc.test.name: want a string, not an integer"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, mistakes(t, test.text)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHomeHostNames(t *testing.T) {
	long := strings.Repeat("a", 63)
	for name, good := range map[string]bool{
		"gw.example":                        true,
		"a-b.c1.example":                    true,
		long + ".example":                   true,
		"localhost":                         false,
		"gw.example.":                       false,
		".example":                          false,
		"gw..example":                       false,
		"-gw.example":                       false,
		"gw-.example":                       false,
		"gw_1.example":                      false,
		"gw.example:80":                     false,
		"gẅ.example":                        false,
		"127.0.0.1":                         false,
		long + "a.example":                  false,
		strings.Repeat(long+".", 4) + "com": false,
	} {
		t.Run(name, func(t *testing.T) {
			if got := mistakes(t, "[home]\nname = '"+name+"'\n") == nil; got != good {
				t.Errorf("accepted: %t, want %t", got, good)
			}
		})
	}
}

func TestTableDecodesOverDefaults(t *testing.T) {
	file, err := configs.Parse("baton.toml", home+`
[http]
listen = ""
cors_origins = []
trusted_proxies = ["10.0.0.0/8"]
[log]
level = "warn"
[[irc.test]]
name = "a"
channels = ["#x", "#y"]
[[irc.test]]
name = "b"
summary = false
wait = "1m30s"
`)
	if err != nil {
		t.Fatal(err)
	}
	want := configs.Default()
	want.Home.Name = "gw.example"
	want.HTTP.Listen = ""
	want.HTTP.CORSOrigins = []string{}
	want.HTTP.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	want.Log.Level = "warn"
	if diff := cmp.Diff(want, file.Config, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Error(diff)
	}
	if got := file.Log.SlogLevel(); got != slog.LevelWarn {
		t.Errorf("level: got %v, want WARN", got)
	}

	var links []link
	for _, table := range file.Tables("irc.test") {
		l := link{Channels: []string{"#default"}, Summary: true, Wait: time.Second}
		table.Decode(&l)
		links = append(links, l)
	}
	wantLinks := []link{
		{Name: "a", Channels: []string{"#x", "#y"}, Summary: true, Wait: time.Second},
		{Name: "b", Channels: []string{"#default"}, Wait: 90 * time.Second},
	}
	if diff := cmp.Diff(wantLinks, links, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Error(diff)
	}
	if err := file.Err(); err != nil {
		t.Error(err)
	}
}

func TestTableDecodesSubtables(t *testing.T) {
	file, err := configs.Parse("baton.toml", home+`
[[irc.test]]
name = "a"
[irc.test.login]
issuer = "https://login.example"
[[irc.test.peers]]
domain = "b.example"
[[irc.test.peers]]
proxy = "10.0.0.0/8"
`)
	if err != nil {
		t.Fatal(err)
	}
	got := link{Login: login{Issuer: "default"}}
	for range 2 { // a check reads a table, and the links that run read it again
		for _, table := range file.Tables("irc.test") {
			table.Decode(&got)
		}
	}
	want := link{
		Name: "a", Login: login{Issuer: "https://login.example"},
		Peers: []peer{{Domain: "b.example"}, {Proxy: netip.MustParsePrefix("10.0.0.0/8")}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Error(diff)
	}
	if err := file.Err(); err != nil {
		t.Error(err)
	}
}

func TestTableMistakesHaveTheirLines(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"an unknown key":        {"[irc.test.login]\nissue = 'x'\n", []string{"baton.toml:6: irc.test.login.issue: unknown key, did you mean issuer?"}},
		"a value for a table":   {"login = 'x'\n", []string{"baton.toml:5: irc.test.login: want one table, [irc.test.login]"}},
		"a key of a second one": {"[[irc.test.peers]]\n[[irc.test.peers]]\ndomain = 1\n", []string{"baton.toml:7: irc.test.peers.domain: want a string, not an integer"}},
		"a table for a list":    {"[irc.test.peers]\n", []string{"baton.toml:5: irc.test.peers: want a list of tables, [[irc.test.peers]]"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, mistakes(t, home+"[[irc.test]]\nname = 'a'\n"+test.text)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestChangesBetweenTwoLoads(t *testing.T) {
	const rest = "[log]\nlevel = 'warn'\n[[irc.test]]\nname = 'a'\n[[irc.test]]\nname = 'b'\n"
	read := func(text string) *configs.File {
		file, err := configs.Parse("baton.toml", text)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	before := read(home + rest)
	after := read("# a comment\n[http]\nlisten = ''\n" + home + "description = 'x'\n" + strings.Replace(rest, "'b'", "'c'", 1))
	want := []string{"home", "http", "irc.test"}
	if diff := cmp.Diff(want, after.Changed(before, "home", "http", "admin", "log", "irc.test", "irc.none")); diff != "" {
		t.Error(diff)
	}
	old, now := before.Tables("irc.test"), after.Tables("irc.test")
	if !old[0].Equal(now[0]) || old[1].Equal(now[1]) || old[0].Equal(old[1]) {
		t.Error("want the first table alone to be as it was")
	}
}

func TestPathsAreBelowTheDataFolder(t *testing.T) {
	for name, test := range map[string]struct{ file, dataDir, path, want string }{
		"which is beside the file":   {"/etc/baton/baton.toml", "data", "lab.send", "/etc/baton/data/lab.send"},
		"which may be anywhere":      {"/etc/baton/baton.toml", "/var/lib/baton", "lab.send", "/var/lib/baton/lab.send"},
		"unless they are absolute":   {"/etc/baton/baton.toml", "data", "/run/secrets/lab", "/run/secrets/lab"},
		"relative to where we are":   {"baton.toml", "data", "keys", "data/keys"},
		"with dots in the way of it": {"conf/baton.toml", "../data", "keys", "data/keys"},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := configs.Parse(test.file, home+"data_dir = '"+test.dataDir+"'\n")
			if err != nil {
				t.Fatal(err)
			}
			if got := file.Path(test.path); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("good", "pass word\r\n", 0o600)
	write("strict", "pass", 0o400)
	write("group", "pass", 0o640)
	write("world", "pass", 0o604)
	write("empty", "\n\n", 0o600)
	write("long", strings.Repeat("x", configs.MaxSecretBytes+1), 0o600)
	file, err := configs.Parse(filepath.Join(dir, "baton.toml"), home+"data_dir = '.'\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ file, want, wantErr string }{
		"the line end is no part of it":  {file: "good", want: "pass word"},
		"a stricter mode is good":        {file: "strict", want: "pass"},
		"the group may not read it":      {file: "group", wantErr: "others may read"},
		"the world may not read it":      {file: "world", wantErr: "chmod 600"},
		"nothing in it is a mistake":     {file: "empty", wantErr: "is empty"},
		"it has a bound":                 {file: "long", wantErr: "is longer than 16384 bytes"},
		"a folder is no secret":          {file: ".", wantErr: "is not a regular file"},
		"one that is not there is named": {file: "none", wantErr: filepath.Join(dir, "none")},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := file.Secret(test.file)
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			switch {
			case test.wantErr == "" && err != nil:
				t.Error(err)
			case test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr)):
				t.Errorf("got error %v, want one with %q", err, test.wantErr)
			}
		})
	}
}

func TestLoadReadsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "baton.toml")
	if _, err := configs.Load(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: got %v, want ErrNotExist", err)
	}
	if err := os.WriteFile(path, []byte(home), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := configs.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if file.Home.Name != "gw.example" {
		t.Errorf("home.name: got %q", file.Home.Name)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("#\n", configs.MaxFileBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := configs.Load(path); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a file without end: got %v", err)
	}
}

func TestTableOfNamesDecodesIntoAMap(t *testing.T) {
	file, err := configs.Parse("baton.toml", home+`
[[irc.test]]
agents = { bob = "did:x:b", alice = "did:x:a" }
[[irc.test]]
agents = { bob = 7 }
[[irc.test]]
agents = ["bob"]
`)
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]string
	for _, table := range file.Tables("irc.test") {
		var into struct {
			Agents map[string]string `toml:"agents"`
		}
		table.Decode(&into)
		got = append(got, into.Agents)
	}
	if diff := cmp.Diff([]map[string]string{{"bob": "did:x:b", "alice": "did:x:a"}, nil, nil}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	err = file.Err()
	for _, want := range []string{"bob: want a string, not an integer", "want a table of names, not a list"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the mistakes %v lack %q", err, want)
		}
	}
}

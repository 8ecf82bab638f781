package relay

import (
	"crypto/tls"
	"os"
	"path/filepath"

	"baton/federation"
)

// The tables of a configuration that a [MeetingText] comes from.
const (
	ownTable = "relay"
	HubTable = "relay.hub"
)

// hostFolder has, below data_dir, the accounts, seeds and streams of the server that homes of other
// operators connect to.
const hostFolder = "relay"

// StreamsFolder is the folder of the streams of that server, below data_dir.
func StreamsFolder() string { return hostFile("jetstream") }

func hostFile(name string) string { return filepath.Join(hostFolder, name) }

// MeetingText is a [Meeting] as the operator wrote it in a configuration.
type MeetingText struct {
	Home     federation.HomeID
	Own      ServerText // [relay]
	Listen   string
	Replicas int
	MaxBytes int64

	Hub         ServerText // [relay.hub]
	HubReplicas int
	TLS         *tls.Config // of the listener; nil for none
}

// Meeting is how a home uses NATS, besides the server inside its process.
type Meeting struct {
	Own  ServerConfig // wakes the waiters of other replicas, where it names a server
	Host *HostConfig  // what homes of other operators connect to here; nil for nothing
	Hub  HubConfig    // where homes meet, where it names a server or there is a host
}

// Parse returns where homes meet: at the server of this home where it listens for other homes, else
// at the hub, else at the servers that the replicas of this home share. It calls mistake with the
// table, the key and the reason of each value that cannot work.
func (t MeetingText) Parse(files ConfigFiles, mistake func(table, key, why string)) Meeting {
	server := func(table string, text ServerText) ServerConfig {
		cfg, mistakes := text.Parse(files)
		for _, m := range mistakes {
			mistake(table, m.Key, m.Why)
		}
		return cfg
	}
	m := Meeting{Own: server(ownTable, t.Own), Hub: HubConfig{ServerConfig: server(HubTable, t.Hub), Replicas: t.HubReplicas}}
	switch {
	case t.Listen != "" && m.Hub.Named():
		mistake(ownTable, "listen", "homes meet at ["+HubTable+"]: want one of the two")
	case t.Listen != "":
		m.Host = t.host(files, mistake)
		m.Hub.NKeyFile, m.Hub.MaxBytes = files.Path(hostFile(t.seed())), t.MaxBytes
	case !m.Hub.Named() && m.Own.Named():
		m.Hub = HubConfig{ServerConfig: m.Own, Replicas: t.Replicas, MaxBytes: t.MaxBytes, Ours: true}
	}
	return m
}

// seed returns the name of the file with the seed of this home at its own server.
func (t MeetingText) seed() string { return string(t.Home) + SeedSuffix }

// host returns what homes of other operators connect to here. Their accounts must exist.
func (t MeetingText) host(files ConfigFiles, mistake func(table, key, why string)) *HostConfig {
	cfg := &HostConfig{Listen: t.Listen, AccountsFile: files.Path(hostFile(HubFile)), Dir: files.Path(StreamsFolder()), TLS: t.TLS}
	_, err := os.Stat(cfg.AccountsFile)
	if err == nil {
		_, err = files.Secret(hostFile(t.seed()))
	}
	if err != nil {
		mistake(ownTable, "listen", "want accounts: baton relay accounts "+string(t.Home)+" NAME... --out "+files.Path(hostFolder)+": "+err.Error())
	}
	return cfg
}

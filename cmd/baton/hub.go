package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"baton/configs"
	"baton/federation/relay"
)

// The names of the tables of NATS: of our own, and of the server that homes meet at.
const (
	relayTable = "relay"
	hubTable   = "relay.hub"
)

// hostFolder has, below data_dir, the accounts, seeds and streams of the server that homes
// of others link to.
const hostFolder = "relay"

// meeting is how this home uses NATS, besides a server inside this process.
type meeting struct {
	own  relay.ServerConfig // wakes the waiters of other replicas, where it names a server
	host *relay.HostConfig  // what homes of others link to here; nil for nothing
	hub  relay.HubConfig    // where homes meet, where it names a server or there is a host
}

// readMeeting reads how NATS is used. It adds mistakes to the mistakes of the file.
func readMeeting(file *configs.File) meeting {
	var table configs.Hub
	file.Table(hubTable).Decode(&table)
	m := meeting{own: readServer(file, relayTable, configs.Hub{
		URLs: file.Relay.URLs, CredsFile: file.Relay.CredsFile, NKeyFile: file.Relay.NKeyFile, CAFile: file.Relay.CAFile,
	})}
	m.hub.ServerConfig, m.hub.Replicas = readServer(file, hubTable, table), table.Replicas
	if table.Replicas < 0 || table.Replicas > configs.MaxReplicas {
		file.Table(hubTable).Mistake("replicas", "want 0 to "+strconv.Itoa(configs.MaxReplicas))
	}
	switch {
	case file.Relay.Listen != "" && m.hub.Named():
		file.Table(relayTable).Mistake("listen", "homes meet at ["+hubTable+"]: want one of the two")
	case file.Relay.Listen != "":
		m.host = readHost(file)
		m.hub.NKeyFile, m.hub.MaxBytes = file.Path(hostFile(file.Home.Name+relay.SeedSuffix)), file.Relay.MaxBytes
	case !m.hub.Named() && m.own.Named():
		m.hub = relay.HubConfig{ServerConfig: m.own, Replicas: file.Relay.Replicas, MaxBytes: file.Relay.MaxBytes, Ours: true}
	}
	return m
}

// readServer reads the addresses of servers, and the account of this home there.
func readServer(file *configs.File, name string, table configs.Hub) relay.ServerConfig {
	text := relay.ServerText{URLs: table.URLs, CredsFile: table.CredsFile, NKeyFile: table.NKeyFile, CAFile: table.CAFile}
	cfg, mistakes := text.Parse(file)
	for _, m := range mistakes {
		file.Table(name).Mistake(m.Key, m.Why)
	}
	return cfg
}

func hostFile(name string) string { return filepath.Join(hostFolder, name) }

// readHost reads what homes of others link to here.
func readHost(file *configs.File) *relay.HostConfig {
	cfg := &relay.HostConfig{
		Listen: file.Relay.Listen, AccountsFile: file.Path(hostFile(relay.HubFile)), Dir: file.Path(hostFile("jetstream")), TLS: file.TLSConfig(),
	}
	_, err := os.Stat(cfg.AccountsFile)
	if err == nil {
		_, err = file.Secret(hostFile(file.Home.Name + relay.SeedSuffix))
	}
	if err != nil {
		file.Table(relayTable).Mistake("listen", "want accounts: baton relay accounts "+file.Home.Name+" NAME... --out "+file.Path(hostFolder)+": "+err.Error())
	}
	return cfg
}

// openMeeting opens the server that homes of others link to, where there is to be one,
// and begins to connect to the one that homes meet at.
func (p *program) openMeeting(log *slog.Logger) error {
	m := readMeeting(p.file)
	var err error
	if m.host != nil {
		if p.host, err = relay.OpenHost(*m.host, log); err != nil {
			return err
		}
		log.Info("listening", slog.String("listener", "relay"), slog.String("address", p.host.URL()))
		m.hub.Host = p.host
	}
	if m.hub.Named() {
		p.hub, err = relay.OpenHub(m.hub, p.homeID(), log)
	}
	return err
}

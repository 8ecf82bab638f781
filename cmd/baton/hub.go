package main

import (
	"log/slog"
	"net/url"
	"slices"

	"baton/configs"
	"baton/federation"
	"baton/federation/relay"
)

// hubTable is the name of the table of the NATS server that homes meet at.
const hubTable = "relay.hub"

// hubConfig reads where homes meet. Mistakes are added to those of the file.
func hubConfig(file *configs.File) relay.HubConfig {
	t := file.Table(hubTable)
	var table configs.Hub
	t.Decode(&table)
	for _, address := range table.URLs {
		if u, err := url.Parse(address); err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			t.Mistake("urls", `want addresses such as "tls://hub.example:4222"`)
		}
	}
	if table.CredsFile != "" && table.NKeyFile != "" {
		t.Mistake("nkey_file", "want one of creds_file and nkey_file")
	}
	cfg := relay.HubConfig{URLs: table.URLs}
	for key, secret := range map[string]struct {
		name string
		path *string
	}{"creds_file": {table.CredsFile, &cfg.CredsFile}, "nkey_file": {table.NKeyFile, &cfg.NKeyFile}} {
		if secret.name == "" {
			continue
		}
		if _, err := file.Secret(secret.name); err != nil {
			t.Mistake(key, err.Error())
		}
		*secret.path = file.Path(secret.name)
	}
	if table.CAFile != "" {
		cfg.CAFile = file.Path(table.CAFile)
	}
	return cfg
}

// openHub begins to connect to the NATS server that homes meet at, nil for none.
func openHub(file *configs.File, home federation.HomeID, log *slog.Logger) (*relay.Hub, error) {
	cfg := hubConfig(file)
	if len(cfg.URLs) == 0 {
		return nil, nil //nolint:nilnil // no hub is what the configuration asks for
	}
	return relay.OpenHub(cfg, home, log)
}

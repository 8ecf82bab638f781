package relay

import (
	"net/url"
	"slices"

	"baton/federation"
)

// ServerText is a [ServerConfig] as the operator wrote it in a configuration.
type ServerText struct {
	URLs                        []string
	CredsFile, NKeyFile, CAFile string
}

// ConfigFiles reads the files that a configuration names.
type ConfigFiles interface {
	// Path returns the path of a file.
	Path(name string) string
	// Secret returns the secret in a file, or what is wrong with the file.
	Secret(name string) (string, error)
}

// Parse returns the configuration of a connection, and the mistakes in its text.
func (t ServerText) Parse(files ConfigFiles) (ServerConfig, []federation.Mistake) {
	cfg := ServerConfig{URLs: t.URLs}
	var mistakes []federation.Mistake
	for _, address := range t.URLs {
		if u, err := url.Parse(address); err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			mistakes = append(mistakes, federation.Mistake{Key: "urls", Why: `want addresses such as "tls://hub.example:4222"`})
		}
	}
	if t.CredsFile != "" && t.NKeyFile != "" {
		mistakes = append(mistakes, federation.Mistake{Key: "nkey_file", Why: "want one of creds_file and nkey_file"})
	}
	secret := func(key, name string) string {
		if name == "" {
			return ""
		}
		if _, err := files.Secret(name); err != nil {
			mistakes = append(mistakes, federation.Mistake{Key: key, Why: err.Error()})
		}
		return files.Path(name)
	}
	cfg.CredsFile, cfg.NKeyFile = secret("creds_file", t.CredsFile), secret("nkey_file", t.NKeyFile)
	if t.CAFile != "" {
		cfg.CAFile = files.Path(t.CAFile)
	}
	return cfg, mistakes
}

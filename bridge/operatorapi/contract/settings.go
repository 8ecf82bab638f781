package contract

// Reloaded is what a reload of the configuration changed, or would.
type Reloaded struct {
	File    string    `json:"file"`
	Changes []Setting `json:"changes"`
	DryRun  bool      `json:"dry_run,omitempty"`
}

// Setting is one key whose value changed.
type Setting struct {
	Key    string        `json:"key"`
	Before string        `json:"before"`                                  // as TOML; empty if the key was not set
	After  string        `json:"after"`                                   // as TOML; empty if the key is not set any more
	Line   int           `json:"line"`                                    // 0 for a removed key
	Effect SettingEffect `json:"effect" enum:"applied,reconnect,restart"` // applied at once, by connecting the link of the table anew, or by a restart
}

// SettingEffect says how a changed key takes effect.
type SettingEffect string

// The effects of changed keys.
const (
	SettingApplied   SettingEffect = "applied"   // at once
	SettingReconnect SettingEffect = "reconnect" // the link of its table connects anew
	SettingRestart   SettingEffect = "restart"   // with the next start
)

// LevelAsk asks for a level of the log.
type LevelAsk struct {
	Act

	Package string `json:"package,omitempty"` // its folder, such as bridge/irc/freeq; empty for all
	Level   string `json:"level" enum:"debug,info,warn,error"`
}

// LogLevels are the levels of the log.
type LogLevels struct {
	Level    string            `json:"level"` // of all packages that are not listed
	Packages map[string]string `json:"packages"`
	DryRun   bool              `json:"dry_run,omitempty"`
}

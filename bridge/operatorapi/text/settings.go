package text

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"baton/bridge/operatorapi/contract"
)

// Settings returns a line for each key that a reload of the configuration changed.
func Settings(done contract.Reloaded) []string {
	var lines []string
	for _, s := range done.Changes {
		lines = append(lines, settingLine(done.File, s))
	}
	return lines
}

// settingLine returns one changed key as a line.
func settingLine(file string, s contract.Setting) string {
	at := file
	if s.Line > 0 {
		at = place(file, s.Line)
	}
	const unset = "(not set)"
	effect := map[contract.SettingEffect]string{
		contract.SettingApplied: "applied", contract.SettingReconnect: "its link connects anew", contract.SettingRestart: "restart needed",
	}[s.Effect]
	return fmt.Sprintf("%s: %s: %s -> %s (%s)", at, s.Key, cmp.Or(s.Before, unset), cmp.Or(s.After, unset), effect)
}

// LogLevels returns the levels of the log as a line.
func LogLevels(levels contract.LogLevels) string {
	said := []string{"the log has level " + levels.Level}
	for _, folder := range slices.Sorted(maps.Keys(levels.Packages)) {
		said = append(said, folder+" has "+levels.Packages[folder])
	}
	return strings.Join(said, ", ")
}

package operatorapi

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"baton/bridge/operatorapi/contract"
)

// Levels holds the levels of the log. Its methods do not block.
type Levels interface {
	// Set sets the level of a folder and of the folders below it, or of all packages for "".
	Set(folder string, level slog.Level)
	// All returns the level of all packages, and the levels of folders that have another one.
	All() (general slog.Level, folders map[string]slog.Level)
}

// ErrNoLog returns the problem of a gateway that keeps no log.
func ErrNoLog() error {
	return &ProblemError{Status: http.StatusConflict, Code: CodeFailed, Detail: "this gateway keeps no log"}
}

// levelNames are the levels that an operator can set.
func levelNames() []string { return []string{"debug", "info", "warn", "error"} }

// SetLevel implements [Settings.SetLogLevel] with levels.
func SetLevel(levels Levels, pkg, name string, dry bool) (contract.LogLevels, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err != nil || !slices.Contains(levelNames(), name) {
		return contract.LogLevels{}, usage("level: want " + strings.Join(levelNames(), ", "))
	}
	if pkg != "" && !strings.HasPrefix(pkg, "bridge") && !strings.HasPrefix(pkg, "federation") && pkg != "cmd/baton" {
		return contract.LogLevels{}, usage("package: want the folder of a package, such as bridge/irc/freeq")
	}
	if !dry {
		levels.Set(pkg, level)
	}
	general, folders := levels.All()
	all := contract.LogLevels{Level: levelName(general), Packages: map[string]string{}}
	for folder, level := range folders {
		all.Packages[folder] = levelName(level)
	}
	return all, nil
}

func levelName(level slog.Level) string { return strings.ToLower(level.String()) }

package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
)

// versionCommand prints what this binary is.
type versionCommand struct{}

// version is what a build knows of itself.
type version struct {
	Version   string   `json:"version"`
	Revision  string   `json:"revision"`
	Go        string   `json:"go"`
	Protocols []string `json:"protocols"`
}

// Run prints the version.
func (versionCommand) Run(c *cli, streams std) error {
	v := buildVersion()
	if c.JSON {
		return json.NewEncoder(streams.out).Encode(v)
	}
	_, err := fmt.Fprintf(streams.out, "baton %s\nrevision %s\n%s\n", v.Version, v.Revision, v.Go)
	if err != nil {
		return err
	}
	for _, protocol := range v.Protocols {
		if _, err := fmt.Fprintln(streams.out, "speaks", protocol); err != nil {
			return err
		}
	}
	return nil
}

// buildVersion reads what the Go tool recorded in the binary.
func buildVersion() version {
	v := version{Version: "(devel)", Revision: "unknown", Go: runtime.Version(), Protocols: []string{"spanningtree 1205", "freeq/s2s/1", "airc 0.1.1", "freeq.at/handoff"}}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if build.Main.Version != "" {
		v.Version = build.Main.Version
	}
	for _, setting := range build.Settings {
		if setting.Key == "vcs.revision" {
			v.Revision = setting.Value
		}
	}
	return v
}

package main

import (
	"cmp"
	_ "embed" // of the file with the archived revision
	"runtime"
	"runtime/debug"
	"strings"
)

type versionCommand struct{}

type version struct {
	Version   string   `json:"version"`
	Revision  string   `json:"revision"`
	Go        string   `json:"go"`
	Protocols []string `json:"protocols"`
}

// Run prints the version.
func (versionCommand) Run(c *cli, streams std) error {
	v := buildVersion()
	lines := []string{"baton " + v.Version, "revision " + v.Revision, v.Go}
	for _, protocol := range v.Protocols {
		lines = append(lines, "speaks "+protocol)
	}
	return printLine(c, streams, v, strings.Join(lines, "\n"))
}

// The linker sets these in releases and in "make build":
//
//	-ldflags "-X main.linkedVersion=0.1.0 -X main.linkedRevision=1f992cc..."
var linkedVersion, linkedRevision string

const nextVersion = "0.1.0-dev"

// archivedRevision is the commit of a source archive, written by "git archive". In a checkout the
// file holds the placeholder.
//
//go:embed revision.txt
var archivedRevision string

// buildVersion takes the version and the revision from the linker, the version control stamps of
// the Go tool, or the source itself. The Go tool omits the stamps for "go run", tests and builds in
// a linked worktree.
func buildVersion() version {
	v := version{Version: linkedVersion, Revision: linkedRevision, Go: runtime.Version(), Protocols: []string{"spanningtree 1205", "freeq/s2s/1", "airc 0.1.1", "freeq.at/handoff"}}
	if build, ok := debug.ReadBuildInfo(); ok {
		stampedVersion, stampedRevision := stamps(build)
		v.Version, v.Revision = cmp.Or(v.Version, stampedVersion), cmp.Or(v.Revision, stampedRevision)
	}
	if archived := strings.TrimSpace(archivedRevision); v.Revision == "" && !strings.HasPrefix(archived, "$") {
		v.Revision = archived
	}
	v.Version, v.Revision = cmp.Or(v.Version, nextVersion), cmp.Or(v.Revision, "unknown")
	return v
}

func stamps(build *debug.BuildInfo) (version, revision string) {
	version = build.Main.Version
	if version == "(devel)" || strings.HasPrefix(version, "v0.0.0-") { // no tag
		version = ""
	}
	for _, setting := range build.Settings {
		switch {
		case setting.Key == "vcs.revision":
			revision = setting.Value + revision
		case setting.Key == "vcs.modified" && setting.Value == "true":
			revision += "-dirty"
		}
	}
	return strings.TrimPrefix(version, "v"), revision
}

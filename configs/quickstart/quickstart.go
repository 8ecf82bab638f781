// Package quickstart writes the files of a new gateway: its configuration, its data folder, the
// secrets of its first link, and its systemd unit or compose file. [Setup.Next] returns the
// operator's next steps.
package quickstart

import (
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

//go:embed templates
var templates embed.FS

// Networks returns the values of [Setup.Network].
func Networks() []string { return []string{"spanningtree", "freeq", "client", "none"} }

// Starters returns the values of [Setup.For].
func Starters() []string { return []string{"systemd", "compose", "laptop", "none"} }

// Setup is the input of the templates for a new gateway.
type Setup struct {
	Home    string // domain; see [CheckHome]
	Network string // of the first link
	For     string // service manager
	Dir     string // folder of all files; see [CheckDir]
	User    string // of the container, as UID:GID
}

// CheckHome returns an error unless a text is a lower-case domain.
func CheckHome(home string) error {
	if !regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$`).MatchString(home) {
		return fmt.Errorf("want a domain in lower case, not %q", home)
	}
	return nil
}

// CheckDir returns an error for a path with characters that are special in a unit file or a shell.
func CheckDir(dir string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9/._-]+$`).MatchString(dir) {
		return fmt.Errorf("want a path of letters, digits and ._-, not %q: a unit file and a shell read it", dir)
	}
	return nil
}

// ExistsError means that a file already exists.
type ExistsError struct{ Path string }

func (e *ExistsError) Error() string { return e.Path + " is there already, and nothing was written" }

type file struct {
	path string
	text string
	mode fs.FileMode
}

// Write writes all files and returns their paths. If one exists, it writes none and returns an
// [*ExistsError]. With replace, it keeps each old file as NAME.bak.
func (s Setup) Write(replace bool) (paths []string, err error) {
	files, err := s.files()
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		_, err := os.Lstat(f.path)
		if err == nil && !replace {
			return nil, &ExistsError{f.path}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil { //nolint:gosec // the service reads the configuration as another user
		return nil, fmt.Errorf("make folder: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(s.Dir, "data", "keys"), 0o700); err != nil {
		return nil, fmt.Errorf("make data_dir: %w", err)
	}
	for _, f := range files {
		if err := os.Rename(f.path, f.path+".bak"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return paths, fmt.Errorf("keep the old file: %w", err)
		}
		if err := os.WriteFile(f.path, []byte(f.text), f.mode); err != nil {
			return paths, fmt.Errorf("write configuration: %w", err)
		}
		paths = append(paths, f.path)
	}
	return paths, nil
}

func (s Setup) files() ([]file, error) {
	names := []string{"baton.toml"}
	switch s.For {
	case "systemd":
		names = append(names, "baton.service")
	case "compose":
		names = append(names, "compose.yaml")
	}
	var files []file
	for _, name := range names {
		text, err := fill(name, s)
		if err != nil {
			return nil, err
		}
		files = append(files, file{filepath.Join(s.Dir, name), text, 0o644})
	}
	if s.Network == "spanningtree" {
		for _, name := range []string{"lab.send", "lab.recv"} {
			files = append(files, file{filepath.Join(s.Dir, "data", name), rand.Text() + "\n", 0o600})
		}
	}
	return files, nil
}

// Next returns the next steps of the operator, with commands that call the program. The text peer
// is for the operator of the first peer.
func (s Setup) Next(program, peer string) (string, error) {
	return fill("next.txt", struct {
		Setup

		Program, Peer string
	}{s, program, peer})
}

func fill(name string, values any) (string, error) {
	parsed, err := template.ParseFS(templates, "templates/"+name+".tmpl")
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = parsed.Execute(&text, values)
	return text.String(), err
}

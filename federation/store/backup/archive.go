package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/engine"
)

const (
	archiveFormat   = 1
	manifestMember  = "manifest.json"
	recordMember    = "record.db"
	configMember    = "baton.toml"
	keysMember      = "keys/"
	maxManifestSize = 1 << 20 // bytes: some thousands of keys
	maxKeySize      = 1 << 20 // bytes
)

// Manifest is the first member of a backup.
type Manifest struct {
	Format int       `json:"format"`
	Home   string    `json:"home"` // home.name of the gateway
	Made   time.Time `json:"made"`
	Record int       `json:"record"` // version of the record, 0 without it
	Files  []Member  `json:"files"`
}

// Content describes the backup's content before the keys, for people.
func (m Manifest) Content() string {
	if m.Files[0].Name == configMember {
		return "configuration (the record is in PostgreSQL: back that up with its own tools)"
	}
	return fmt.Sprintf("record of version %d", m.Record)
}

// Member is one file of a backup.
type Member struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // hexadecimal
}

// Source names the files of a backup.
type Source struct {
	Home   string // home.name of the gateway
	Record string // "" if the record is in a database
	Config string
	Keys   string // folder
}

func (s Source) first() string {
	if s.Record == "" {
		return configMember
	}
	return recordMember
}

type member struct {
	Member

	write func(w io.Writer) error
}

// The record is first copied to a new file, draft. The caller removes any remainder of it.
func write(ctx context.Context, w io.Writer, from Source, draft string, now time.Time) (Manifest, error) {
	made := Manifest{Format: archiveFormat, Home: from.Home, Made: now.UTC()}
	source := from.Config
	if from.Record != "" {
		if err := engine.Copy(ctx, from.Record, draft); err != nil {
			return made, err
		}
		version, err := engine.Plan(ctx, draft)
		if err != nil {
			return made, err
		}
		source, made.Record = draft, version.From
	}
	first, err := describe(from.first(), source)
	if err != nil {
		return made, err
	}
	members, err := withKeys(&made, first, from.Keys)
	if err != nil {
		return made, err
	}
	return made, writeMembers(w, made, members)
}

// Reads the keys after the record; in the reverse order, the record could name a missing key.
func withKeys(made *Manifest, first member, folder string) ([]member, error) {
	names, err := keyFiles(folder)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	members := []member{first}
	for _, name := range names {
		one, err := describe(keysMember+name, filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		members = append(members, one)
	}
	for _, one := range members {
		made.Files = append(made.Files, one.Member)
	}
	return members, nil
}

func keyFiles(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if entry.Type().IsRegular() && !strings.HasPrefix(entry.Name(), ".") {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

func describe(name, from string) (member, error) {
	return measure(name, func(w io.Writer) error { return copyFile(w, from) })
}

// The function must write the member once.
func measure(name string, write func(io.Writer) error) (member, error) {
	size, sum := &counter{}, sha256.New()
	err := write(io.MultiWriter(size, sum))
	return member{Member{Name: name, Bytes: size.bytes, SHA256: hex.EncodeToString(sum.Sum(nil))}, write}, err
}

type counter struct{ bytes int64 }

// Write implements [io.Writer].
func (c *counter) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return len(p), nil
}

func writeMembers(w io.Writer, made Manifest, members []member) error {
	out := tar.NewWriter(w)
	text, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return err
	}
	if err := out.WriteHeader(header(manifestMember, int64(len(text)), made.Made)); err != nil {
		return err
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	for _, one := range members {
		if err := out.WriteHeader(header(one.Name, one.Bytes, made.Made)); err != nil {
			return err
		}
		if err := one.write(out); err != nil {
			return err
		}
	}
	return out.Close()
}

func header(name string, size int64, made time.Time) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: made}
}

func copyFile(w io.Writer, from string) error {
	f, err := os.Open(from) //nolint:gosec // path from the configuration
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return errors.Join(err, f.Close())
}

// The manifest is passed to accept before anything is written. An archive that differs from its
// manifest or has trailing data is an error.
func read(r io.Reader, accept func(Manifest) error, create func(name string) (io.WriteCloser, error)) error {
	in := tar.NewReader(r)
	made, err := readManifest(in)
	if err != nil {
		return fmt.Errorf("not a backup of this program: %w", err)
	}
	if err := checkManifest(made); err != nil {
		return err
	}
	if err := accept(made); err != nil {
		return err
	}
	for _, one := range made.Files {
		if err := readMember(in, one, create); err != nil {
			return fmt.Errorf("the backup is damaged: %s: %w", one.Name, err)
		}
	}
	if _, err := in.Next(); !errors.Is(err, io.EOF) {
		return errors.New("the backup is damaged: there is more in it than it lists")
	}
	return checkEnd(r)
}

// A tar reader does not read trailing bytes, and no checksum covers them.
func checkEnd(r io.Reader) error {
	n, err := io.ReadFull(r, make([]byte, 1))
	switch {
	case n > 0:
		return errors.New("the backup is damaged: there are bytes after its end")
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

func readManifest(in *tar.Reader) (Manifest, error) {
	var made Manifest
	head, err := in.Next()
	switch {
	case err != nil:
		return made, err
	case head.Name != manifestMember || head.Size > maxManifestSize:
		return made, fmt.Errorf("it begins with %q", head.Name)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return made, err
	}
	return made, federation.DecodeJSON(text, &made)
}

// Refuses member names outside the permitted folders.
func checkManifest(made Manifest) error {
	if made.Format != archiveFormat {
		return fmt.Errorf("the backup is of format %d and this program knows format %d: run a newer one", made.Format, archiveFormat)
	}
	if len(made.Files) == 0 || made.Files[0].Name != recordMember && made.Files[0].Name != configMember {
		return errors.New("the backup is damaged: it has no record")
	}
	seen := map[string]bool{}
	for _, one := range made.Files[1:] {
		folder, name := path.Split(one.Name)
		if folder != keysMember || name == "" || strings.HasPrefix(name, ".") || one.Bytes > maxKeySize || seen[one.Name] {
			return fmt.Errorf("the backup is damaged: it lists %q", one.Name)
		}
		seen[one.Name] = true
	}
	return nil
}

func readMember(in *tar.Reader, want Member, create func(name string) (io.WriteCloser, error)) error {
	head, err := in.Next()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	switch {
	case err != nil:
		return err
	case head.Name != want.Name || head.Typeflag != tar.TypeReg || head.Size != want.Bytes:
		return fmt.Errorf("%q is in its place", head.Name)
	}
	out, err := create(want.Name)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), in)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != want.SHA256 {
		return errors.New("its SHA-256 does not match")
	}
	return nil
}

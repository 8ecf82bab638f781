// Package translatetest contains the shared parts of the translators' tests: golden pairs of input
// and output, one file each.
package translatetest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// update is set by "go test -update", which rewrites the files from the results. Review them before a
// commit.
var update = flag.Bool("update", false, "write golden files anew") //nolint:gochecknoglobals // a flag of the test binary

// Golden runs a translation over each txtar file in a folder. For the section "in", the result must
// be the section "out". An error is compared as its text.
func Golden(t *testing.T, dir string, translate func(in []byte) ([]byte, error)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no pairs in %s (%v)", dir, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { pair(t, file, translate) })
	}
}

func pair(t *testing.T, file string, translate func(in []byte) ([]byte, error)) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.Files) == 0 || archive.Files[0].Name != "in" {
		t.Fatalf("%s has no section in", file)
	}
	got, err := translate(archive.Files[0].Data)
	if err != nil {
		got = []byte("error: " + err.Error())
	}
	got = append(bytes.TrimSpace(got), '\n')
	if *update {
		archive.Files = []txtar.File{archive.Files[0], {Name: "out", Data: got}}
		if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if len(archive.Files) != 2 || archive.Files[1].Name != "out" {
		t.Fatalf("%s has no section out", file)
	}
	if diff := cmp.Diff(string(archive.Files[1].Data), string(got)); diff != "" {
		t.Errorf("out (-want +got):\n%s", diff)
	}
}

// Payloads returns the inputs of the pairs in a folder, as seeds for fuzz targets.
func Payloads(tb testing.TB, dir string) [][]byte {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no pairs in %s (%v)", dir, err)
	}
	var all [][]byte
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil || len(archive.Files) == 0 {
			tb.Fatalf("%s: %d sections, %v", file, len(archive.Files), err)
		}
		all = append(all, archive.Files[0].Data)
	}
	return all
}

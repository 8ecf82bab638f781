package backup_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/baton-gateway/baton/federation/store/backup"
)

func TestDeliverSavesABackupWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "one.tar")
	write := func(draft, _ string) (backup.Manifest, error) {
		return backup.Manifest{Home: "gw.example"}, os.WriteFile(draft, []byte("x"), 0o600)
	}
	cut := errors.New("cut")
	if _, err := backup.Save(path, func(draft, folder string) (backup.Manifest, error) {
		_, err := write(draft, folder)
		return backup.Manifest{}, errors.Join(err, cut)
	}); !errors.Is(err, cut) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("a failed backup leaves %v, %v", left, err)
	}
	if made, err := backup.Save(path, write); err != nil || made.Home != "gw.example" {
		t.Errorf("got %+v, %v", made, err)
	}
	if _, err := backup.Save(path, write); err == nil || !strings.Contains(err.Error(), "the file already exists") {
		t.Errorf("over another file: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("in the folder are %v, %v", left, err)
	}
}

func TestReceiveRefusesATruncatedArchive(t *testing.T) {
	t.Parallel()
	if _, err := backup.Receive(filepath.Join(t.TempDir(), "draft.tar"), strings.NewReader("not an archive")); err == nil {
		t.Error("it is taken for a backup")
	}
}

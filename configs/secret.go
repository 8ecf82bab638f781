package configs

import (
	"fmt"
	"os"
	"strings"
)

// MaxSecretBytes bounds a secret file: room for any password, token or private key,
// and an error for a record or a log that was named by mistake.
const MaxSecretBytes = 16 << 10

// Secret reads a file that the configuration names for its content, such as a
// password, as [ReadSecret] does.
func (f *File) Secret(name string) (string, error) { return ReadSecret(f.Path(name)) }

// ReadSecret reads a file whose content is a secret. Only its owner may be able to read
// it. Line ends after the secret are not part of it. The error is one line that says
// what to do.
func ReadSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("read secret: %s is not a regular file", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return "", fmt.Errorf("read secret: others may read %s (mode %04o): chmod 600 it", path, mode)
	}
	if info.Size() > MaxSecretBytes {
		return "", fmt.Errorf("read secret: %s is longer than %d bytes", path, MaxSecretBytes)
	}
	content, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	secret := strings.TrimRight(string(content), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("read secret: %s is empty", path)
	}
	return secret, nil
}

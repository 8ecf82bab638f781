//go:build mutants

package simulation_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// hunted is the seeds among which each mutant must be found.
const hunted = "1-120"

func TestMutantsAreFound(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			binary := buildMutant(t, root, m)
			run := exec.CommandContext(t.Context(), binary, "-test.run=^TestFederations$")
			run.Env = append(os.Environ(), "BATON_SEEDS="+hunted)
			output, err := run.CombinedOutput()
			if err == nil {
				t.Fatalf("the seeds %s do not find it", hunted)
			}
			found := false
			for line := range strings.Lines(string(output)) {
				if _, violation, ok := strings.Cut(line, ": seed "); ok && !found {
					t.Logf("seed %.200s", strings.TrimSpace(violation))
					found = true
				}
			}
			if !found {
				t.Errorf("it violates no rule:\n%.2000s", output)
			}
		})
	}
}

// buildMutant builds the tests of this package with the fault of a mutant.
func buildMutant(t *testing.T, root string, m mutant) (binary string) {
	t.Helper()
	path, dir := filepath.Join(root, m.file), t.TempDir()
	changed := filepath.Join(dir, "mutant"+filepath.Ext(path))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	for name, content := range map[string]string{changed: m.apply(t, root), list: string(overlay)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	binary = filepath.Join(dir, "mutant.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-overlay", list, "-c", "-o", binary, ".")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, output)
	}
	return binary
}

//go:build long

package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// What a directory may cost, and how soon a file is offered.
const (
	idleFiles   = 10_000
	maxIdle     = 0.05 // of a core; the race detector doubles what idle files cost, which is below 0.01 without it
	maxMedian   = time.Second
	newFiles    = 40
	burstFiles  = 300
	idleMeasure = 30 * time.Second
)

func TestTenThousandIdleFilesCostLittle(t *testing.T) {
	for name, fill := range map[string]func(h *filesHouse, i int) (path string, content []byte){
		"voice": func(h *filesHouse, i int) (string, []byte) {
			return filepath.Join(h.voice, "handoff", fmt.Sprintf("%d.json", i)), voicePayload(voiceSecret, "bob", "alice", fmt.Sprint(i), time.Hour, nil)
		},
		"tasks": func(h *filesHouse, i int) (string, []byte) {
			return filepath.Join(h.tasks, fmt.Sprintf("task-%d.json", i)), fmt.Appendf(nil, `{"task_id":"task-%d","from_agent":"scanner","to_agent":"reviewer",
"status":"offered","description":"idle","created_at":"2026-11-23T10:00:00Z","updated_at":"2026-11-23T10:00:00Z"}`, i)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFilesHouse(t)
			idle := h.works(t, idleMeasure/2)
			for i := range idleFiles {
				path, content := fill(h, i)
				if err := os.WriteFile(path, content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var before time.Duration
			await(t, "the files to be read", func() bool { // the gateway has read them when it does nothing any more
				now := h.works(t, time.Second)
				settled := now < 50*time.Millisecond && before < 50*time.Millisecond && before > 0
				before = now
				return settled
			})
			worked := h.works(t, idleMeasure)
			share := (worked.Seconds() - 2*idle.Seconds()) / idleMeasure.Seconds()
			t.Logf("%d idle files cost %.2f %% of a core; the gateway without them %.2f %%", idleFiles, 100*share, 100*idle.Seconds()/(idleMeasure/2).Seconds())
			if share > maxIdle {
				t.Errorf("%d idle files cost %.2f %% of a core", idleFiles, 100*share)
			}
		})
	}
}

// works returns for how long the cores work for the gateway in a time.
func (h *filesHouse) works(t *testing.T, within time.Duration) time.Duration {
	t.Helper()
	before := cpuTime(t, h.process.Process.Pid)
	<-time.After(within)
	return cpuTime(t, h.process.Process.Pid) - before
}

func TestANewFileIsOfferedSoon(t *testing.T) {
	h := newFilesHouse(t)
	var cursor string
	var took []time.Duration
	for i := range newFiles {
		since := time.Now()
		drop(t, filepath.Join(h.voice, "handoff", fmt.Sprintf("%d.json", i)), voicePayload(voiceSecret, "alice", "bob", fmt.Sprint(i), time.Hour, nil))
		h.next(t, &cursor)
		took = append(took, time.Since(since))
	}
	slices.Sort(took)
	t.Logf("a new file is offered after %s at the median, %s at most", took[len(took)/2], took[len(took)-1])
	if took[len(took)/2] > maxMedian {
		t.Errorf("the median is %s", took[len(took)/2])
	}

	since, folder := time.Now(), filepath.Join(h.voice, "claimed")
	for i := range burstFiles {
		drop(t, filepath.Join(h.voice, "handoff", fmt.Sprintf("b%d.json", i)), voicePayload(voiceSecret, "alice", "bob", fmt.Sprintf("burst %d", i), time.Hour, nil))
	}
	await(t, "the burst to be claimed", func() bool { return len(filesIn(t, folder)) == newFiles+burstFiles })
	t.Logf("%d files are claimed and offered at %.0f a second", burstFiles, burstFiles/time.Since(since).Seconds())
}

// Fifty processes of the program accept one record. The directory is tested with a hundred rounds.
func TestOneOfManyProgramsAcceptsARecord(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), program, append([]string{"dir"}, args...)...)
		cmd.Env = append(os.Environ(), "HANDOFF_DIR="+dir)
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	for round := range 20 {
		id, err := run("offer", "do it", "--from", "scanner")
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		winners := make(chan string, 50)
		for i := range 50 {
			group.Go(func() {
				agent := fmt.Sprintf("agent%d", i)
				if i == round%50 { // killed in between
					cmd := exec.CommandContext(t.Context(), program, "dir", "accept", id, "--agent", agent, "--dir", dir)
					if cmd.Start() == nil {
						<-time.After(time.Duration(round) * 1500 * time.Microsecond)
						_ = cmd.Process.Kill()
						_ = cmd.Wait()
					}
					return
				}
				if _, err := run("accept", id, "--agent", agent); err == nil {
					winners <- agent
				}
			})
		}
		group.Wait()
		close(winners)
		var won []string
		for agent := range winners {
			won = append(won, agent)
		}
		text, err := os.ReadFile(filepath.Join(dir, id+".json"))
		switch {
		case len(won) > 1:
			t.Errorf("round %d: %v won", round, won)
		case len(won) == 1 && (err != nil || !bytes.Contains(text, []byte(`"`+won[0]+`"`))):
			t.Errorf("round %d: %s won, and the record is %s, %v", round, won[0], text, err)
		case len(won) == 0 && err == nil && !bytes.Contains(text, fmt.Appendf(nil, `"agent%d"`, round%50)):
			t.Errorf("round %d: no process won, and the record is %s", round, text)
		}
	}
}

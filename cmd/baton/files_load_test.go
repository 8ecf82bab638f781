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

// Limits on the cost of a directory, and on the time until a file is offered.
const (
	idleFiles   = 10_000
	idlePeriod  = 6 * time.Second // with a rescan in it
	idlePeriods = 20
	maxReads    = idleFiles / 10  // by the whole process in a period
	maxMedian   = 4 * time.Second // less than the wait for a rescan: notifications work
	newFiles    = 40
	burstFiles  = 300
)

func TestFilesAreNotReadWhileIdle(t *testing.T) {
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
			for i := range idleFiles {
				path, content := fill(h, i)
				if err := os.WriteFile(path, content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var calls int
			for range idlePeriods { // the gateway may take several to read the files once
				before := h.reads(t)
				<-time.After(idlePeriod)
				if calls = h.reads(t) - before; calls < maxReads {
					return
				}
			}
			t.Errorf("the gateway reads %d times in %s, and no file has changed", calls, idlePeriod)
		})
	}
}

// reads returns how many system calls for reading the process of the gateway has made.
func (h *filesHouse) reads(t *testing.T) (calls int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", h.process.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "syscr: ")
	if _, err := fmt.Sscan(after, &calls); err != nil {
		t.Fatal(err)
	}
	return calls
}

func TestFilesAreOfferedSoon(t *testing.T) {
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
	for claimed := newFiles; claimed <= newFiles+burstFiles; claimed += newFiles / 2 { // each part has the patience of an await
		await(t, "the burst to be claimed", func() bool { return len(filesIn(t, folder)) >= claimed })
	}
	t.Logf("%d files are claimed and offered at %.0f a second", burstFiles, burstFiles/time.Since(since).Seconds())
}

// Fifty processes of the program accept one record. The directory is tested with a hundred rounds.
func TestFilesRecordIsAcceptedByOneProgram(t *testing.T) {
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

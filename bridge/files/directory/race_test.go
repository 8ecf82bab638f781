package directory_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/baton-gateway/baton/bridge/files/directory"
	"github.com/baton-gateway/baton/translate/taskfile"
)

// The environment of a claiming process: the kind of claim, the directory, and
// its name.
const (
	claimKind = "BATON_TEST_CLAIM"
	claimDir  = "BATON_TEST_DIR"
	claimName = "BATON_TEST_AGENT"
)

// claimants is how many processes claim each file.
const claimants = 50

func TestMain(m *testing.M) {
	if kind := os.Getenv(claimKind); kind != "" {
		claimEach(kind, os.Getenv(claimDir), os.Getenv(claimName))
		return
	}
	os.Exit(m.Run())
}

// claimEach is the main function of a claiming process: it reads the number of a round from
// stdin, claims the file of the round, and writes "won" or "lost".
func claimEach(kind, dir, agent string) {
	for scanner := bufio.NewScanner(os.Stdin); scanner.Scan(); {
		round := scanner.Text()
		var err error
		if kind == "voice" {
			err = directory.Move(filepath.Join(dir, "handoff", round+".json"), filepath.Join(dir, "claimed", round+"-"+agent+".json"))
		} else {
			_, err = directory.Tasks{Path: dir}.Accept(round, agent, time.Now())
		}
		_, refused := errors.AsType[*directory.RefusedError](err)
		_, gone := errors.AsType[*directory.NotFoundError](err)
		switch {
		case err == nil:
			fmt.Println("won")
		case refused, gone, errors.Is(err, fs.ErrNotExist):
			fmt.Println("lost")
		default:
			fmt.Println("error:", err)
		}
	}
}

// claiming is one process.
type claiming struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
}

func startClaiming(t *testing.T, kind, dir, agent string) *claiming {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	cmd.Env = append(os.Environ(), claimKind+"="+kind, claimDir+"="+dir, claimName+"="+agent)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &claiming{cmd, in, bufio.NewScanner(out)}
}

// race makes all processes claim the file of a round at once, and kills one of them meanwhile.
// It returns their answers, "" for the killed one.
func race(t *testing.T, all []*claiming, round string, victim int) []string {
	t.Helper()
	answers := make([]string, len(all))
	var group sync.WaitGroup
	for i, c := range all {
		group.Go(func() {
			_, _ = io.WriteString(c.in, round+"\n")
			if i == victim {
				_ = c.cmd.Process.Kill()
			}
			if c.answers.Scan() {
				answers[i] = c.answers.Text()
			}
		})
	}
	group.Wait()
	return answers
}

// testRace lets the processes claim the file of each round, and checks which process has it after each.
func testRace(t *testing.T, kind, dir string, prepare func(round string), winner func(round string) string) {
	t.Helper()
	start := func(i, life int) *claiming {
		return startClaiming(t, kind, dir, fmt.Sprintf("agent%dx%d", i, life))
	}
	all := make([]*claiming, claimants)
	for i := range all {
		all[i] = start(i, 0)
	}
	kills, winsKilled := 0, 0
	for n := range rounds {
		round, victim := fmt.Sprintf("round-%03d", n), n*7%claimants
		prepare(round)
		answers := race(t, all, round, victim)
		owner, won := winner(round), 0
		for i, answer := range answers {
			switch {
			case answer == "won":
				won++
				if agent := strings.TrimPrefix(all[i].cmd.Env[len(all[i].cmd.Env)-1], claimName+"="); agent != owner {
					t.Errorf("%s: %s won, and %s has it", round, agent, owner)
				}
			case answer == "" && i != victim, strings.HasPrefix(answer, "error"):
				t.Errorf("%s: process %d answers %q", round, i, answer)
			}
		}
		if won > 1 || won == 0 && owner != "" && !strings.HasPrefix(owner, fmt.Sprintf("agent%dx", victim)) {
			t.Errorf("%s: %d won, and %q has it", round, won, owner)
		}
		if won == 0 {
			winsKilled++
		}
		_ = all[victim].cmd.Wait() // it was killed
		kills++
		all[victim] = start(victim, n+1)
	}
	for _, c := range all {
		_ = c.in.Close()
		if err := c.cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d processes, %d rounds, %d kills, %d of a process that had won or held the claim", claimants, rounds, kills, winsKilled)
}

func TestClaimOfAVoiceFileIsExclusive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"handoff", "claimed"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	testRace(t, "voice", dir, func(round string) {
		if err := directory.Create(filepath.Join(dir, "handoff", round+".json"), []byte(round), 0o644); err != nil {
			t.Fatal(err)
		}
	}, func(round string) string {
		claimed, err := filepath.Glob(filepath.Join(dir, "claimed", round+"-*.json"))
		if err != nil || len(claimed) != 1 {
			t.Fatalf("%s is claimed as %v, %v", round, claimed, err)
		}
		if text, err := os.ReadFile(claimed[0]); err != nil || string(text) != round {
			t.Errorf("%s has %s, %v", claimed[0], text, err)
		}
		return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(claimed[0]), round+"-"), ".json")
	})
}

func TestAcceptOfARecordIsExclusive(t *testing.T) {
	t.Parallel()
	tasks := directory.Tasks{Path: t.TempDir()}
	testRace(t, "record", tasks.Path, func(round string) {
		r, err := taskfile.New(round, "scanner", "", "do it", "", time.Now())
		if err == nil {
			_, err = tasks.Create(r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}, func(round string) string {
		// A killed process may hold the claim: it is undone when it is old enough.
		if err := tasks.Recover(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		item, err := tasks.Read(round + ".json")
		if err != nil {
			t.Fatalf("%s is lost: %v", round, err)
		}
		if item.Status == taskfile.Offered {
			return ""
		}
		return item.To
	})
	left, err := filepath.Glob(filepath.Join(tasks.Path, ".*"))
	for _, name := range left {
		if !directory.IsTemp(filepath.Base(name)) { // of a process killed while it wrote
			t.Errorf("%s is left, %v", name, err)
		}
	}
}

package measure

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/relay"
)

// ServeHub runs a hub with the accounts in a folder, and prints its address. It ends when its input
// ends.
func ServeHub(ctx context.Context, dir string) error {
	host, err := relay.OpenHost(ctx, relay.HostConfig{
		Listen: "127.0.0.1:0", AccountsFile: filepath.Join(dir, relay.HubFile), Dir: streams(dir),
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer host.Close()
	fmt.Println(host.URL())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func streams(dir string) string { return filepath.Join(dir, "jetstream") }

type child struct {
	cmd   *exec.Cmd
	input io.Closer // nil if the process does not read it
}

type usage struct {
	cpu   time.Duration
	bytes float64
	files int
}

func (c *child) usage() (usage, error) {
	dir := filepath.Join("/proc", strconv.Itoa(c.cmd.Process.Pid))
	u := usage{}
	var err error
	if u.cpu, err = processorTime(dir); err != nil {
		return u, err
	}
	files, errFiles := os.ReadDir(filepath.Join(dir, "fd"))
	status, errStatus := os.ReadFile(filepath.Join(dir, "status"))
	u.files = len(files)
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			errStatus = errors.Join(errStatus, err)
			u.bytes = float64(kib) * (1 << 10)
		}
	}
	return u, errors.Join(errFiles, errStatus)
}

// The file stat also has the time, but counts only at clock ticks, and so misses most of the work
// that begins at a tick.
func processorTime(dir string) (sum time.Duration, err error) {
	threads, err := filepath.Glob(filepath.Join(dir, "task", "*", "schedstat"))
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("no threads in %s: %w", dir, err)
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			return 0, err
		}
		var nanoseconds time.Duration
		if _, err := fmt.Sscan(string(text), &nanoseconds); err != nil {
			return 0, fmt.Errorf("read %s: %w", thread, err)
		}
		sum += nanoseconds
	}
	return sum, nil
}

func (c *child) stop() {
	if c.input != nil {
		_ = c.input.Close()
	} else {
		_ = c.cmd.Process.Kill() // an error means that it has ended
	}
	_ = c.cmd.Wait()
}

func openHub(ctx context.Context, dir string, homes []string) (hub *child, url string, err error) {
	if _, err := relay.SaveAccounts(dir, homes, relay.HubLayout{}); err != nil {
		return nil, "", err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.CommandContext(ctx, program, "-serve-hub", dir)
	cmd.Stderr = os.Stderr
	input, errIn := cmd.StdinPipe()
	output, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	hub = &child{cmd, input}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		hub.stop()
		return nil, "", fmt.Errorf("the hub does not start: %w", err)
	}
	return hub, strings.TrimSpace(line), nil
}

func seedFile(dir, home string) string { return filepath.Join(dir, home+relay.SeedSuffix) }

func diskOf(dir string) (size float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += float64(info.Size())
		}
		return err
	})
	return size, err
}

func homeNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("h%d.example", i)
	}
	return names
}

func ids(names []string) []federation.HomeID {
	all := make([]federation.HomeID, len(names))
	for i, name := range names {
		all[i] = federation.HomeID(name)
	}
	return all
}

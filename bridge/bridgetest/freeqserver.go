package bridgetest

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// FreeqServer is a real freeq-server in its own process.
type FreeqServer struct {
	ID      string
	API     string
	IRC     string
	Address string // UDP, for its peers

	name, binary, dir     string
	dials, allowed, peers []string
	process               *exec.Cmd
}

// NewFreeqServer prepares a server with its files in a directory. The addresses must be free.
func NewFreeqServer(ctx context.Context, binary, dir, name string, endpoint ed25519.PrivateKey, web, ircAddress string) (*FreeqServer, error) {
	info, err := os.Stat(binary)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return nil, fmt.Errorf("%s is no program", binary)
	}
	if err := os.WriteFile(filepath.Join(dir, "iroh-key.secret"), []byte(hex.EncodeToString(endpoint.Seed())), 0o600); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	free, err := lc.ListenPacket(ctx, "udp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer free.Close()
	return &FreeqServer{
		ID: hex.EncodeToString(public(endpoint)), API: "http://" + web, IRC: ircAddress, Address: free.LocalAddr().String(),
		name: name, binary: binary, dir: dir,
	}, nil
}

// Admit lets a peer link to the server, which fetches the keys of the peer's users from its API.
func (f *FreeqServer) Admit(id, api string) {
	f.allowed = append(f.allowed, id)
	f.peers = append(f.peers, id+"="+api)
}

// MeshServers makes stopped real servers peers of each other.
func MeshServers(servers ...*FreeqServer) {
	for i, f := range servers {
		for j, other := range servers {
			if i == j {
				continue
			}
			f.Admit(other.ID, other.API)
			if i < j {
				f.dials = append(f.dials, other.ID+"@"+other.Address)
			}
		}
	}
}

// PartServers removes these peers, from the next start of each server.
func PartServers(servers ...*FreeqServer) {
	for _, f := range servers {
		for _, other := range servers {
			ofOther := func(text string) bool { return f != other && strings.HasPrefix(text, other.ID) }
			f.allowed, f.peers, f.dials = slices.DeleteFunc(f.allowed, ofOther), slices.DeleteFunc(f.peers, ofOther), slices.DeleteFunc(f.dials, ofOther)
		}
	}
}

// Start runs the server, and blocks until its web API answers.
func (f *FreeqServer) Start(ctx context.Context) error {
	_, port, _ := strings.Cut(f.Address, ":")
	arguments := []string{
		"--iroh", "--iroh-port", port, "--web-addr", strings.TrimPrefix(f.API, "http://"), "--db-path", filepath.Join(f.dir, "db"),
		"--data-dir", f.dir, "--listen-addr", f.IRC, "--server-name", f.name, "--peer-key-retry-secs", "1",
		"--s2s-allowed-peers", strings.Join(f.allowed, ","), "--s2s-peer-api", strings.Join(f.peers, ","),
	}
	if len(f.dials) > 0 {
		arguments = append(arguments, "--s2s-peers", strings.Join(f.dials, ","))
	}
	log, err := os.OpenFile(f.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	f.process = exec.CommandContext(context.WithoutCancel(ctx), f.binary, arguments...) //nolint:gosec // the program that a test names
	f.process.Stdout, f.process.Stderr, f.process.Dir = log, log, f.dir
	f.process.Env = append(os.Environ(), "NO_COLOR=1")
	f.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := f.process.Start(); err != nil {
		return fmt.Errorf("start %s: %w", f.name, err)
	}
	for {
		if status, _ := f.Get(ctx, "/api/v1/health", ""); status == http.StatusOK {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w", f.name, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Stop kills the server.
func (f *FreeqServer) Stop() {
	if f.process != nil && f.process.Process != nil {
		_ = f.process.Process.Kill()
		_ = f.process.Wait() // killed
	}
}

func (f *FreeqServer) log() string { return filepath.Join(f.dir, "log") }

// Log returns the end of the server's output.
func (f *FreeqServer) Log() string {
	text, _ := os.ReadFile(f.log())
	return string(text[max(0, len(text)-8000):])
}

// Get requests a path of the web API; the bearer of a session may be "". The status is 0 if there
// is no answer.
func (f *FreeqServer) Get(ctx context.Context, path, bearer string) (status int, body []byte) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.API+path, nil)
	if err != nil {
		return 0, nil
	}
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	body, _ = io.ReadAll(response.Body)
	return response.StatusCode, body
}

// Package postgrestest runs Debian's PostgreSQL server for tests, with its files and a private
// socket in a folder of the test. A test fails if no server is installed.
package postgrestest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A server may have to read its log on a busy machine.
const startTime = 2 * time.Minute

const askEvery = 20 * time.Millisecond

// Server is a running PostgreSQL server.
type Server struct {
	folder  string
	bin     string
	as      *syscall.Credential // nil for the user that runs the test
	mu      sync.Mutex          // protects free and orphans
	schemas int
	free    []string // connection strings of used and emptied schemas
	process *exec.Cmd
	orphans []int // of a killed server
	said    *bytes.Buffer
}

// Start starts a new server, until the end of the test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	folder, err := os.MkdirTemp("", "baton-pg-") //nolint:usetesting // the path of a socket has to be short
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{folder: folder, bin: binaries(tb), as: owner(tb)}
	tb.Cleanup(func() {
		s.Kill(tb)
		if err := os.RemoveAll(folder); err != nil {
			tb.Error(err)
		}
	})
	if s.as != nil {
		if err := os.Chown(folder, int(s.as.Uid), int(s.as.Gid)); err != nil {
			tb.Fatal(err)
		}
	}
	initdb := s.command("initdb", "--pgdata", s.data(), "--username", "baton", "--auth", "trust", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		tb.Fatalf("initdb: %v\n%s", err, out)
	}
	s.Run(tb)
	return s
}

func binaries(tb testing.TB) string {
	tb.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		tb.Fatal(err)
	}
	if len(found) == 0 {
		tb.Fatal("PostgreSQL is not installed: apt-get install postgresql")
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) }))
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0 for other text
	return n
}

// A server refuses to run as root.
func owner(tb testing.TB) *syscall.Credential {
	tb.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		tb.Fatal(err)
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		tb.Fatal(err)
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		tb.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// Socket is the name of the socket in the folder of a server.
const Socket = ".s.PGSQL.5432"

// Folder returns the folder of the server's socket: the host of a connection string.
func (s *Server) Folder() string { return s.folder }

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...) //nolint:gosec,noctx // a program of Debian's, which ends with the test
	cmd.Dir = s.folder
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Run starts the server after [Server.Kill], with settings such as "synchronous_commit=off", and
// returns when it responds.
func (s *Server) Run(tb testing.TB, settings ...string) {
	tb.Helper()
	s.Launch(tb, settings...)
	s.Await(tb)
}

// Launch starts the server without waiting. The server has no automatic vacuum, which would free
// the pages of an emptied record for the next test, so that the record would not grow.
func (s *Server) Launch(tb testing.TB, settings ...string) {
	tb.Helper()
	args := []string{"-D", s.data(), "-k", s.folder}
	for _, setting := range append([]string{"listen_addresses=", "shared_buffers=32MB", "max_connections=150", "autovacuum=off"}, settings...) {
		args = append(args, "-c", setting)
	}
	s.process, s.said = s.command("postgres", args...), &bytes.Buffer{}
	s.process.Stdout, s.process.Stderr = s.said, s.said
	if err := s.process.Start(); err != nil {
		tb.Fatalf("start postgres: %v", err)
	}
}

// Await returns when the server responds.
func (s *Server) Await(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), startTime)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.dsn())
		if err == nil {
			if err := conn.Close(ctx); err != nil {
				tb.Error(err)
			}
			return
		}
		select {
		case <-ctx.Done():
			s.Kill(tb)
			tb.Fatalf("postgres does not answer: %v\n%s", err, s.said)
		case <-time.After(askEvery):
		}
	}
}

// Kill kills the server and all its processes, like a power cut.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	if s.process == nil {
		return
	}
	s.Shoot()
	_ = s.process.Wait()
	s.process = nil
	for _, pid := range s.orphans { // they share its memory
		for syscall.Kill(pid, 0) == nil {
			time.Sleep(time.Millisecond)
		}
	}
	s.orphans = nil
}

// Shoot is only the first part of [Server.Kill], which must follow. It may be called from any
// goroutine.
func (s *Server) Shoot() {
	_ = s.process.Process.Signal(syscall.SIGSTOP) // keeps it from starting more processes
	s.orphans = append(s.orphans, s.children()...)
	for _, pid := range append(s.orphans, s.process.Process.Pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // some have already exited
	}
}

// Freeze suspends all processes of the server, or resumes them. A suspended server keeps its
// connections open but does not respond.
func (s *Server) Freeze(tb testing.TB, stop bool) {
	tb.Helper()
	signal := syscall.SIGCONT
	if stop {
		signal = syscall.SIGSTOP
	}
	if err := s.process.Process.Signal(signal); err != nil {
		tb.Errorf("signal postgres: %v", err)
	}
	for _, pid := range s.children() {
		_ = syscall.Kill(pid, signal) // some have already exited
	}
}

// Each process has its own process group. An ended server has none.
func (s *Server) children() []int {
	pid := s.process.Process.Pid
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	var children []int
	for field := range strings.FieldsSeq(string(list)) {
		if child, err := strconv.Atoi(field); err == nil {
			children = append(children, child)
		}
	}
	return children
}

// Schema creates an empty schema and returns its connection string.
func (s *Server) Schema(tb testing.TB) string {
	tb.Helper()
	s.mu.Lock()
	s.schemas++
	name := fmt.Sprintf("s%d", s.schemas)
	s.mu.Unlock()
	s.Exec(tb, s.dsn(), "CREATE SCHEMA "+name)
	return s.dsn() + " search_path=" + name
}

// Record returns the connection string for an empty record or schema. At the end of the test it is
// emptied for the next one, because creating a record takes longer than most tests.
func (s *Server) Record(tb testing.TB) string {
	tb.Helper()
	dsn := s.emptied()
	if dsn == "" {
		dsn = s.Schema(tb)
	}
	tb.Cleanup(func() {
		s.Clear(tb, dsn)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.free = append(s.free, dsn)
	})
	return dsn
}

func (s *Server) emptied() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.free) - 1
	if last < 0 {
		return ""
	}
	dsn := s.free[last]
	s.free = s.free[:last]
	return dsn
}

// Clear deletes the content of a record.
func (s *Server) Clear(tb testing.TB, dsn string) {
	tb.Helper()
	s.Exec(tb, dsn, empty)
}

// Keeps the table with the version, and restarts the sequences.
const empty = `SET session_replication_role = replica; DO $$ DECLARE name text; BEGIN
	FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename <> 'schema_version' LOOP
		EXECUTE 'DELETE FROM ' || name;
	END LOOP;
	FOR name IN SELECT sequencename FROM pg_sequences WHERE schemaname = current_schema() LOOP
		PERFORM setval(name::regclass, 1, false);
	END LOOP;
END $$`

// Exec runs statements like an operator's shell.
func (s *Server) Exec(tb testing.TB, dsn, statements string) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context()) // so that a test can clean up
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		tb.Fatal(err)
	}
	_, err = conn.Exec(ctx, statements)
	if closed := conn.Close(ctx); err != nil || closed != nil {
		tb.Fatalf("%s: %v, %v", statements, err, closed)
	}
}

func (s *Server) dsn() string { return "host=" + s.folder + " user=baton dbname=postgres" }

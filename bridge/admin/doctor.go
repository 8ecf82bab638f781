package admin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/fault"
	"github.com/baton-gateway/baton/federation/peering"
	"github.com/baton-gateway/baton/federation/store/registry"
)

// The bounds of the checks.
const (
	checkupTime   = 25 * time.Second
	documentTime  = 5 * time.Second
	fsyncs        = 20
	slowFsync     = 50 * time.Millisecond
	lowDisk       = 10 // percent
	testBytes     = 64 << 10
	shortValidity = 14 * 24 * time.Hour
	clockSkew     = 30 * time.Second
)

// Checkup has the current configuration of a running gateway, for baton doctor.
type Checkup struct {
	Home        federation.HomeID
	Key         string   // current signing key, as a did:key
	Folder      string   // data_dir
	RecordFiles []string // including data_dir
	ClockDoubt  string   // "" if confirmed
	Unfinished  []string // DIDs with an unfinished erasure
	// UnfinishedErr is the error from reading these DIDs.
	UnfinishedErr error
	Secrets       []string // secret files named by the configuration
	Keys          string
	Issued        string
	Certificate   *x509.Certificate // current certificate for handshakes; nil for none
	// CertificateProblem is the reason why the certificate was not renewed, or "".
	CertificateProblem string
	Authority          string // the ACME directory; "" for files

	Proxies *bridge.Unforwarded // nil without trusted proxies

	Record *registry.Record
	// Relay and Hub return the reason why their server is unreachable. Hub may be nil.
	Relay, Hub func() error
	Links      []bridge.LinkStatus
	Peers      []Peer
	// Clocks returns how far the local clock is ahead of the clock of each reachable home.
	Clocks func(ctx context.Context) map[string]time.Duration
	// Fetch reads the document at an address as other homes do.
	Fetch  func(ctx context.Context, address string) ([]byte, error)
	Canary *peering.Canary
}

// Stopped is the part of a [Checkup] for a stopped gateway.
type Stopped struct {
	Config   string
	Mistakes []string
	// ReadRecord returns the state of the record in words.
	ReadRecord func(ctx context.Context) (string, error)
	ReadKeys   func(ctx context.Context) error
	Synced     bool     // NTP synchronizes the clock
	Names      []string // public host names of this gateway
	LookUp     func(ctx context.Context, name string) ([]string, error)
	Listeners  []StoppedListener
}

// StoppedListener is a configured listen address.
type StoppedListener struct{ Key, Address string }

// ExamineStopped runs the checks that need no running gateway.
func (c Checkup) ExamineStopped(ctx context.Context, s Stopped) []Diagnosis {
	ctx, cancel := context.WithTimeout(ctx, checkupTime)
	defer cancel()
	all := []Diagnosis{s.configuration(), s.record(ctx, c.Folder)}
	if _, err := os.Stat(c.Folder); err == nil {
		all = append(all, checkFsync(c.Folder), checkDisk(c.Folder), c.permissions(), s.keys(ctx, c.Keys))
	}
	all = append(all, s.clock(c.ClockDoubt), c.certificate(time.Now(), "baton config check"))
	all = append(all, s.dns(ctx)...)
	all = append(all, s.ports(ctx)...)
	return append(all, c.relay("look at it and at the table of its urls, and run: baton config check"))
}

func (s Stopped) configuration() Diagnosis {
	if len(s.Mistakes) == 0 {
		return fine("configuration", s.Config+" has no mistakes")
	}
	detail := s.Mistakes[0]
	if more := len(s.Mistakes) - 1; more > 0 {
		detail += fmt.Sprintf(" (and %d more)", more)
	}
	return fails("configuration", detail, "baton config check "+s.Config)
}

func (s Stopped) record(ctx context.Context, folder string) Diagnosis {
	state, err := s.ReadRecord(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fine("record", "none yet: the first start makes it in "+folder)
	case errors.Is(err, fs.ErrPermission):
		return fails("record", bridge.OneLine(err), "run as the user of the gateway: sudo -u baton baton doctor")
	case err != nil:
		return fails("record", bridge.OneLine(err), recordRemedy(err))
	}
	return fine("record", state)
}

func (s Stopped) keys(ctx context.Context, folder string) Diagnosis {
	if err := s.ReadKeys(ctx); err != nil {
		return fails("keys", bridge.OneLine(err), "ls -l "+folder)
	}
	return fine("keys", "they can be read")
}

func (s Stopped) clock(doubt string) Diagnosis {
	if doubt != "" {
		return warns("clock", doubt+": nothing will expire by it", "timedatectl set-ntp true")
	}
	if !s.Synced {
		return warns("clock", "NTP does not synchronize it", "timedatectl set-ntp true")
	}
	return fine("clock", "NTP synchronizes it")
}

func (s Stopped) dns(ctx context.Context) []Diagnosis {
	var all []Diagnosis
	for _, name := range s.Names {
		ctx, cancel := context.WithTimeout(ctx, documentTime)
		found, err := s.LookUp(ctx, name)
		cancel()
		if err != nil {
			all = append(all, warns("dns", bridge.OneLine(err), "add an A or AAAA record for "+name+", and look: dig +short "+name))
			continue
		}
		all = append(all, fine("dns", name+" is "+strings.Join(found, ", ")))
	}
	return all
}

func (s Stopped) ports(ctx context.Context) []Diagnosis {
	var all []Diagnosis
	for _, l := range s.Listeners {
		var cfg net.ListenConfig
		listener, err := cfg.Listen(ctx, "tcp", l.Address)
		if err == nil {
			_ = listener.Close()
			continue
		}
		_, port, _ := net.SplitHostPort(l.Address)
		remedy := "ss -ltnp 'sport = :" + port + "'"
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			err = errno // without the address, which is in the detail
			if errors.Is(err, syscall.EACCES) {
				remedy = `sudo setcap cap_net_bind_service=+ep "$(command -v baton)"`
			} else if errors.Is(err, syscall.EADDRNOTAVAIL) {
				remedy = "ip -brief address"
			}
		}
		all = append(all, fails("ports", bridge.OneLine(err)+": "+l.Address+" of "+l.Key, remedy))
	}
	if len(all) == 0 {
		return []Diagnosis{fine("ports", fmt.Sprintf("%d are free", len(s.Listeners)))}
	}
	return all
}

// Examine runs all checks, and with online also the checks that involve other homes.
func (c Checkup) Examine(ctx context.Context, online bool) []Diagnosis {
	ctx, cancel := context.WithTimeout(ctx, checkupTime)
	defer cancel()
	all := []Diagnosis{
		c.record(ctx), checkFsync(c.Folder), checkDisk(c.Folder), c.permissions(), c.clock(ctx), c.certificate(time.Now(), "baton reload"),
		c.did(ctx), c.wellKnown(ctx), c.relay("baton relay check"),
	}
	if c.Proxies != nil {
		all = append(all, diagnoseProxies(*c.Proxies))
	}
	for _, s := range c.Links {
		if _, home := s.Link.(bridge.PeerHome); !home {
			all = append(all, diagnoseLink("link "+s.Link.Name(), s))
		}
	}
	for _, s := range c.Links {
		if _, home := s.Link.(bridge.PeerHome); home {
			all = append(all, diagnoseLink("peer "+s.Link.Name(), s))
		}
	}
	all = append(all, c.holds(ctx, time.Now())...)
	all = append(all, c.unsigned()...)
	if online {
		all = append(all, c.roundTrips(ctx)...)
	}
	return all
}

func fine(check, detail string) Diagnosis {
	return Diagnosis{Check: check, State: DiagnosisOK, Detail: detail}
}

func warns(check, detail, remedy string) Diagnosis {
	return Diagnosis{Check: check, State: DiagnosisWarn, Detail: detail, Remedy: remedy}
}

func fails(check, detail, remedy string) Diagnosis {
	return Diagnosis{Check: check, State: DiagnosisFail, Detail: detail, Remedy: remedy}
}

func diagnoseProxies(p bridge.Unforwarded) Diagnosis {
	const check = "proxies"
	if p.Unreadable == 0 && p.Unnamed == 0 {
		return fine(check, p.Header+" names every client")
	}
	return warns(check,
		fmt.Sprintf("%d requests refused for an unreadable %s, %d without it not subject to limits and blocks by address; the last at %s: %s",
			p.Unreadable, p.Header, p.Unnamed, p.At.UTC().Format(time.RFC3339), p.Last),
		"configure each proxy in http.trusted_proxies to add its client's address to "+p.Header+", or set http.forwarded_header and run: baton reload")
}

func (c Checkup) record(ctx context.Context) Diagnosis {
	if err := c.Record.Ready(ctx); err != nil {
		return fails("record", bridge.OneLine(err), recordRemedy(err))
	}
	if err := writeTest(c.Folder); err != nil {
		return fails("record", fmt.Sprintf("cannot write a test file of %d KiB beside it: %s", testBytes>>10, bridge.OneLine(err)), "free disk space: du -xh "+c.Folder+" | sort -h | tail")
	}
	if len(c.Unfinished) > 0 {
		return warns("record", "the erasure of "+c.Unfinished[0]+" was cut short", "baton erase "+c.Unfinished[0])
	}
	if c.UnfinishedErr != nil {
		return warns("record", "an erasure was cut short, and its file cannot be read: "+bridge.OneLine(c.UnfinishedErr), "make it readable: ls -l "+c.Folder)
	}
	return fine("record", "it is writable")
}

// Only a record in a file can be verified.
func recordRemedy(err error) string {
	if strings.Contains(err.Error(), "PostgreSQL") {
		return "start its server, or correct the file of store.dsn_file, and run: baton doctor"
	}
	return "baton verify"
}

// writeTest writes a file to a folder, syncs it and removes it. A small write to the record is not
// a sufficient test, because it may fit into allocated pages.
func writeTest(folder string) (err error) {
	file, err := os.CreateTemp(folder, ".write-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	text := make([]byte, testBytes)
	_, _ = rand.Read(text) // never fails; random, because a file system may compress
	if _, err := file.Write(text); err != nil {
		return err
	}
	return file.Sync()
}

func checkFsync(folder string) Diagnosis {
	file, err := os.CreateTemp(folder, ".fsync-*")
	if err != nil {
		return fails("fsync", bridge.OneLine(err), "make it writable for the user of the gateway: ls -ld "+folder)
	}
	defer os.Remove(file.Name())
	defer file.Close()
	var took []time.Duration
	for range fsyncs {
		start := time.Now()
		_, err := file.Write(make([]byte, 4096))
		if err = errors.Join(err, file.Sync()); err != nil {
			return fails("fsync", bridge.OneLine(err), "look at the disk: dmesg | tail")
		}
		took = append(took, time.Since(start))
	}
	slowest := slices.Max(took) // the 99th percentile of twenty
	detail := fmt.Sprintf("p99 of %d writes is %s", fsyncs, slowest.Round(10*time.Microsecond))
	if slowest > slowFsync {
		return warns("fsync", detail, "each step waits for one write; move data_dir to a faster disk than that of: findmnt -T "+folder)
	}
	return fine("fsync", detail)
}

func checkDisk(folder string) Diagnosis {
	free, ok := FreeDisk(folder)
	if !ok {
		return fails("disk", "cannot measure "+folder, "df "+folder)
	}
	detail := fmt.Sprintf("%d %% of the disk of %s are free", free, folder)
	if free < lowDisk {
		return warns("disk", detail, "free some, or shorten [retention] and run baton reload: du -xh "+folder+" | sort -h | tail")
	}
	return fine("disk", detail)
}

// FreeDisk returns the free percentage of the disk of a folder, and false if it is unknown.
func FreeDisk(folder string) (percent int, ok bool) {
	var disk unix.Statfs_t
	if err := unix.Statfs(folder, &disk); err != nil || disk.Blocks == 0 {
		return 0, false
	}
	return int(disk.Bavail * 100 / disk.Blocks), true //nolint:gosec // at most 100
}

func (c Checkup) permissions() Diagnosis {
	paths := slices.Clone(c.Secrets)
	for _, folder := range []string{c.Keys, c.Issued} {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fails("permissions", bridge.OneLine(err), "make it readable for the user of the gateway: ls -lR "+folder)
		}
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return fails("permissions", bridge.OneLine(err), "put the file back, and run: baton config check")
		}
		if info.Mode().Perm()&0o077 != 0 {
			return fails("permissions", fmt.Sprintf("others may read %s (mode %04o)", path, info.Mode().Perm()), "chmod 600 "+path)
		}
	}
	for _, path := range c.RecordFiles {
		if mode, loose := Loose(path); loose {
			return warns("permissions", fmt.Sprintf("other users can access %s (mode %04o)", path, mode), "chmod go= "+path)
		}
	}
	return fine("permissions", fmt.Sprintf("only the owner can read the %d files with secrets", len(paths)))
}

// Loose reports whether other users have access to a file or folder, and returns its mode.
func Loose(path string) (fs.FileMode, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	return info.Mode().Perm(), info.Mode().Perm()&0o077 != 0
}

func (c Checkup) clock(ctx context.Context) Diagnosis {
	if c.ClockDoubt != "" {
		return warns("clock", c.ClockDoubt+": nothing expires by it", "run timedatectl set-ntp true, or compare it with another clock and run: baton clock accept --reason compared")
	}
	ahead := c.Clocks(ctx)
	if len(ahead) == 0 {
		return fine("clock", "nobody to compare with")
	}
	whose := slices.MaxFunc(slices.Sorted(maps.Keys(ahead)), func(a, b string) int { return cmp.Compare(ahead[a].Abs(), ahead[b].Abs()) })
	detail := fmt.Sprintf("%.1f s ahead of the clock of %s, the largest difference among %d homes", ahead[whose].Seconds(), whose, len(ahead))
	if ahead[whose].Abs() > clockSkew {
		return warns("clock", detail, "tell the operator of "+whose+", or run NTP here: timedatectl set-ntp true")
	}
	return fine("clock", detail)
}

// The remedy ends with the command next.
func (c Checkup) certificate(now time.Time, next string) Diagnosis {
	remedy := "replace the files of tls.cert_file and tls.key_file with a valid pair, and run: " + next
	if c.Authority != "" {
		remedy = "let " + c.Authority + " reach the gateway on port 80 or 443 of each domain in tls.acme.domains, and run: " + next
	}
	if c.Certificate == nil {
		switch {
		case c.CertificateProblem != "":
			return fails("certificate", c.CertificateProblem, remedy)
		case c.Authority != "":
			return fine("certificate", "none is issued yet: the gateway orders it from "+c.Authority+" while it runs")
		}
		return fine("certificate", "none is configured: a proxy speaks TLS")
	}
	ends := c.Certificate.NotAfter
	detail := "good until " + Moment(ends).String()
	if now.After(ends) {
		detail = "expired at " + Moment(ends).String()
	}
	if c.CertificateProblem != "" {
		detail = c.CertificateProblem + "; the current one is " + detail
	}
	switch {
	case now.After(ends):
		return fails("certificate", detail, remedy)
	case c.CertificateProblem != "", ends.Sub(now) < shortValidity && c.Authority == "":
		return warns("certificate", detail, remedy)
	}
	return fine("certificate", detail)
}

func (c Checkup) did(ctx context.Context) Diagnosis {
	address, body, err := c.ownDocument(ctx, "/.well-known/did.json")
	remedy := "have it lead to http.listen: curl -v " + address
	if err != nil {
		return fails("did", bridge.OneLine(err), remedy)
	}
	key := strings.TrimPrefix(c.Key, "did:key:")
	if !bytes.Contains(body, []byte(key)) {
		return fails("did", address+" lacks the key "+key, remedy)
	}
	return fine("did", string(c.Home.DID())+" has our key "+key)
}

func (c Checkup) wellKnown(ctx context.Context) Diagnosis {
	address, body, err := c.ownDocument(ctx, federation.ProfilePath)
	remedy := "have it lead to http.listen: curl -v " + address
	if err != nil {
		return fails("well-known", bridge.OneLine(err), remedy)
	}
	profile, err := federation.ParseHomeProfile(body)
	if err != nil || profile.Home != c.Home {
		return fails("well-known", address+" is not the profile of "+string(c.Home), remedy)
	}
	return fine("well-known", address+" is ours")
}

func (c Checkup) ownDocument(ctx context.Context, path federation.URLPath) (address string, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, documentTime)
	defer cancel()
	if address, err = federation.JoinURL(federation.BaseURL(string(c.Home)), path, nil); err != nil {
		return "", nil, err
	}
	if body, err = c.Fetch(ctx, address); err != nil {
		return address, nil, fmt.Errorf("read %s: %w", address, err)
	}
	return address, body, nil
}

func (c Checkup) relay(remedy string) Diagnosis {
	if err := c.Relay(); err != nil {
		return fails("relay", bridge.OneLine(err), remedy)
	}
	if c.Hub == nil {
		return fine("relay", "reached; no hub is configured")
	}
	if err := c.Hub(); err != nil {
		return fails("relay", "hub: "+bridge.OneLine(err), remedy)
	}
	return fine("relay", "reached, and the hub too")
}

func diagnoseLink(check string, s bridge.LinkStatus) Diagnosis {
	words := s.Link.Network() + " " + string(s.Status.State)
	detail := words
	var d bridge.Description
	if describer, ok := s.Link.(bridge.Describer); ok {
		d = describer.Describe()
		if protocol := d.Negotiated["protocol"]; protocol != "" {
			detail += ", protocol " + protocol
		}
		if len(d.NotCarried) > 0 {
			detail += ", not carried: " + strings.Join(d.NotCarried, ", ")
		}
	}
	if s.Status.State == bridge.LinkUp || s.Status.State == bridge.LinkStandby {
		if d.Agent != nil && len(d.Obstacles) > 0 {
			return warns(check, detail+"; "+strings.Join(d.Obstacles, "; "), "baton a2a show "+s.Link.Name())
		}
		return fine(check, detail)
	}
	cause := cmp.Or(s.Status.LastError, "no connection since the start")
	if d.Agent != nil {
		return fails(check, cause+" ("+words+")", "baton a2a check "+d.Agent.Card)
	}
	if _, home := s.Link.(bridge.PeerHome); home {
		return fails(check, cause+" ("+words+")", "baton peer show "+s.Link.Name())
	}
	return fails(check, cause+" ("+words+")", "compare with the other side: baton link explain "+s.Link.Name())
}

func (c Checkup) holds(ctx context.Context, now time.Time) []Diagnosis {
	held, err := c.Record.Holds(ctx)
	if err != nil {
		return []Diagnosis{fails("holds", bridge.OneLine(err), "baton verify")}
	}
	var all []Diagnosis
	for _, h := range held {
		detail := fmt.Sprintf("nothing is delivered to it: an operator holds it for %s (%s)", now.Sub(h.Since).Round(time.Second), bridge.OneLine(errors.New(h.Reason)))
		all = append(all, warns("hold "+h.To, detail, "baton feed release "+h.To+" --reason done"))
	}
	for _, p := range c.Peers {
		if p.PeerHome != nil && p.Mode == "hold" {
			all = append(all, warns("hold "+p.Name, "nothing is delivered to it: its mode is hold", "baton peer mode "+p.Name+" allow --reason done"))
		}
	}
	return all
}

func (c Checkup) unsigned() []Diagnosis {
	var all []Diagnosis
	for _, p := range c.Peers {
		if p.Unsigned != "" {
			all = append(all, warns("unsigned "+p.Name, "its unsigned relays "+p.Unsigned+" take steps as its agents",
				"have it sign its relays, set unsigned = \"hold\", and run: baton reload"))
		}
	}
	return all
}

// Only homes answer canaries.
func (c Checkup) roundTrips(ctx context.Context) []Diagnosis {
	all := make([]Diagnosis, len(c.Links))
	var group fault.Group
	for i, s := range c.Links {
		check := "round trip " + s.Link.Name()
		if _, home := s.Link.(bridge.PeerHome); !home {
			all[i] = fine(check, s.Link.Network()+" carries none")
			continue
		}
		group.Go(func() {
			report, err := c.Canary.Send(ctx, federation.HomeID(s.Link.Name()))
			switch {
			case err != nil:
				all[i] = fails(check, bridge.OneLine(err), "baton peer show "+s.Link.Name())
			case !report.Green:
				all[i] = fails(check, report.Reason, "baton explain "+report.Handoff.String())
			default:
				all[i] = fine(check, "round trip "+report.Took.String())
			}
		})
	}
	group.Wait()
	return all
}

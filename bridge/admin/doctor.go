package admin

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"baton/bridge"
	"baton/federation"
	"baton/federation/fault"
	"baton/federation/peering"
	"baton/federation/store/registry"
)

// The bounds of the checks.
const (
	checkupTime   = 25 * time.Second // all of them
	documentTime  = 5 * time.Second  // one document
	fsyncs        = 20
	slowFsync     = 50 * time.Millisecond
	lowDisk       = 10 // percent
	testBytes     = 64 << 10
	shortValidity = 14 * 24 * time.Hour
)

// Checkup is a gateway as it is configured now, for baton doctor.
type Checkup struct {
	Home        federation.HomeID
	Key         string   // the did:key that signs now
	Folder      string   // data_dir
	RecordFiles []string // data_dir and its record files
	ClockDoubt  string   // why the clock is unconfirmed; "" if confirmed
	Unfinished  []string // DIDs with an unfinished erasure
	// UnfinishedErr is why the DID of an unfinished erasure is unknown; nil for none.
	UnfinishedErr error
	Secrets       []string          // the files with secrets that the configuration names
	Keys          string            // the folder of keys
	Certificate   *x509.Certificate // that handshakes present now; nil without one
	// CertificateProblem is why there is no newer certificate; "" for no problem.
	CertificateProblem string
	Authority          string // the ACME directory; "" for files

	Proxies *bridge.Unforwarded // nil without trusted proxies

	Record *registry.Record
	// Relay and Hub return at once why their server is away. Hub is nil without one.
	Relay, Hub func() error
	Links      []bridge.LinkStatus
	Peers      []Peer
	// Fetch returns the document at an address as other homes read it.
	Fetch  func(ctx context.Context, address string) ([]byte, error)
	Canary *peering.Canary
}

// Examine makes each check, and with online the ones that other homes take part in.
func (c Checkup) Examine(ctx context.Context, online bool) []Diagnosis {
	ctx, cancel := context.WithTimeout(ctx, checkupTime)
	defer cancel()
	all := []Diagnosis{
		c.record(ctx), checkFsync(c.Folder), checkDisk(c.Folder), c.permissions(), c.clock(), c.certificate(time.Now()),
		c.did(ctx), c.wellKnown(ctx), c.relay(),
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

// diagnoseProxies warns of requests for which a trusted proxy named no client.
func diagnoseProxies(p bridge.Unforwarded) Diagnosis {
	const check = "proxies"
	if p.Unreadable == 0 && p.Unnamed == 0 {
		return fine(check, p.Header+" names every client")
	}
	return warns(check,
		fmt.Sprintf("%d requests refused for an unreadable %s, %d without it not subject to limits and blocks by address; the last at %s: %s",
			p.Unreadable, p.Header, p.Unnamed, p.At.UTC().Format(time.RFC3339), p.Last),
		"configure each proxy in http.trusted_proxies to add its client's address to "+p.Header+", or set http.forwarded_header")
}

func (c Checkup) record(ctx context.Context) Diagnosis {
	if err := c.Record.Ready(ctx); err != nil {
		return fails("record", bridge.OneLine(err), "look at the disk and the log, and run baton verify")
	}
	if err := writeTest(c.Folder); err != nil {
		return fails("record", fmt.Sprintf("cannot write a test file of %d KiB beside it: %s", testBytes>>10, bridge.OneLine(err)), "free space on the disk of "+c.Folder)
	}
	if len(c.Unfinished) > 0 {
		return warns("record", "the erasure of "+c.Unfinished[0]+" was cut short", "run baton erase "+c.Unfinished[0]+" again")
	}
	if c.UnfinishedErr != nil {
		return warns("record", "an erasure was cut short, and its file cannot be read: "+bridge.OneLine(c.UnfinishedErr), "make the file readable")
	}
	return fine("record", "it takes writes")
}

// writeTest writes a file to a folder, syncs it and removes it. A small write to the record is no
// sufficient test, because it may fit into allocated pages.
func writeTest(folder string) (err error) {
	file, err := os.CreateTemp(folder, ".write-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	text := make([]byte, testBytes)
	_, _ = rand.Read(text) // never fails; random bytes, because a file system may compress
	if _, err := file.Write(text); err != nil {
		return err
	}
	return file.Sync()
}

// checkFsync measures how long the disk of a folder takes to keep a write.
func checkFsync(folder string) Diagnosis {
	file, err := os.CreateTemp(folder, ".fsync-*")
	if err != nil {
		return fails("fsync", bridge.OneLine(err), "make data_dir writable for the gateway")
	}
	defer os.Remove(file.Name())
	defer file.Close()
	var took []time.Duration
	for range fsyncs {
		start := time.Now()
		_, err := file.Write(make([]byte, 4096))
		if err = errors.Join(err, file.Sync()); err != nil {
			return fails("fsync", bridge.OneLine(err), "look at the disk")
		}
		took = append(took, time.Since(start))
	}
	slowest := slices.Max(took) // the 99th percentile of twenty
	detail := fmt.Sprintf("p99 of %d writes is %s", fsyncs, slowest.Round(10*time.Microsecond))
	if slowest > slowFsync {
		return warns("fsync", detail, "put data_dir on a faster disk: each step waits for one write")
	}
	return fine("fsync", detail)
}

// checkDisk measures how much of the disk of a folder is free.
func checkDisk(folder string) Diagnosis {
	var disk unix.Statfs_t
	if err := unix.Statfs(folder, &disk); err != nil || disk.Blocks == 0 {
		return fails("disk", "cannot measure "+folder, "look at the disk")
	}
	free := disk.Bavail * 100 / disk.Blocks
	detail := fmt.Sprintf("%d %% of the disk of %s are free", free, folder)
	if free < lowDisk {
		return warns("disk", detail, "free some, or shorten [retention]")
	}
	return fine("disk", detail)
}

// permissions checks that only the owner can read the files with secrets.
func (c Checkup) permissions() Diagnosis {
	paths := slices.Clone(c.Secrets)
	err := filepath.WalkDir(c.Keys, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fails("permissions", bridge.OneLine(err), "make the keys readable for the gateway")
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return fails("permissions", bridge.OneLine(err), "put the file back")
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
	return fine("permissions", fmt.Sprintf("the owner alone reads the %d files with secrets", len(paths)))
}

// Loose reports whether other users have access to a file or folder, and returns its mode.
func Loose(path string) (fs.FileMode, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	return info.Mode().Perm(), info.Mode().Perm()&0o077 != 0
}

// clock compares the clock with the clocks of the linked homes.
func (c Checkup) clock() Diagnosis {
	if c.ClockDoubt != "" {
		return warns("clock", c.ClockDoubt+": nothing expires by it", "run NTP here, or compare it with another clock and run baton clock accept")
	}
	compared, worst, whose := 0, 0.0, ""
	for _, p := range c.Peers {
		if p.PeerHome == nil || p.LastHeard.IsZero() {
			continue
		}
		compared++
		if skew := max(p.SkewSeconds, -p.SkewSeconds); skew >= worst {
			worst, whose = skew, p.Name
		}
	}
	if compared == 0 {
		return fine("clock", "nobody to compare with")
	}
	detail := fmt.Sprintf("at most %.1f s from the clocks of %d homes (%s)", worst, compared, whose)
	if worst > 30 {
		return warns("clock", detail, "run NTP here, or tell the operator of "+whose)
	}
	return fine("clock", detail)
}

// certificate checks how long the certificate of [tls] is good.
func (c Checkup) certificate(now time.Time) Diagnosis {
	remedy := "replace the files of tls.cert_file and tls.key_file with a valid pair, and run: baton reload"
	if c.Authority != "" {
		remedy = "let " + c.Authority + " reach the gateway on port 80 or 443 of each domain in tls.acme.domains, and run: baton reload"
	}
	if c.Certificate == nil {
		switch {
		case c.CertificateProblem != "":
			return fails("certificate", c.CertificateProblem, remedy)
		case c.Authority != "":
			return warns("certificate", "none is issued yet: "+c.Authority+" checks the domains", "baton doctor")
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

// did reads the document of the home as its peers do, and looks for the key that signs now.
func (c Checkup) did(ctx context.Context) Diagnosis {
	address, body, err := c.ownDocument(ctx, "/.well-known/did.json")
	remedy := "have " + address + " lead to http.listen"
	if err != nil {
		return fails("did", bridge.OneLine(err), remedy)
	}
	key := strings.TrimPrefix(c.Key, "did:key:")
	if !bytes.Contains(body, []byte(key)) {
		return fails("did", address+" lacks the key "+key, remedy)
	}
	return fine("did", string(c.Home.DID())+" has our key "+key)
}

// wellKnown reads the profile of the home as its peers do.
func (c Checkup) wellKnown(ctx context.Context) Diagnosis {
	address, body, err := c.ownDocument(ctx, federation.ProfilePath)
	remedy := "have " + address + " lead to http.listen"
	if err != nil {
		return fails("well-known", bridge.OneLine(err), remedy)
	}
	profile, err := federation.ParseHomeProfile(body)
	if err != nil || profile.Home != c.Home {
		return fails("well-known", address+" is not the profile of "+string(c.Home), remedy)
	}
	return fine("well-known", address+" is ours")
}

// ownDocument fetches a document of this home as its peers do.
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

func (c Checkup) relay() Diagnosis {
	if err := c.Relay(); err != nil {
		return fails("relay", bridge.OneLine(err), "look at [relay] and its server")
	}
	if c.Hub == nil {
		return fine("relay", "reached; no hub is configured")
	}
	if err := c.Hub(); err != nil {
		return fails("relay", "hub: "+bridge.OneLine(err), "run baton relay check")
	}
	return fine("relay", "reached, and the hub too")
}

// diagnoseLink tells whether a link is up, and what it speaks.
func diagnoseLink(check string, s bridge.LinkStatus) Diagnosis {
	detail := s.Link.Network() + " " + string(s.Status.State)
	if describer, ok := s.Link.(bridge.Describer); ok {
		d := describer.Describe()
		if protocol := d.Negotiated["protocol"]; protocol != "" {
			detail += ", protocol " + protocol
		}
		if len(d.NotCarried) > 0 {
			detail += ", not carried: " + strings.Join(d.NotCarried, ", ")
		}
	}
	if s.Status.State == bridge.LinkUp || s.Status.State == bridge.LinkStandby {
		return fine(check, detail)
	}
	if s.Status.LastError != "" {
		detail += ": " + s.Status.LastError
	}
	return fails(check, detail, "see baton link show "+s.Link.Name()+" and baton link explain "+s.Link.Name())
}

// unsigned warns of each registry with allowed unsigned messages.
func (c Checkup) unsigned() []Diagnosis {
	var all []Diagnosis
	for _, p := range c.Peers {
		if p.Unsigned != "" {
			all = append(all, warns("unsigned "+p.Name, "its unsigned relays "+p.Unsigned+" take steps as its agents",
				"keep its networks small, or have it sign its relays and set unsigned = \"hold\""))
		}
	}
	return all
}

// roundTrips offers a canary to each home, all at once. No other link can carry one.
func (c Checkup) roundTrips(ctx context.Context) []Diagnosis {
	all := make([]Diagnosis, len(c.Links))
	var group fault.Group
	for i, s := range c.Links {
		check := "round trip " + s.Link.Name()
		if _, home := s.Link.(bridge.PeerHome); !home {
			all[i] = warns(check, s.Link.Network()+" cannot carry one", "")
			continue
		}
		group.Go(func() {
			report, err := c.Canary.Send(ctx, federation.HomeID(s.Link.Name()))
			switch {
			case err != nil:
				all[i] = fails(check, bridge.OneLine(err), "look at the log")
			case !report.Green:
				all[i] = fails(check, report.Reason, "see baton explain "+report.Handoff.String())
			default:
				all[i] = fine(check, "there and back in "+report.Took.String())
			}
		})
	}
	group.Wait()
	return all
}

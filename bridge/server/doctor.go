package server

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/baton-gateway/baton/bridge/admin"
	"github.com/baton-gateway/baton/bridge/certificate"
	"github.com/baton-gateway/baton/configs"
	"github.com/baton-gateway/baton/federation"
	"github.com/baton-gateway/baton/federation/store/backup"
)

// ExamineStopped checks the prerequisites of a stopped gateway. It changes nothing, and blocks on
// the disk and the network for less than 30 seconds.
func ExamineStopped(ctx context.Context, file *configs.File, networks Networks) []admin.Diagnosis {
	stopped := admin.Stopped{
		Config:     file.Name(),
		ReadRecord: func(ctx context.Context) (string, error) { return readRecord(ctx, file) },
		ReadKeys:   func(ctx context.Context) error { _, err := KeyFolder(file).List(ctx); return err },
		Synced:     Synced(), LookUp: net.DefaultResolver.LookupHost, Names: ownNames(file),
	}
	if _, err := OpenLinks(file, networks, Wiring{}); err != nil {
		stopped.Mistakes = []string{err.Error()}
		if invalid, ok := errors.AsType[*configs.InvalidError](err); ok {
			stopped.Mistakes = nil
			for _, m := range invalid.Mistakes {
				stopped.Mistakes = append(stopped.Mistakes, m.String())
			}
		}
	}
	for _, l := range file.Listeners() {
		stopped.Listeners = append(stopped.Listeners, admin.StoppedListener{Key: l.Key, Address: l.Address})
	}
	clock := NewClock(ClockConfig{
		Wall: func() time.Time { return time.Now().Round(0) }, Uptime: Uptime(), Synced: Synced,
		Others: func(time.Time) []time.Duration { return nil }, Mark: file.Path(clockFile),
	}, nil)
	c := admin.Checkup{
		Home: federation.HomeID(file.Home.Name), Folder: file.Path("."), RecordFiles: recordFiles(file), ClockDoubt: clock.Doubt(),
		Secrets: file.SecretFiles(), Keys: KeyFolder(file).Dir, Issued: file.Path(acmeFolder), Relay: func() error { return nil },
	}
	c.Certificate, c.CertificateProblem, c.Authority = stoppedCertificate(file)
	meeting := readMeeting(file)
	if own := meeting.Own; len(own.URLs) > 0 {
		c.Relay = func() error { return own.Probe(ctx, c.Home) }
	}
	if hub := meeting.Hub; len(hub.URLs) > 0 {
		c.Hub = func() error { return hub.Probe(ctx, c.Home) }
	}
	return c.ExamineStopped(ctx, stopped)
}

// stoppedCertificate returns the certificate for the next start, its problem and the ACME
// directory, or zero values if none is configured.
func stoppedCertificate(file *configs.File) (leaf *x509.Certificate, problem, authority string) {
	if file.TLS.Mode == configs.ACMEMode {
		kept, err := certificate.NewAuthority(authorityConfig(file)).Kept()
		if err != nil {
			return nil, err.Error(), file.ACME.Directory
		}
		if kept != nil {
			leaf = kept.Leaf
		}
		return leaf, "", file.ACME.Directory
	}
	if file.TLS.CertFile == "" {
		return nil, "", ""
	}
	pair, err := configs.ReadPair(file.Path(file.TLS.CertFile), file.Path(file.TLS.KeyFile))
	if err != nil {
		return nil, err.Error(), ""
	}
	return pair.Leaf, "", ""
}

func readRecord(ctx context.Context, file *configs.File) (string, error) {
	if err := backup.CheckRestored(RestoreTarget(file)); err != nil {
		return "", err
	}
	at, err := Locate(file)
	if err != nil {
		return "", err
	}
	if at.DSN == "" {
		if _, err := os.Stat(at.Path); err != nil {
			return "", err
		}
	}
	planned, err := at.Upgrade(ctx, true, time.Now(), nil)
	if err != nil {
		return "", err
	}
	if planned.From == planned.To {
		return fmt.Sprintf("it can be read, and is of version %d", planned.To), nil
	}
	return planned.Sentence(true, at.DSN == "") + " at the next start", nil
}

func ownNames(file *configs.File) []string {
	names := []string{file.Home.Name}
	if u, err := url.Parse(file.HTTP.PublicURL); err == nil {
		names = append(names, u.Hostname())
	}
	if file.TLS.Mode == configs.ACMEMode {
		names = append(names, file.ACMEDomains()...)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		_, err := netip.ParseAddr(name)
		return err == nil || name == "" || name == "localhost"
	})
}

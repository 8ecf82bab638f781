package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/baton-gateway/baton/bridge"
	"github.com/baton-gateway/baton/bridge/certificate"
	"github.com/baton-gateway/baton/bridge/httpd"
	"github.com/baton-gateway/baton/configs"
)

const acmeFolder = "acme"

// With ACME, openCertificate reads the last issued certificate; the first one is ordered while the
// gateway is running.
func (s *Server) openCertificate() error {
	file := s.file
	if file.TLS.Mode != configs.ACMEMode {
		s.certificate = bridge.NewCertificate(file.Certificate(), nil)
		s.certificateFiles.Store(&file.TLS)
		s.certificates = certificate.NewKeeper(s.certificate, s.readCertificate, s.log)
		return nil
	}
	cfg := authorityConfig(file)
	if file.ACME.CAFile != "" {
		text, err := os.ReadFile(file.Path(file.ACME.CAFile))
		if err != nil {
			return fmt.Errorf("read tls.acme.ca_file: %w", err)
		}
		cfg.Roots = x509.NewCertPool()
		cfg.Roots.AppendCertsFromPEM(text)
	}
	s.authority = certificate.NewAuthority(cfg)
	kept, err := s.authority.Kept()
	if err != nil {
		return err
	}
	s.certificate = bridge.NewCertificate(kept, s.authority.Challenge)
	s.certificates = certificate.NewKeeper(s.certificate, s.authority.Current, s.log)
	s.publicMux.Handle("GET "+certificate.ChallengePath, s.authority)
	return nil
}

func authorityConfig(file *configs.File) certificate.AuthorityConfig {
	return certificate.AuthorityConfig{
		Directory: file.ACME.Directory, Email: file.ACME.Email, Domains: file.ACMEDomains(), Challenges: challenges(file),
		Folder: filepath.Join(file.Path(acmeFolder), authorityName(file.ACME.Directory)),
	}
}

// authorityName returns the folder of an ACME directory, which has its own accounts.
func authorityName(directory string) string {
	u, err := url.Parse(directory)
	if err != nil {
		return "unknown" // the configuration was checked
	}
	return strings.ReplaceAll(u.Host, ":", "_")
}

// challenges returns the ACME challenges that can reach this gateway. Without TLS, a proxy forwards
// HTTP-01.
func challenges(file *configs.File) []string {
	var kinds []string
	if file.HTTP.TLS {
		kinds = append(kinds, certificate.TLSALPN01)
	}
	if !file.HTTP.TLS || file.ACME.HTTPListen != "" {
		kinds = append(kinds, certificate.HTTP01)
	}
	return kinds
}

// readCertificate is the [certificate.Source] for files. It refuses an expired or not yet valid
// certificate.
func (s *Server) readCertificate(_ context.Context, now time.Time, _ *tls.Certificate) (*tls.Certificate, error) {
	files := s.certificateFiles.Load()
	if files.CertFile == "" {
		return nil, nil //nolint:nilnil // no certificate file is configured
	}
	certFile := s.file.Path(files.CertFile)
	pair, err := configs.ReadPair(certFile, s.file.Path(files.KeyFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certFile, err)
	}
	if err := configs.CheckValidity(pair.Leaf, now); err != nil {
		return nil, fmt.Errorf("%s: %w", certFile, err)
	}
	return pair, nil
}

func (s *Server) reloadCertificate(ctx context.Context, file *configs.File) {
	if s.authority != nil {
		s.authority.Retry()
		return
	}
	if file.TLS.Mode == configs.FilesMode {
		s.certificateFiles.Store(&file.TLS)
		s.certificates.Look(ctx, time.Now())
	}
}

// newCertificate returns the configured certificate, or nil, for opening links without a running
// gateway.
func newCertificate(file *configs.File) *bridge.Certificate {
	if !file.SpeaksTLS() {
		return nil
	}
	return bridge.NewCertificate(file.Certificate(), nil)
}

func (s *Server) openChallengeListener(ctx context.Context) error {
	if s.authority == nil {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+certificate.ChallengePath, s.authority)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "use "+s.file.HTTP.PublicURL, http.StatusForbidden)
			return
		}
		http.Redirect(w, r, strings.TrimSuffix(s.file.HTTP.PublicURL, "/")+r.URL.RequestURI(), http.StatusPermanentRedirect) //nolint:gosec // the host comes from the configured public URL
	})
	var err error
	s.challenges, err = openListener(ctx, httpd.Config{Listen: s.file.ACME.HTTPListen, Limits: s.httpLimits(), Panicked: s.handlerPanicked}, mux, s.log)
	return err
}

func (s *Server) servedLeaf() *x509.Certificate {
	if now := s.certificate.Current(); now != nil {
		return now.Leaf
	}
	return nil
}

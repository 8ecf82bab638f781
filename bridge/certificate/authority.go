package certificate

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
)

// ChallengePath is the path prefix of HTTP-01 challenges.
//
// spec: RFC 8555 §8.3
const ChallengePath = "/.well-known/acme-challenge/"

// Kinds of challenges.
const (
	HTTP01    = "http-01"     // on port 80
	TLSALPN01 = "tls-alpn-01" // on port 443
)

const (
	orderTime    = 5 * time.Minute // of one attempt
	firstRetry   = time.Minute     // doubles after each failure
	lastRetry    = time.Hour       // authorities allow five failed validations per hour
	renewAtMost  = 30 * 24 * time.Hour
	requestTime  = 30 * time.Second
	accountFile  = "account.key"
	keptFile     = "certificate.pem"
	cleaningTime = 10 * time.Second
)

// AuthorityConfig is the configuration of an [Authority].
type AuthorityConfig struct {
	Directory  string
	Email      string         // account contact; "" for none
	Domains    []string       // names in the certificate
	Folder     string         // stores the account key and the certificate
	Roots      *x509.CertPool // for TLS to the directory; nil for the system's authorities
	Challenges []string       // supported kinds, best first
}

// Authority orders certificates from an ACME server, answers its challenges, and stores the last
// certificate in a folder. It is safe for concurrent use.
type Authority struct {
	cfg  AuthorityConfig
	http *http.Client

	mu       sync.Mutex
	answers  map[string][]byte           // HTTP-01, by path
	proofs   map[string]*tls.Certificate // TLS-ALPN-01, by domain
	failures int                         // consecutive
	retryAt  time.Time
	last     error // of the last attempt
}

// NewAuthority returns an authority. It does no I/O.
func NewAuthority(cfg AuthorityConfig) *Authority {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:errcheck // the standard library documents the type
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.Roots}
	return &Authority{
		cfg: cfg, http: &http.Client{Transport: transport, Timeout: requestTime},
		answers: map[string][]byte{}, proofs: map[string]*tls.Certificate{},
	}
}

// Kept returns the last issued certificate, or nil if there is none for the domains. It returns
// errors of the disk.
func (a *Authority) Kept() (*tls.Certificate, error) {
	text, err := os.ReadFile(filepath.Join(a.cfg.Folder, keptFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no certificate has been issued
	}
	if err != nil {
		return nil, fmt.Errorf("read issued certificate: %w", err)
	}
	kept, err := tls.X509KeyPair(text, text)
	if err != nil || !a.covers(&kept) {
		return nil, nil //nolint:nilnil,nilerr // the next order replaces it
	}
	return &kept, nil
}

// Current is a [Source]. It orders a certificate if the served one lacks a domain, or if at most a
// third of its lifetime, and at most 30 days, is left. An order blocks for at most [orderTime].
// After a failure, Current returns the error until the next attempt, in a minute to an hour.
func (a *Authority) Current(ctx context.Context, now time.Time, served *tls.Certificate) (*tls.Certificate, error) {
	if served != nil && a.covers(served) && now.Before(renewal(served.Leaf)) {
		return served, nil
	}
	a.mu.Lock()
	last, wait := a.last, now.Before(a.retryAt)
	a.mu.Unlock()
	if wait {
		return nil, last
	}
	ctx, cancel := context.WithTimeout(ctx, orderTime)
	defer cancel()
	begun := time.Now()
	issued, err := a.order(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.failures, a.retryAt, a.last = 0, time.Time{}, nil
		return issued, nil
	}
	a.last = fmt.Errorf("order a certificate from %s: %w", a.cfg.Directory, err)
	a.retryAt = now.Add(time.Since(begun) + min(firstRetry<<min(a.failures, 10), lastRetry))
	a.failures++
	return nil, a.last
}

// Retry ends the wait after a failed order.
func (a *Authority) Retry() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures, a.retryAt = 0, time.Time{}
}

func renewal(leaf *x509.Certificate) time.Time {
	return leaf.NotAfter.Add(-min(leaf.NotAfter.Sub(leaf.NotBefore)/3, renewAtMost))
}

func (a *Authority) covers(c *tls.Certificate) bool {
	return !slices.ContainsFunc(a.cfg.Domains, func(domain string) bool { return c.Leaf.VerifyHostname(domain) != nil })
}

func (a *Authority) order(ctx context.Context) (*tls.Certificate, error) {
	client, err := a.account(ctx)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, kind := range a.cfg.Challenges {
		issued, err := a.orderBy(ctx, client, kind)
		if err == nil {
			return issued, nil
		}
		failed = append(failed, fmt.Errorf("%s: %w", kind, err))
		if _, refused := errors.AsType[*acme.AuthorizationError](err); !refused {
			break // another kind of challenge would not help
		}
	}
	return nil, errors.Join(failed...)
}

func (a *Authority) account(ctx context.Context) (*acme.Client, error) {
	key, err := a.accountKey()
	if err != nil {
		return nil, err
	}
	client := &acme.Client{Key: key, DirectoryURL: a.cfg.Directory, HTTPClient: a.http, UserAgent: "baton", RetryBackoff: pause}
	account := &acme.Account{}
	if a.cfg.Email != "" {
		account.Contact = []string{"mailto:" + a.cfg.Email}
	}
	if _, err := client.Register(ctx, account, acme.AcceptTOS); err != nil && !errors.Is(err, acme.ErrAccountAlreadyExists) {
		return nil, fmt.Errorf("register: %w", err)
	}
	return client, nil
}

// A result of 0 makes the client return the error, because the operator waits for it.
func pause(failures int, _ *http.Request, _ *http.Response) time.Duration {
	if failures > 3 {
		return 0
	}
	return time.Duration(failures) * time.Second
}

func (a *Authority) orderBy(ctx context.Context, client *acme.Client, kind string) (*tls.Certificate, error) {
	order, err := client.AuthorizeOrder(ctx, acme.DomainIDs(a.cfg.Domains...))
	if err != nil {
		return nil, err
	}
	for _, url := range order.AuthzURLs {
		if err := a.authorize(ctx, client, url, kind); err != nil {
			a.abandon(ctx, client, order)
			return nil, err
		}
	}
	if order, err = client.WaitOrder(ctx, order.URI); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: a.cfg.Domains}, key)
	if err != nil {
		return nil, err
	}
	chain, _, err := client.CreateCertFromOrder(ctx, order, request, true)
	if err != nil {
		return nil, err
	}
	return a.keep(chain, key)
}

func (a *Authority) authorize(ctx context.Context, client *acme.Client, url, kind string) error {
	authorization, err := client.GetAuthorization(ctx, url)
	if err != nil || authorization.Status == acme.StatusValid {
		return err
	}
	domain := authorization.Identifier.Value
	i := slices.IndexFunc(authorization.Challenges, func(c *acme.Challenge) bool { return c.Type == kind })
	if i < 0 {
		return fmt.Errorf("the authority offers no such challenge for %s", domain)
	}
	challenge := authorization.Challenges[i]
	withdraw, err := a.answer(client, challenge, domain)
	if err != nil {
		return err
	}
	defer withdraw()
	if _, err := client.Accept(ctx, challenge); err != nil {
		return err
	}
	_, err = client.WaitAuthorization(ctx, url)
	return err
}

// The answer is published until withdraw is called.
func (a *Authority) answer(client *acme.Client, challenge *acme.Challenge, domain string) (withdraw func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if challenge.Type == HTTP01 {
		text, err := client.HTTP01ChallengeResponse(challenge.Token)
		path := client.HTTP01ChallengePath(challenge.Token)
		a.answers[path] = []byte(text)
		return func() { a.mu.Lock(); defer a.mu.Unlock(); delete(a.answers, path) }, err
	}
	proof, err := client.TLSALPN01ChallengeCert(challenge.Token, domain)
	a.proofs[domain] = &proof
	return func() { a.mu.Lock(); defer a.mu.Unlock(); delete(a.proofs, domain) }, err
}

// abandon deactivates the pending authorizations of a failed order, because they count against an
// account limit.
func (a *Authority) abandon(ctx context.Context, client *acme.Client, order *acme.Order) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaningTime)
	defer cancel()
	for _, url := range order.AuthzURLs {
		if authorization, err := client.GetAuthorization(ctx, url); err == nil && authorization.Status == acme.StatusPending {
			_ = client.RevokeAuthorization(ctx, url) // it also expires
		}
	}
}

// Challenge returns the certificate that answers a TLS-ALPN-01 challenge.
func (a *Authority) Challenge(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if proof := a.proofs[hello.ServerName]; proof != nil {
		return proof, nil
	}
	return nil, fmt.Errorf("no challenge is open for %q", hello.ServerName)
}

// ServeHTTP answers HTTP-01 challenges below [ChallengePath].
func (a *Authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	text, open := a.answers[r.URL.Path]
	a.mu.Unlock()
	if !open {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = w.Write(text) // the authority retries
}

func (a *Authority) accountKey() (crypto.Signer, error) {
	path := filepath.Join(a.cfg.Folder, accountFile)
	text, err := os.ReadFile(path) //nolint:gosec // below data_dir
	if errors.Is(err, fs.ErrNotExist) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		block, err := keyBlock(key)
		return key, cmp.Or(err, a.write(accountFile, block))
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of the account: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("read the key of the account: %s has no PEM", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	signer, ok := key.(crypto.Signer)
	if err != nil || !ok {
		return nil, fmt.Errorf("read the key of the account: %s: %w", path, cmp.Or(err, errors.New("the key cannot sign")))
	}
	return signer, nil
}

func (a *Authority) keep(chain [][]byte, key *ecdsa.PrivateKey) (*tls.Certificate, error) {
	text, err := keyBlock(key)
	if err != nil {
		return nil, err
	}
	for _, der := range chain {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	issued, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, fmt.Errorf("issued certificate: %w", err)
	}
	return &issued, a.write(keptFile, text)
}

func keyBlock(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

func (a *Authority) write(name string, text []byte) error {
	if err := os.MkdirAll(a.cfg.Folder, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(a.cfg.Folder, "."+name+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return os.Rename(file.Name(), filepath.Join(a.cfg.Folder, name))
}

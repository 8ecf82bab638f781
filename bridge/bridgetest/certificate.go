package bridgetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

const certificateLife = 24 * time.Hour

// NewCertificate returns a self-signed certificate for the given names.
func NewCertificate(name string, others ...string) (tls.Certificate, error) {
	return NewCertificateUntil(time.Now().Add(certificateLife), name, others...)
}

// NewCertificateUntil is [NewCertificate] with an expiry time.
func NewCertificateUntil(ends time.Time, name string, others ...string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make key: %w", err)
	}
	begins := time.Now()
	if ends.Before(begins) {
		begins = ends
	}
	begins = begins.Add(-time.Hour)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: append(others, name),
		NotBefore: begins, NotAfter: ends,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// Fingerprint returns a certificate's fingerprint for IRC servers: the SHA-256 of its DER in
// lower-case hex.
func Fingerprint(cert tls.Certificate) string {
	sum := sha256.Sum256(cert.Certificate[0])
	return hex.EncodeToString(sum[:])
}

// WriteCertificate writes a certificate and its key as PEM files into a directory.
func WriteCertificate(dir string, cert tls.Certificate) (certFile, keyFile string, err error) {
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return "", "", fmt.Errorf("write key: %w", err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write := func(file, kind string, der []byte) error {
		return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
	}
	err = errors.Join(write(certFile, "CERTIFICATE", cert.Certificate[0]), write(keyFile, "PRIVATE KEY", key))
	return certFile, keyFile, err
}

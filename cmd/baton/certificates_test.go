package main_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	"baton/bridge/bridgetest"
)

// certified is a certificate of one or more names, and where its files are.
type certified struct {
	certificate       tls.Certificate
	certFile, keyFile string
}

func certify(t *testing.T, h *house, name string, others ...string) certified {
	t.Helper()
	dir := filepath.Join(h.dir, "certificate of "+name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	certificate, err := bridgetest.NewCertificate(name, others...)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile, err := bridgetest.WriteCertificate(dir, certificate)
	if err != nil {
		t.Fatal(err)
	}
	return certified{certificate, certFile, keyFile}
}

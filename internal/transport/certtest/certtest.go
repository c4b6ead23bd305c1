// Package certtest makes certificates for tests.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

var serial atomic.Int64

// New makes an authority.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, key: newKey(t)}
	a.cert = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(24 * time.Hour),
	}, a.key)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *Authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	a.t.Helper()
	template.SerialNumber = big.NewInt(serial.Add(1))
	template.NotBefore = time.Now().Add(-48 * time.Hour)
	parent := a.cert
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

// Pool holds the authority, for whoever trusts it.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// File writes the authority's certificate into dir.
func (a *Authority) File(dir string) string { return a.write(dir, "ca.pem", "CERTIFICATE", a.cert.Raw) }

// Pair is a certificate with its key.
type Pair struct {
	a    *Authority
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Issue makes a certificate for localhost with that common name, which change may change.
func (a *Authority) Issue(name string, change ...func(*x509.Certificate)) *Pair {
	a.t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	for _, f := range change {
		f(template)
	}
	key := newKey(a.t)
	return &Pair{a, a.sign(template, key), key}
}

// TLS is the pair as crypto/tls takes it.
func (p *Pair) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{p.cert.Raw}, PrivateKey: p.key}
}

// Files writes the pair into dir, over what an earlier one has left there.
func (p *Pair) Files(dir string) (cert, key string) {
	p.a.t.Helper()
	der, err := x509.MarshalECPrivateKey(p.key)
	if err != nil {
		p.a.t.Fatal(err)
	}
	return p.a.write(dir, "cert.pem", "CERTIFICATE", p.cert.Raw), p.a.write(dir, "key.pem", "EC PRIVATE KEY", der)
}

func (a *Authority) write(dir, name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

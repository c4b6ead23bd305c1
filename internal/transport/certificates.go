package transport

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"emanet/internal/disk"
)

// Files are what TLS listeners show and ask for, PEM.
type Files struct {
	Cert, Key  string
	ClientCA   string // "": clients are not asked for certificates
	ClientAuth tls.ClientAuthType
	User       UserFrom
}

// UserFrom says what of a client certificate is the user name.
type UserFrom int

// Nothing; the subject's common name; the first DNS name, else the first e-mail address, else the first URI among
// the alternative names.
const (
	UserNone UserFrom = iota
	UserCN
	UserSAN
)

// Certificates are what the files held when they were last read with success. Connections keep what they began with.
type Certificates struct {
	files Files
	now   atomic.Pointer[loaded]

	ok, failed atomic.Uint64 // reads

	mu      sync.Mutex
	marks   []mark // of the files as they were last read, with success or not
	pending []mark // of files that have changed and may still be changing
}

type loaded struct {
	config *tls.Config
	leaf   *x509.Certificate
}

// mark tells one state of a file from another.
type mark struct {
	modified time.Time
	size     int64
}

// LoadCertificates reads the files.
func LoadCertificates(files Files) (*Certificates, error) {
	c := &Certificates{files: files}
	if err := c.Reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// Reload reads the files again. An error keeps what there is.
func (c *Certificates) Reload() error {
	c.mu.Lock()
	c.marks, c.pending = c.look(), nil // before they are read: a change in between shows later
	c.mu.Unlock()
	l, err := c.load()
	if err != nil {
		c.failed.Add(1)
		return err
	}
	c.now.Store(l)
	c.ok.Add(1)
	return nil
}

// Reloads counts how often the files were read again, and how often in vain.
func (c *Certificates) Reloads() (ok, failed uint64) { return c.ok.Load() - 1, c.failed.Load() }

// Config is for the next connection. Each Reload makes one with ticket keys of its own: a session of before, and
// with it a client certificate of before, is not resumed.
func (c *Certificates) Config() *tls.Config { return c.now.Load().config }

// Leaf is the certificate that clients are shown.
func (c *Certificates) Leaf() *x509.Certificate { return c.now.Load().leaf }

func (c *Certificates) load() (*loaded, error) {
	pair, err := loadPair(c.files.Cert, c.files.Key)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		ClientAuth:   c.files.ClientAuth,
		// Records of full size: what is written here is a batch, and nobody waits for its first bytes.
		DynamicRecordSizingDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return nil
			}
			_, err := c.user(state.PeerCertificates[0])
			return err
		},
	}
	if c.files.ClientCA != "" {
		text, err := read(c.files.ClientCA)
		if err != nil {
			return nil, err
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(text) {
			return nil, &disk.FileError{Name: c.files.ClientCA, Err: errNoCertificate}
		}
	}
	return &loaded{config, pair.Leaf}, nil
}

// loadPair reads a certificate and its key. An error is the key's only where the certificate is in order.
func loadPair(cert, key string) (tls.Certificate, error) {
	certText, err := read(cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	if err := checkCertificate(certText); err != nil {
		return tls.Certificate{}, &disk.FileError{Name: cert, Err: err}
	}
	keyText, err := read(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		return tls.Certificate{}, &disk.FileError{Name: key, Err: fmt.Errorf("with %s: %w", cert, err)}
	}
	return pair, nil
}

// read reads a file that can be read without waiting for anybody.
func read(name string) ([]byte, error) {
	err := disk.CheckRegular(name)
	if err != nil {
		return nil, &disk.FileError{Name: name, Err: err}
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, &disk.FileError{Name: name, Err: errors.Unwrap(err)} // the name is known
	}
	return text, nil
}

var errNoCertificate = errors.New("holds no certificate")

// checkCertificate looks at the first certificate, which is the one that the key belongs to.
func checkCertificate(text []byte) error {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return errNoCertificate
		}
		if block.Type == "CERTIFICATE" {
			_, err := x509.ParseCertificate(block.Bytes)
			return err
		}
	}
}

// look marks the files; what cannot be read has the zero mark.
func (c *Certificates) look() []mark {
	marks := make([]mark, 0, 3)
	for _, name := range []string{c.files.Cert, c.files.Key, c.files.ClientCA} {
		var m mark
		if info, err := os.Stat(name); err == nil {
			m = mark{info.ModTime(), info.Size()}
		}
		marks = append(marks, m)
	}
	return marks
}

// Changed tells whether the files are others than were last read, and stay as they are since the last call: one of a
// pair may have been written and the other not yet.
func (c *Certificates) Changed() bool {
	marks := c.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	if equal(marks, c.marks) {
		c.pending = nil
		return false
	}
	settled := equal(marks, c.pending)
	c.pending = marks
	return settled
}

func equal(a, b []mark) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].modified.Equal(b[i].modified) || a[i].size != b[i].size {
			return false
		}
	}
	return true
}

// errNoName refuses a certificate that has no user name where one is wanted.
var errNoName = errors.New("the client's certificate has no user name where it should have one")

// user is the user name that a client certificate gives.
func (c *Certificates) user(leaf *x509.Certificate) (string, error) {
	name := ""
	switch c.files.User {
	case UserNone:
		return "", nil
	case UserCN:
		name = leaf.Subject.CommonName
	case UserSAN:
		switch {
		case len(leaf.DNSNames) > 0:
			name = leaf.DNSNames[0]
		case len(leaf.EmailAddresses) > 0:
			name = leaf.EmailAddresses[0]
		case len(leaf.URIs) > 0:
			name = leaf.URIs[0].String()
		}
	}
	if name == "" {
		return "", errNoName
	}
	return name, nil
}

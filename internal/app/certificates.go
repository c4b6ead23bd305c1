package app

import (
	"context"
	"crypto/tls"
	"time"

	"emanet/internal/config"
	"emanet/internal/transport"
)

// certificates are what the listeners over TLS share: loaded is nil before the part has started.
type certificates struct {
	loaded *transport.Certificates
	warned time.Time // of a certificate that ends soon
}

const (
	certificatesName = "certificates"
	// watchInterval is how often the files are looked at.
	watchInterval = 5 * time.Second
	// A certificate that has less than expirySoon to go is warned of, at every start and then every expiryAgain.
	expirySoon  = 14 * 24 * time.Hour
	expiryAgain = 24 * time.Hour
)

// certificatesPart reads the files that --tls-cert and its kin name, and again when they change or a SIGHUP comes;
// the zero Part when no listener is over TLS.
func certificatesPart(cfg config.Serve, host *Host, c *certificates) Part {
	on := false
	for _, l := range cfg.Listeners() {
		on = on || l.Secure && l.Address.On()
	}
	if !on {
		return Part{}
	}
	var stop context.CancelFunc
	done := make(chan struct{})
	return Part{
		Name: certificatesName,
		Start: func(context.Context) error {
			var err error
			if c.loaded, err = transport.LoadCertificates(certificateFiles(cfg.TLS)); err != nil {
				return badFile(err, map[string]string{cfg.TLS.ClientCA: "tls-client-ca", cfg.TLS.Key: "tls-key", cfg.TLS.Cert: "tls-cert"})
			}
			c.lookAtExpiry(host)
			host.Metrics.Add(c.samples)
			host.OnReload(certificatesName, c.loaded.Reload)
			var ctx context.Context
			ctx, stop = context.WithCancel(context.Background())
			go func() {
				defer close(done)
				c.watch(ctx, host, watchInterval)
			}()
			return nil
		},
		Stop: func(context.Context) error {
			stop()
			<-done
			return nil
		},
	}
}

func certificateFiles(cfg config.TLS) transport.Files {
	files := transport.Files{Cert: cfg.Cert, Key: cfg.Key, ClientCA: cfg.ClientCA}
	switch cfg.ClientAuth {
	case config.ClientAuthOptional:
		files.ClientAuth = tls.VerifyClientCertIfGiven
	case config.ClientAuthRequire:
		files.ClientAuth = tls.RequireAndVerifyClientCert
	}
	switch cfg.User {
	case config.CertUserCN:
		files.User = transport.UserCN
	case config.CertUserSAN:
		files.User = transport.UserSAN
	}
	return files
}

// watch follows the files until ctx ends.
func (c *certificates) watch(ctx context.Context, host *Host, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if c.loaded.Changed() {
			if err := c.loaded.Reload(); err != nil {
				host.Log.Error("new certificate files cannot be used; what was there stays", "err", err)
				host.Health.Warn(certificatesName, err.Error())
			} else {
				host.Log.Info("certificates read again", "subject", c.loaded.Leaf().Subject.String(), "until", c.loaded.Leaf().NotAfter)
				host.Health.Clear(certificatesName)
			}
		}
		c.lookAtExpiry(host)
	}
}

// lookAtExpiry warns in the log of a certificate that ends soon.
func (c *certificates) lookAtExpiry(host *Host) {
	leaf := c.loaded.Leaf()
	left := time.Until(leaf.NotAfter)
	if left >= expirySoon {
		c.warned = time.Time{}
		return
	}
	if !c.warned.IsZero() && time.Since(c.warned) < expiryAgain {
		return
	}
	c.warned = time.Now()
	text := "the certificate of the TLS listeners expires soon"
	if left <= 0 {
		text = "the certificate of the TLS listeners has expired"
	}
	host.Log.Warn(text, "subject", leaf.Subject.String(), "until", leaf.NotAfter, "days", int(left.Hours()/24))
}

func (c *certificates) samples(emit func(Sample)) {
	emit(Sample{Name: "emanet_tls_certificate_expiry_seconds", Kind: Gauge, Value: time.Until(c.loaded.Leaf().NotAfter).Seconds(),
		Help: "Time until the certificate of the TLS listeners expires; negative when it has."})
	ok, failed := c.loaded.Reloads()
	const name, help = "emanet_tls_reloads_total", "Times the certificate files were read again; failed when they could not be used."
	emit(Sample{Name: name, Help: help, Kind: Counter, Value: float64(ok), Labels: []string{"result", "ok"}})
	emit(Sample{Name: name, Help: help, Kind: Counter, Value: float64(failed), Labels: []string{"result", "failed"}})
}

package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"emanet/internal/auth"
	"emanet/internal/config"
)

// users are the users of all servers, and whom to tell when they have changed. The zero value stands for none.
type users struct {
	*auth.Users // nil when none are configured

	mu    sync.Mutex
	hooks []func()
}

// usersInterval is how often the files are looked at. A change is read at the second look that finds it.
const usersInterval = time.Second

// onChange has hook called after each reload.
func (u *users) onChange(hook func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.hooks = append(u.hooks, hook)
}

// usersPart reads the files, and reads them again when they change or when a reload is asked for. It comes before
// whatever lets somebody in. It is the zero Part when no file is named.
func usersPart(cfg config.Serve, host *Host, u *users) Part {
	if !cfg.HasUsers() && !cfg.TLS.NamesUsers() && cfg.ACL == "" {
		return Part{}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	return Part{
		Name: "users",
		Start: func(context.Context) error {
			var err error
			if u.Users, err = auth.Open(userFiles(cfg)); err != nil {
				return badFile(err, map[string]string{cfg.ACL: "acl", cfg.MosquittoPasswords: "mosquitto-passwords", cfg.Users: "users"})
			}
			u.log(host)
			host.OnReload("users", func() error { return u.reload(host) })
			host.Metrics.Add(u.samples)
			go func() {
				defer close(done)
				u.watch(host, quit)
			}()
			return nil
		},
		Stop: func(context.Context) error {
			close(quit)
			<-done
			return nil
		},
	}
}

func userFiles(cfg config.Serve) auth.Files {
	return auth.Files{
		Users: cfg.Users, Passwords: cfg.MosquittoPasswords, ACL: cfg.ACL,
		Certificates: cfg.TLS.NamesUsers(),
		// Where no file has users whoever has no certificate comes without a name: from this machine, or because
		// --allow-anonymous says so.
		Anonymous: cfg.AllowAnonymous || !cfg.HasUsers(),
		DelayMax:  cfg.LoginDelayMax,
	}
}

func (u *users) log(host *Host) {
	names, rules := u.Sizes()
	host.Log.Info("users read", "users", names, "rules", rules)
}

// reload reads the files; after an error the old rules stay.
func (u *users) reload(host *Host) error {
	if err := u.Reload(); err != nil {
		return err
	}
	u.log(host)
	u.mu.Lock()
	hooks := u.hooks
	u.mu.Unlock()
	for _, hook := range hooks {
		hook()
	}
	return nil
}

func (u *users) watch(host *Host, quit <-chan struct{}) {
	tick := time.NewTicker(usersInterval)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		if !u.Changed() {
			continue
		}
		if err := u.reload(host); err != nil {
			host.Log.Error("the files of users have changed and cannot be used; the old rules stay", "err", err)
			host.Health.Warn("users", fmt.Sprintf("reload: %v", err))
			continue
		}
		host.Health.Clear("users")
	}
}

// samples are the figures of logins.
func (u *users) samples(emit func(Sample)) {
	n := u.LoginCounters()
	const logins, help = "emanet_logins_total", "Logins by how they ended."
	for _, c := range []struct {
		result, by string
		value      uint64
	}{
		{"ok", "password", n.Passwords.Load()},
		{"ok", "certificate", n.Certificates.Load()},
		{"ok", "anonymous", n.Anonymous.Load()},
		{"failed", "wrong_password", n.WrongPassword.Load()},
		{"failed", "unknown_user", n.UnknownUser.Load()},
		{"failed", "no_credentials", n.NoCredentials.Load()},
		{"failed", "gone", n.Gone.Load()},
	} {
		emit(Sample{Name: logins, Help: help, Kind: Counter, Value: float64(c.value), Labels: []string{"result", c.result, "by", c.by}})
	}
	emit(Sample{Name: "emanet_logins_cached_total", Help: "Logins with a password that was found right before, and not hashed again.",
		Kind: Counter, Value: float64(n.Proven.Load())})
	emit(Sample{Name: "emanet_logins_delayed_total", Help: "Logins and refusals that waited for earlier failures from their address.",
		Kind: Counter, Value: float64(n.Delayed.Load())})
	emit(Sample{Name: "emanet_logins_waiting", Help: "Passwords that wait to be checked, or are being.",
		Kind: Gauge, Value: float64(u.LoginsWaiting())})
	names, rules := u.Sizes()
	emit(Sample{Name: "emanet_users", Help: "Users who can log in by a password.", Kind: Gauge, Value: float64(names)})
	emit(Sample{Name: "emanet_acl_rules", Help: "Rules about topics, patterns included.", Kind: Gauge, Value: float64(rules)})
}

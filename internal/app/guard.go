package app

import (
	"errors"
	"net/http"
	"net/netip"

	"emanet/internal/auth"
	"emanet/internal/config"
)

// guard lets only users in that are to watch the broker, where users can log in and the listener can be reached from
// other machines. What a load balancer and a supervisor ask for stays open.
func (u *users) guard(cfg config.Serve, address config.Address) func(http.Handler) http.Handler {
	if !cfg.HasUsers() || address.Loopback() {
		return func(open http.Handler) http.Handler { return open }
	}
	return func(guarded http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch err := u.mayWatch(r); {
			case err == nil:
				guarded.ServeHTTP(w, r)
			case errors.Is(err, errNotTagged):
				answer(w, http.StatusForbidden, err.Error())
			default:
				w.Header().Set("WWW-Authenticate", `Basic realm="emanet", charset="UTF-8"`)
				answer(w, http.StatusUnauthorized, err.Error())
			}
		})
	}
}

var errNotTagged = errors.New("the user has neither of the tags " + auth.TagMonitoring + " and " + auth.TagAdministrator)

func (u *users) mayWatch(r *http.Request) error {
	name, password, given := r.BasicAuth()
	if !given {
		return auth.ErrAnonymous
	}
	attempt := auth.Attempt{User: name, Password: []byte(password), HasUser: true, HasPassword: true}
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		attempt.Address = peer.Addr()
	}
	login, err := u.Login(attempt, r.Context().Done())
	if err != nil {
		return err
	}
	if !u.Tagged(login, auth.TagMonitoring, auth.TagAdministrator) {
		return errNotTagged
	}
	return nil
}

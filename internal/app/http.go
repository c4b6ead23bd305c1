package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"emanet/internal/config"
	"emanet/internal/transport"
)

// site is what the HTTP listeners serve, all of them the same: what operators and their monitors ask for, and MQTT
// over WebSocket.
type site struct {
	host      *Host
	core      *core
	webSocket transport.WebSocket

	max        atomic.Int64 // connections that are not WebSocket
	open       atomic.Int64
	idle       idleConns
	refused    atomic.Uint64 // for being too many
	unprepared atomic.Uint64
}

// The limits on HTTP peers. Every request here is a line and some headers, so
// that whoever needs longer than this is not a monitor. A connection that has become a WebSocket is the MQTT
// server's, whose limits hold for it.
const (
	httpHeaderTimeout = 5 * time.Second
	httpIdleTimeout   = time.Minute
	httpHeaderBytes   = 16 << 10
	httpStopTimeout   = time.Second // of what the parts after it need as well
)

func newSite(cfg config.Serve, host *Host, c *core) *site {
	s := &site{host: host, core: c}
	s.max.Store(int64(cfg.MaxConnections))
	host.OnConfig(func(cfg config.Serve) { s.max.Store(int64(cfg.MaxConnections)) })
	s.webSocket.Serve = c.serveConn
	s.webSocket.MaxFrame = int64(cfg.WS.MaxFrameBytes)
	s.webSocket.Origins = cfg.WS.Origins
	s.webSocket.Refused = s.logRefused
	return s
}

// handler takes what stands before whatever tells more than that the process lives. MQTT looks after itself.
func (s *site) handler(guard func(http.Handler) http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.host.Health.serveHealth)
	mux.HandleFunc("GET /readyz", s.host.Health.serveReady)
	mux.Handle("GET /metrics", guard(promhttp.HandlerFor(s.host.Metrics.registry, promhttp.HandlerOpts{})))
	mux.HandleFunc("GET "+webSocketPath, func(w http.ResponseWriter, r *http.Request) {
		if s.core.mqtt.Load() == nil {
			http.Error(w, "the broker is starting or stopping", http.StatusServiceUnavailable)
			return
		}
		s.webSocket.ServeHTTP(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// net/http has asked for the address before the PROXY header was read.
		if nc, ok := r.Context().Value(connKey{}).(net.Conn); ok {
			r.RemoteAddr = nc.RemoteAddr().String()
		}
		if r.URL.Path != webSocketPath && transport.WantsWebSocket(r) {
			s.refuseWebSocketPath(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// webSocketPath is where MQTT over WebSocket is.
const webSocketPath = "/mqtt"

// refuseWebSocketPath tells a client, and whoever reads the log, what most clients keep to themselves: other brokers
// take MQTT at any path.
func (s *site) refuseWebSocketPath(w http.ResponseWriter, r *http.Request) {
	why := fmt.Sprintf("the path is %.200q, and MQTT over WebSocket is at %s", r.URL.Path, webSocketPath)
	s.webSocket.Rejected.Add(1)
	s.logRefused(r, why)
	answer(w, http.StatusNotFound, why)
}

// httpPart is one listener of the site's; the zero Part when it is off.
func httpPart(cfg config.Serve, host *Host, flag string, s *site, certs *certificates) Part {
	l := cfg.Listener(flag)
	if !l.Address.On() {
		return Part{}
	}
	tcp := listen(l, cfg, certs)
	open := func(ctx context.Context) (net.Listener, error) {
		socket, err := tcp(ctx)
		if err != nil {
			return nil, err
		}
		layered := socket.(*transport.Listener)
		layered.HTTP, layered.Failed = httpHeaderTimeout, s.countUnprepared
		return layered, nil
	}
	return listenerPart(host, flag, open, func() Server { return newHTTPServer(s, s.core.users.guard(cfg, l.Address)) })
}

// httpServer serves the site on one listener.
type httpServer struct {
	server *http.Server
}

func newHTTPServer(s *site, guard func(http.Handler) http.Handler) *httpServer {
	return &httpServer{&http.Server{
		Handler:           s.handler(guard),
		ReadHeaderTimeout: httpHeaderTimeout,
		ReadTimeout:       httpHeaderTimeout,
		WriteTimeout:      httpIdleTimeout,
		IdleTimeout:       httpIdleTimeout,
		MaxHeaderBytes:    httpHeaderBytes,
		ConnState:         s.count,
		ConnContext:       func(ctx context.Context, nc net.Conn) context.Context { return context.WithValue(ctx, connKey{}, nc) },
		ErrorLog:          slog.NewLogLogger(s.host.Log.Handler(), slog.LevelDebug),
	}}
}

// connKey finds a request's connection in its context.
type connKey struct{}

// count bounds the connections. One between two requests makes room for a new one: else whoever holds them all, at the
// price of a request a minute each, would keep everybody out.
func (s *site) count(nc net.Conn, state http.ConnState) {
	s.idle.note(nc, state)
	switch state {
	case http.StateNew:
		if s.open.Add(1) > s.max.Load() && !s.idle.endOldest() {
			s.refused.Add(1)
			_ = nc.Close() // its first read fails
		}
	case http.StateHijacked, http.StateClosed:
		s.open.Add(-1)
	}
}

func (s *site) countUnprepared(remote net.Addr, err error) {
	s.unprepared.Add(1)
	s.host.Log.Debug("HTTP connection not ready", "remote", remote.String(), "cause", err.Error())
}

func (s *site) logRefused(r *http.Request, why string) {
	s.host.Log.Warn("WebSocket refused", "remote", r.RemoteAddr, "host", r.Host, "origin", r.Header.Get("Origin"), "cause", why)
}

func (s *site) samples(emit func(Sample)) {
	counter := func(name, help string, v uint64) {
		emit(Sample{Name: name, Help: help, Kind: Counter, Value: float64(v)})
	}
	emit(Sample{Name: "emanet_http_connections", Help: "HTTP connections, without those that carry MQTT.", Kind: Gauge, Value: float64(s.open.Load())})
	counter("emanet_http_refused_total", "HTTP connections refused because there were --max-connections of them.", s.refused.Load())
	counter("emanet_http_unprepared_total", "HTTP connections ended because the TLS handshake or the PROXY header failed or came too late.", s.unprepared.Load())
	counter("emanet_websocket_accepted_total", "WebSocket connections.", s.webSocket.Upgraded.Load())
	counter("emanet_websocket_refused_total", "WebSocket handshakes refused: the path, the origin, the subprotocol or the form.", s.webSocket.Rejected.Load())
}

// Serve is part of Server.
func (s *httpServer) Serve(listener net.Listener) error {
	if err := s.server.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// Shutdown is part of Server.
func (s *httpServer) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, httpStopTimeout)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		return s.server.Close() // the monitors that are still reading can ask again
	}
	return nil
}

// serveHealth answers 200 while all is well, else 503 and the reasons. Warnings
// follow in lines of their own.
func (h *Health) serveHealth(w http.ResponseWriter, _ *http.Request) {
	code, lines := http.StatusOK, []string{"ok"}
	if alarms := h.Alarms(); len(alarms) > 0 {
		code, lines = http.StatusServiceUnavailable, alarms
	}
	for _, warning := range h.Warnings() {
		lines = append(lines, "warning: "+warning)
	}
	answer(w, code, strings.Join(lines, "\n"))
}

// serveReady answers 200 while every listener accepts, else 503 and the phase.
func (h *Health) serveReady(w http.ResponseWriter, _ *http.Request) {
	name, ready := h.phaseName()
	if ready {
		answer(w, http.StatusOK, name)
		return
	}
	answer(w, http.StatusServiceUnavailable, name)
}

func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
}

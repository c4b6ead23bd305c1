package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// httpServer serves what operators and their monitors ask for.
type httpServer struct {
	server *http.Server
}

// The limits on HTTP peers. Every request here is a line and some headers, so
// that whoever needs longer than this is not a monitor.
const (
	httpHeaderTimeout = 5 * time.Second
	httpIdleTimeout   = time.Minute
	httpHeaderBytes   = 16 << 10
	httpStopTimeout   = time.Second // of what the parts after it need as well
)

// newHTTPServer takes what stands before whatever tells more than that the process lives.
func newHTTPServer(host *Host, guard func(http.Handler) http.Handler) *httpServer {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", host.Health.serveHealth)
	mux.HandleFunc("GET /readyz", host.Health.serveReady)
	mux.Handle("GET /metrics", guard(promhttp.HandlerFor(host.Metrics.registry, promhttp.HandlerOpts{})))
	return &httpServer{&http.Server{
		Handler:           mux,
		ReadHeaderTimeout: httpHeaderTimeout,
		ReadTimeout:       httpHeaderTimeout,
		IdleTimeout:       httpIdleTimeout,
		MaxHeaderBytes:    httpHeaderBytes,
	}}
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

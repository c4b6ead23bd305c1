package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"

	"emanet/internal/config"
	"emanet/internal/transport"
)

// Server is a protocol server as the wiring sees it.
type Server interface {
	// Serve accepts connections until the listener is closed or Shutdown is
	// called, and returns nil then. Any other end is an error.
	Serve(listener net.Listener) error
	// Shutdown closes the connections and returns when all of them have ended.
	// Once ctx has ended it no longer waits for peers to read what is on the way.
	Shutdown(ctx context.Context) error
}

// opener opens a listener's socket; its errors name the flag to change.
type opener func(ctx context.Context) (net.Listener, error)

// listenerPart is the part that opens one listener and hands it to a server, which is made only when its turn comes:
// what it stands on has started then. The flag, without dashes in front, is the listener's name.
func listenerPart(host *Host, flag string, open opener, newServer func() Server) Part {
	var (
		server   Server
		socket   net.Listener
		returned chan struct{} // closed when Serve has returned
	)
	return Part{
		Name: flag + " listener",
		Start: func(ctx context.Context) error {
			var err error
			if socket, err = open(ctx); err != nil {
				return err
			}
			server, returned = newServer(), make(chan struct{})
			go func() {
				defer close(returned)
				if err := server.Serve(socket); err != nil {
					host.Fail(flag+" listener", err)
				}
			}()
			host.listening(flag, socket.Addr().String())
			return nil
		},
		Stop: func(ctx context.Context) error {
			// A new connection must find a closed port before the old ones end,
			// else their clients would come straight back.
			closeErr := socket.Close()
			err := server.Shutdown(ctx)
			<-returned
			if closeErr != nil && !errors.Is(closeErr, net.ErrClosed) {
				return errors.Join(err, closeErr)
			}
			return err
		},
	}
}

// listen opens a TCP listener with the layers that its configuration asks for. certificates are loaded by then.
func listen(listener config.Listener, cfg config.Serve, certificates *certificates) opener {
	return func(ctx context.Context) (net.Listener, error) {
		var lc net.ListenConfig
		socket, err := lc.Listen(ctx, "tcp", string(listener.Address))
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("--%s %s: the port is in use; stop what uses it or choose another port with --%s",
				listener.Flag, listener.Address, listener.Flag)
		}
		if err != nil {
			return nil, fmt.Errorf("--%s %s: %w", listener.Flag, listener.Address, err)
		}
		l := &transport.Listener{Listener: socket, Proxy: transport.Proxy{Trusted: cfg.Proxy.Trusted}}
		switch listener.Proxied {
		case config.ProxyTrusted:
			l.Proxy.Mode = transport.ProxyTrusted
		case config.ProxyRequire:
			l.Proxy.Mode = transport.ProxyRequire
		}
		if listener.Secure {
			l.Certificates = certificates.loaded
		}
		return l, nil
	}
}

// listenUnix opens the Unix socket.
func listenUnix(cfg config.Serve) opener {
	return func(ctx context.Context) (net.Listener, error) {
		l, err := transport.ListenUnix(ctx, cfg.MQTTUnix, fs.FileMode(cfg.MQTTUnixMode))
		if err != nil {
			return nil, fmt.Errorf("--mqtt-unix: %w", err)
		}
		return l, nil
	}
}

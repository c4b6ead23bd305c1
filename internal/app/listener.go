package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"emanet/internal/config"
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

// listenerPart is the part that opens one listener and hands it to a server,
// which is made only when its turn comes: what it stands on has started then.
func listenerPart(host *Host, listener config.Listener, newServer func() Server) Part {
	var (
		server   Server
		socket   net.Listener
		returned chan struct{} // closed when Serve has returned
	)
	return Part{
		Name: listener.Flag + " listener",
		Start: func(ctx context.Context) error {
			var err error
			if socket, err = listen(ctx, listener); err != nil {
				return err
			}
			server, returned = newServer(), make(chan struct{})
			go func() {
				defer close(returned)
				if err := server.Serve(socket); err != nil {
					host.Fail(listener.Flag+" listener", err)
				}
			}()
			host.listening(listener.Flag, socket.Addr().String())
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

// listen opens the socket; its errors name the flag to change.
func listen(ctx context.Context, listener config.Listener) (net.Listener, error) {
	var lc net.ListenConfig
	socket, err := lc.Listen(ctx, "tcp", string(listener.Address))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("--%s %s: the port is in use; stop what uses it or choose another port with --%s",
			listener.Flag, listener.Address, listener.Flag)
	}
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w", listener.Flag, listener.Address, err)
	}
	return socket, nil
}

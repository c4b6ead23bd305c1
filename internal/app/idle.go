package app

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// idleConns are the HTTP connections between two requests, those that have been so for longest first.
type idleConns struct {
	mu    sync.Mutex
	order list.List // of net.Conn
	at    map[net.Conn]*list.Element
}

// note keeps up with a connection's state.
func (i *idleConns) note(nc net.Conn, state http.ConnState) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e := i.at[nc]; e != nil {
		i.order.Remove(e)
		delete(i.at, nc)
	}
	if state != http.StateIdle {
		return
	}
	if i.at == nil {
		i.at = make(map[net.Conn]*list.Element)
	}
	i.at[nc] = i.order.PushBack(nc)
}

// endOldest ends the one that has been idle for longest; false: none is.
func (i *idleConns) endOldest() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	oldest := i.order.Front()
	if oldest == nil {
		return false
	}
	nc := i.order.Remove(oldest).(net.Conn)
	delete(i.at, nc)
	go func() { _ = nc.Close() }() // over TLS it says so first
	return true
}

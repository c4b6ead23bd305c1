package mqttserver

import (
	"context"
	"time"
)

// A connection that ends because the server does is drained: nothing more is read of it, what had been read is taken in,
// and its client gets the acknowledgements of it as they are flushed. Without that every publisher in the midst of
// publishing would send its last messages again to the next process.

// drainWords is how long before the bound of a shutdown those that are still owed something are told goodbye all the
// same: in half of a shorter bound.
const drainWords = 500 * time.Millisecond

// Shutdown ends all connections, telling MQTT 5 clients why, and returns when they have ended. Publishes that have
// been read are acknowledged first, as far as their flush comes before ctx is about to end. When it ends, those are cut
// off that do not take the news.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	for c := range s.conns {
		c.end(shutdownEnd)
	}
	s.mu.Unlock()
	s.admission.end()
	ended := make(chan struct{})
	go func() {
		s.running.Wait()
		close(ended)
	}()
	hurry := context.Background()
	if deadline, ok := ctx.Deadline(); ok {
		var undo func()
		left := time.Until(deadline)
		hurry, undo = context.WithDeadline(hurry, deadline.Add(-min(drainWords, left/2)))
		defer undo()
	}
	select {
	case <-ended:
		return nil
	case <-hurry.Done():
		s.each((*conn).drainNoLonger)
	case <-ctx.Done():
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	s.Abort()
	<-ended
	return nil
}

func (s *Server) each(do func(*conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		do(c)
	}
}

// readerOut tells that nothing more will be queued as an answer.
func (c *conn) readerOut() {
	o := &c.out
	o.mu.Lock()
	o.isRead = true
	o.wakeLocked()
	o.mu.Unlock()
}

func (c *conn) drainNoLonger() {
	o := &c.out
	o.mu.Lock()
	o.isLate = true
	o.wakeLocked()
	o.mu.Unlock()
}

// draining tells whether answers are still owed on a connection that is to be drained. Each time it is asked, the
// client has goodbyeTime anew to take what is there.
func (o *output) draining() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ending.drain || o.isCut {
		return false
	}
	if o.conn.nc.SetWriteDeadline(time.Now().Add(goodbyeTime)) != nil {
		return false
	}
	return !o.isLate && (!o.isRead || o.answers.len() > 0)
}

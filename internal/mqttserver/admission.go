package mqttserver

import (
	fifo "container/list"
	"net/netip"
	"sync"
	"time"

	"emanet/internal/auth"
	"emanet/internal/mqttwire"
)

// admission keeps the books of who is connected, and how fast they come. Every table in it is bounded: by the
// connections there are, and by idleMax.
type admission struct {
	server *Server
	began  time.Time // of its clock

	mu        sync.Mutex
	pending   fifo.List // of *conn without a CONNECT yet, the oldest first
	fewer     sync.Cond // told when pending gets shorter, and at the end
	queued    int       // connections that wait in queue
	served    int       // those that have had their turn and are not in pending yet
	over      bool
	rate      bucket
	addresses map[netip.Addr]*addressBook
	idle      fifo.List                 // of *addressBook without connections, those that have been so for longest first
	users     map[string]map[string]int // connections by user and client id
}

// entry is a connection in these books.
type entry struct {
	accepted time.Time     // when it was
	pending  *fifo.Element // until CONNECT is here
	book     *addressBook  // nil when it is not counted
	counted  string        // the user that it counts for, "" for none
}

// addressBook is what is known of one address. It is kept for a second after its last connection, which is what its
// bucket takes to be full.
type addressBook struct {
	key         netip.Addr
	connections int
	rate        bucket
	idle        *fifo.Element // nil while there are connections
}

// idleMax addresses without a connection are remembered; beyond that the oldest is forgotten early, and may connect
// again a little too soon.
const idleMax = 1 << 16

func (a *admission) init(s *Server) {
	a.server, a.began = s, time.Now()
	a.fewer.L = &a.mu
	a.addresses = make(map[netip.Addr]*addressBook)
	a.users = make(map[string]map[string]int)
}

func (a *admission) now() int64 { return int64(time.Since(a.began)) }

// awaitTurn holds an accept loop while too many connections have not sent their CONNECT. They then have a quarter of
// the usual time for it: a flood of clients that never speak cannot keep out those that do, and a crowd of good ones
// is not cut off for having come at once.
func (a *admission) awaitTurn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.awaitTurnLocked()
}

func (a *admission) awaitTurnLocked() {
	counted := false
	for !a.over {
		opt := a.server.live.Load()
		if opt.MaxPending <= 0 || a.pending.Len()+a.served < opt.MaxPending {
			return
		}
		if !counted {
			counted = true
			a.server.stats.Hits[HitPending].Add(1)
		}
		front := a.pending.Front()
		if front == nil { // those that are being served will be in it
			a.fewer.Wait()
			continue
		}
		oldest := front.Value.(*conn)
		left := opt.ConnectTimeout/4 - time.Since(oldest.accepted)
		if left <= 0 {
			a.spokeLocked(oldest)
			oldest.end(ending{bad: true, late: true, cause: "no CONNECT yet, and others wait"})
			continue
		}
		look := time.AfterFunc(left, func() {
			a.mu.Lock()
			a.fewer.Broadcast()
			a.mu.Unlock()
		})
		a.fewer.Wait()
		look.Stop()
	}
}

// queue is awaitTurn for those that do not wait in a listener's queue; false: too many do. Whoever has had its turn
// counts as pending until dequeue: many may be woken at once.
func (a *admission) queue() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if most := a.server.live.Load().MaxPending; most > 0 && a.queued >= most {
		a.server.stats.Hits[HitPending].Add(1)
		return false
	}
	a.queued++
	a.awaitTurnLocked()
	a.queued--
	a.served++
	return true
}

func (a *admission) dequeue() {
	a.mu.Lock()
	a.served--
	a.fewer.Broadcast()
	a.mu.Unlock()
}

// accepted notes a connection that has yet to send its CONNECT.
func (a *admission) accepted(c *conn) {
	a.mu.Lock()
	c.accepted, c.pending = time.Now(), a.pending.PushBack(c)
	a.mu.Unlock()
}

// spoke: the CONNECT is here, or the connection has ended without.
func (a *admission) spoke(c *conn) {
	a.mu.Lock()
	a.spokeLocked(c)
	a.mu.Unlock()
}

func (a *admission) spokeLocked(c *conn) {
	if c.pending != nil {
		a.pending.Remove(c.pending)
		c.pending = nil
		a.fewer.Broadcast()
	}
}

// end lets accept loops go: there is nothing more to accept.
func (a *admission) end() {
	a.mu.Lock()
	a.over = true
	a.fewer.Broadcast()
	a.mu.Unlock()
}

// enter counts the connection for its address; false: there are too many of it. Connections over Unix sockets, which
// have no address, count as one.
func (a *admission) enter(c *conn) bool {
	key := auth.Network(c.remote.host())
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgetLocked()
	book := a.addresses[key]
	if book == nil {
		book = &addressBook{key: key}
		a.addresses[key] = book
	}
	if most := a.server.live.Load().MaxPerAddress; most > 0 && book.connections >= most {
		a.server.stats.Hits[HitPerAddress].Add(1)
		return false
	}
	book.connections++
	if book.idle != nil {
		a.idle.Remove(book.idle)
		book.idle = nil
	}
	c.book = book
	return true
}

// leave takes the connection out of the books.
func (a *admission) leave(c *conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spokeLocked(c)
	if c.book != nil {
		if c.book.connections--; c.book.connections == 0 {
			c.book.idle = a.idle.PushBack(c.book)
		}
		c.book = nil
		a.forgetLocked()
	}
	if c.counted != "" {
		ids := a.users[c.counted]
		if ids[c.clientID]--; ids[c.clientID] == 0 {
			delete(ids, c.clientID)
		}
		if len(ids) == 0 {
			delete(a.users, c.counted)
		}
		c.counted = ""
	}
}

// forgetLocked drops addresses whose bucket is full again.
func (a *admission) forgetLocked() {
	for e := a.idle.Front(); e != nil; e = a.idle.Front() {
		book := e.Value.(*addressBook)
		if !book.rate.full(a.now()) && a.idle.Len() <= idleMax {
			return
		}
		a.idle.Remove(e)
		delete(a.addresses, book.key)
	}
}

// mayConnect takes a CONNECT from the rates, or refuses it.
func (a *admission) mayConnect(c *conn) error {
	opt := a.server.live.Load()
	all, each := int64(opt.ConnectRate), int64(opt.ConnectRatePerAddress)
	if all <= 0 && each <= 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	if all > 0 && a.rate.wait(now, cost(1, all)) > 0 {
		a.server.stats.Hits[HitConnectRate].Add(1)
		return &refusal{mqttwire.ConnectionRateExceeded, "too many clients connect at this moment"}
	}
	if each > 0 {
		if c.book.rate.wait(now, cost(1, each)) > 0 {
			a.server.stats.Hits[HitConnectRatePerAddress].Add(1)
			return &refusal{mqttwire.ConnectionRateExceeded, "too many connections from this address at this moment"}
		}
		c.book.rate.take(now, cost(1, each))
	}
	if all > 0 {
		a.rate.take(now, cost(1, all))
	}
	return nil
}

// admitUser counts the connection for its user. A client id that is connected already has its place: the newer
// connection takes it over.
func (a *admission) admitUser(c *conn, user string) error {
	if user == "" {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	ids := a.users[user]
	if most := a.server.live.Load().MaxPerUser; most > 0 && len(ids) >= most && ids[c.clientID] == 0 {
		a.server.stats.Hits[HitPerUser].Add(1)
		return &refusal{mqttwire.QuotaExceeded, "this user has as many clients connected as it may"}
	}
	if ids == nil {
		ids = make(map[string]int)
		a.users[user] = ids
	}
	ids[c.clientID]++
	c.counted = user
	return nil
}

// Pending is how many connections have not sent their CONNECT.
func (s *Server) Pending() int {
	s.admission.mu.Lock()
	defer s.admission.mu.Unlock()
	return s.admission.pending.Len()
}

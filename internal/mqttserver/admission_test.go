package mqttserver

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"emanet/internal/auth"
	"emanet/internal/mqttwire"
)

func TestABucketHoldsOneSecondAndLargeCostsLeaveADebt(t *testing.T) {
	t.Parallel()
	const rate = 10
	second := int64(time.Second)
	var b bucket
	for i := range rate {
		if w := b.wait(0, cost(1, rate)); w != 0 {
			t.Fatalf("token %d of a full bucket is %v away", i, w)
		}
		b.take(0, cost(1, rate))
	}
	if w := b.wait(0, cost(1, rate)); w != time.Second/rate {
		t.Errorf("the next token is %v away, not a tenth of a second", w)
	}
	if w := b.wait(second/rate, cost(1, rate)); w != 0 {
		t.Errorf("after that time it is still %v away", w)
	}
	large := cost(35, rate)
	if w := b.wait(0, large); w != time.Second {
		t.Errorf("what is more than the bucket holds waits %v, not for a full one", w)
	}
	b.take(second, large)
	if w := b.wait(second, cost(1, rate)); w != 2600*time.Millisecond {
		t.Errorf("after 35 at once the next is %v away, not 2.6 seconds", w)
	}
	if b.full(second) || !b.full(second+large) {
		t.Error("the bucket does not know when it is full")
	}
	if c := cost(mqttwire.MaxPacketSize, 1); c <= 0 {
		t.Errorf("the largest packet at the slowest rate costs %d", c)
	}
}

func TestAddressesAreCountedByTheirNetwork(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ a, b string }{
		{"2001:db8:1:2::1", "2001:db8:1:2:ffff::7"},
		{"192.0.2.1", "::ffff:192.0.2.1"},
		{"fe80::1%eth0", "fe80::2%eth1"},
	} {
		if key(test.a) != key(test.b) {
			t.Errorf("%s and %s count as two", test.a, test.b)
		}
	}
	if key("2001:db8:1:2::1") == key("2001:db8:1:3::1") || key("192.0.2.1") == key("192.0.2.2") {
		t.Error("two networks count as one")
	}
	unix := &remotePeer{addr: &net.UnixAddr{Net: "unix"}}
	if auth.Network(unix.host()) != (netip.Addr{}) {
		t.Error("a Unix socket has an address")
	}
}

func key(text string) netip.Addr { return auth.Network(netip.MustParseAddr(text)) }

// bookkeeper is a server's admission alone, and what makes connections for it.
func bookkeeper(opt Options) (*Server, func(address, client string) *conn) {
	s := New(nil, opt)
	return s, func(address, client string) *conn {
		return &conn{server: s, clientID: client,
			remote: remotePeer{addr: &net.TCPAddr{IP: net.ParseIP(address), Port: 1}}}
	}
}

func TestAnAddressHasItsNumberOfConnectionsAndIsForgottenAfterwards(t *testing.T) {
	t.Parallel()
	s, from := bookkeeper(Options{MaxPerAddress: 2})
	a, b, c := from("192.0.2.1", ""), from("192.0.2.1", ""), from("192.0.2.1", "")
	if !s.admission.enter(a) || !s.admission.enter(b) {
		t.Fatal("two of two are refused")
	}
	if s.admission.enter(c) {
		t.Error("a third is let in")
	}
	if !s.admission.enter(from("192.0.2.2", "")) {
		t.Error("another address is refused")
	}
	s.admission.leave(c) // it was never counted
	s.admission.leave(a)
	if !s.admission.enter(c) {
		t.Error("the place that came free is refused")
	}
	for _, conn := range []*conn{b, c} {
		s.admission.leave(conn)
		s.admission.leave(conn) // twice is once
	}
	if n := len(s.admission.addresses); n != 1 {
		t.Errorf("%d addresses are known, not the one that is connected", n)
	}
	if s.stats.Hits[HitPerAddress].Load() != 1 {
		t.Error("the refusal was not counted")
	}
}

func TestAddressesThatConnectedJustNowAreRememberedInBoundedNumber(t *testing.T) {
	t.Parallel()
	s, from := bookkeeper(Options{ConnectRatePerAddress: 1})
	for i := range idleMax + 100 {
		c := from(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String(), "")
		if !s.admission.enter(c) || s.admission.mayConnect(c) != nil {
			t.Fatal("the first connection of an address is refused")
		}
		s.admission.leave(c)
	}
	if n := len(s.admission.addresses); n > idleMax || n != s.admission.idle.Len() {
		t.Errorf("%d addresses are remembered, of at most %d", n, idleMax)
	}
	last := from(netip.AddrFrom4([4]byte{10, byte((idleMax + 99) >> 16), byte((idleMax + 99) >> 8 & 255), byte((idleMax + 99) & 255)}).String(), "")
	if s.admission.enter(last); s.admission.mayConnect(last) == nil {
		t.Error("an address that has just left connects twice in a second")
	}
}

func TestAUserHasItsNumberOfClientIDs(t *testing.T) {
	t.Parallel()
	s, from := bookkeeper(Options{MaxPerUser: 2})
	admit := func(client, user string) (*conn, error) {
		c := from("192.0.2.1", client)
		return c, s.admission.admitUser(c, user)
	}
	a, err := admit("a", "ann")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admit("b", "ann"); err != nil {
		t.Fatal(err)
	}
	if _, err := admit("c", "ann"); err == nil {
		t.Error("a third client id is let in")
	}
	again, err := admit("a", "ann") // takes over what is there
	if err != nil {
		t.Error("a client that comes back before its old connection has ended is refused")
	}
	if _, err := admit("c", "bob"); err != nil {
		t.Error("another user is refused")
	}
	for i := range 5 {
		if _, err := admit(string(rune('p'+i)), ""); err != nil {
			t.Error("clients without a user are counted")
		}
	}
	s.admission.leave(a)
	if _, err := admit("c", "ann"); err == nil {
		t.Error("the older connection of a client took its place along")
	}
	s.admission.leave(again)
	if _, err := admit("c", "ann"); err != nil {
		t.Error("the place that came free is refused")
	}
}

func TestARateRefusesWhatComesTooSoonAndTakesNothingForIt(t *testing.T) {
	t.Parallel()
	s, from := bookkeeper(Options{ConnectRate: 5, ConnectRatePerAddress: 3})
	connect := func(address string) error {
		c := from(address, "")
		s.admission.enter(c)
		return s.admission.mayConnect(c)
	}
	for range 3 {
		if err := connect("192.0.2.1"); err != nil {
			t.Fatal(err)
		}
	}
	if connect("192.0.2.1") == nil || s.stats.Hits[HitConnectRatePerAddress].Load() != 1 {
		t.Error("a fourth of one address is let in")
	}
	for i := range 2 { // what was refused has taken nothing of the other rate
		if err := connect("192.0.2.2"); err != nil {
			t.Errorf("%d of another address: %v", i, err)
		}
	}
	if connect("192.0.2.3") == nil || s.stats.Hits[HitConnectRate].Load() != 1 {
		t.Error("a sixth of all is let in")
	}
}

func TestTenThousandConnectAtOnceWithinTheDefaultRate(t *testing.T) {
	t.Parallel()
	s, from := bookkeeper(Options{ConnectRate: 20_000, MaxPending: 10_000})
	for range 10_000 {
		s.admission.awaitTurn() // returns at once, else nothing ends this
		c := from("192.0.2.1", "")
		s.admission.accepted(c)
		if !s.admission.enter(c) {
			t.Fatal("one is refused for its address")
		}
		if err := s.admission.mayConnect(c); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Pending(); n != 10_000 {
		t.Errorf("%d are pending", n)
	}
}

func TestConnectionsAcceptedElsewhereWaitInBoundedNumber(t *testing.T) {
	r := start(t, func(r *rig) { r.opt.MaxPending = 1 })
	silent, err := net.Dial("tcp", r.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r.eventually("one is pending", func() bool { return r.server.Pending() == 1 })
	waits, theirs := net.Pipe()
	go r.server.ServeConn(theirs)
	r.eventually("one waits", func() bool {
		r.server.admission.mu.Lock()
		defer r.server.admission.mu.Unlock()
		return r.server.admission.queued == 1
	})
	refused, theirs := net.Pipe()
	r.server.ServeConn(theirs)
	if _, err := refused.Write([]byte{0x10}); err == nil {
		t.Error("a second one waits")
	}
	_ = silent.Close()
	p := r.peer(waits)
	p.sendAside(v311("waits").bytes())
	p.expect(connack311)
}

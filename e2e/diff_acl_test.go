package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "emanet/e2e/harness"
)

// Random password and ACL files are given to Mosquitto and to emanet, and both are asked the same: may this client
// publish here, does it get what is published there, does this password let it in. Password files are made by
// Mosquitto's own tool. What is compared is what happens to messages, not codes: those differ where Mosquitto says
// less than it knows.
//
// Differences that are meant, and so not asked about:
//  1. Mosquitto grants every subscription and only filters; emanet refuses one of which nothing could ever come
//     (0x87), as a granted one would be a promise.
//  2. Mosquitto answers a wrong password with "not authorised" (5, 0x87), emanet with "bad user name or password"
//     (4, 0x86), as the specification has it.
//  3. Mosquitto lets any user take over the client id of another; emanet refuses (0x85).
//  4. Mosquitto sends a retained message only while who published it may still write there (check_retain_source);
//     emanet asks for the right to write when it is published, and only then.

// aclRounds times aclAsked are the decisions compared.
const (
	aclRounds = 10
	aclAsked  = 60
)

// aclWorld is where names are drawn from.
type aclWorld struct {
	*rand.Rand
	users []string // "" is a client without a user name
	ids   []string
}

func (w *aclWorld) pick(from ...string) string { return from[w.IntN(len(from))] }

func (w *aclWorld) levels(n int, from ...string) string {
	levels := make([]string, 1+w.IntN(n))
	for i := range levels {
		levels[i] = w.pick(from...)
	}
	return strings.Join(levels, "/")
}

func (w *aclWorld) filter(pattern bool) string {
	from := []string{"a", "b", "c", "a", "b", "+", "u1", "id1", ""}
	if pattern {
		from = append(from, "%u", "%c", "x%u", "%c-%u", "%u", "%c", "%", "%d")
	}
	f := w.levels(4, from...)
	switch {
	case f == "":
		f = "/"
	case w.IntN(8) == 0:
		f = "$test/" + f
	}
	switch w.IntN(6) {
	case 0:
		f += "/#"
	case 1:
		if w.IntN(6) == 0 {
			f = "#"
		}
	}
	return f
}

func (w *aclWorld) topic(filters map[string][]string, user, id string) string {
	if w.IntN(6) == 0 {
		if t := w.levels(4, "a", "b", "c", "u1", ""); t != "" {
			return t
		}
	}
	from := filters[user]
	if len(from) == 0 || w.IntN(3) == 0 {
		from = filters[w.pick("*", "*", "", "u1")]
	}
	if len(from) == 0 {
		from = filters["*"]
	}
	f := w.pick(from...)
	f = strings.NewReplacer("%u", w.pick(user, user, "u1"), "%c", w.pick(id, id, "id1")).Replace(f)
	levels := strings.Split(f, "/")
	if levels[len(levels)-1] == "#" {
		levels = append(levels[:len(levels)-1], strings.Split(w.levels(3, "a", "b", ""), "/")...)
	}
	for i, l := range levels {
		if strings.ContainsAny(l, "+#") {
			levels[i] = w.pick("a", "b", "z", "")
		}
	}
	if t := strings.Join(levels, "/"); t != "" {
		return t
	}
	return "a"
}

// acl draws a file and tells which filters are in it about each user, with everybody's at "*". root may do everything,
// so that it can watch.
func (w *aclWorld) acl() (text string, filters map[string][]string) {
	var b strings.Builder
	filters = map[string][]string{"*": {"a", "b/c"}}
	rules := func(keyword, user string, n int) {
		for range 1 + w.IntN(n) {
			f := w.filter(keyword == "pattern")
			filters[user] = append(filters[user], f)
			access := w.pick("read ", "write ", "readwrite ", "deny ", "readwrite ", "")
			fmt.Fprintf(&b, "%s %s%s\n", keyword, access, f)
		}
	}
	rules("topic", "", 5)
	for _, u := range w.users {
		if u != "" && w.IntN(6) > 0 {
			fmt.Fprintf(&b, "\n# %s\nuser %s\n", u, u)
			rules("topic", u, 6)
		}
		if w.IntN(2) == 0 {
			rules("pattern", "*", 2)
		}
	}
	b.WriteString("user root\ntopic #\ntopic readwrite $test/#\n")
	return b.String(), filters
}

// aclBroker is one of the two, with everybody connected to it.
type aclBroker struct {
	name    string
	root    *Client
	clients map[string]*Client // by client id
}

func (w *aclWorld) connect(t *testing.T, name, addr string) *aclBroker {
	b := &aclBroker{name: name, clients: map[string]*Client{}}
	open := func(user, id string) *Client {
		c := Clean(4, id)
		if user != "" {
			c.User, c.Password = user, user+"-secret"
		}
		client := Open(t, addr, c)
		client.Subscribe(To("#", 0), To("$test/#", 0)) // emanet may refuse what would bring nothing
		return client
	}
	b.root = open("root", "root")
	for i, id := range w.ids {
		b.clients[id] = open(w.users[i], id)
	}
	return b
}

// got reads what has come to a client up to now: a second PINGRESP is behind everything that was there before the
// first.
func got(c *Client) (payloads []string) {
	for range 2 {
		c.Send(Packet{Type: PINGREQ})
		for {
			p := c.Read()
			if p.Type == PINGRESP {
				break
			}
			if p.Type == PUBLISH {
				payloads = append(payloads, string(p.Payload))
			}
		}
	}
	return payloads
}

// reaches publishes as one, and tells whether the other has got it.
func reaches(from, to *Client, topic, payload string) bool {
	from.Send(Packet{Type: PUBLISH, Topic: topic, Payload: []byte(payload), QoS: 1, ID: from.NextID()})
	for from.Read().Type != PUBACK { // its own messages may come before
	}
	for _, p := range got(to) {
		if p == payload {
			return true
		}
	}
	return false
}

func TestFilesOfMosquittoGiveTheAnswersOfMosquitto(t *testing.T) {
	OnlyEmanet(t)
	seed := uint64(20261130)
	if s := os.Getenv("EMANET_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("EMANET_SEED=%d", seed)
	decisions, allowed := 0, 0
	for round := range aclRounds {
		w := &aclWorld{Rand: rand.New(rand.NewPCG(seed, uint64(round)))}
		w.users = []string{"", "u0", "u1", "u2", "u 3", "u+4", ""}
		w.ids = []string{"id0", "id1", "id2", "id3/x", "id4", "id5", "id+6"}
		dir := t.TempDir()
		passwords, acl := filepath.Join(dir, "passwords"), filepath.Join(dir, "acl")
		MosquittoPasswd(t, "-c", "-b", passwords, "root", "root-secret")
		for i, u := range w.users {
			if u == "" {
				continue
			}
			args := []string{"-b", passwords, u, u + "-secret"}
			if i%2 == 0 {
				args = append([]string{"-H", "sha512"}, args...)
			}
			MosquittoPasswd(t, args...)
		}
		text, filters := w.acl()
		if err := os.WriteFile(acl, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		mosquitto := Mosquitto(t, "allow_anonymous true\npassword_file "+passwords+"\nacl_file "+acl+"\n")
		emanet := Start(t, "--allow-anonymous", "--login-delay-max", "0s", "--mosquitto-passwords", passwords, "--acl", acl).Addr()
		both := []*aclBroker{w.connect(t, "mosquitto", mosquitto), w.connect(t, "emanet", emanet)}
		for n := range aclAsked {
			i := w.IntN(len(w.ids))
			id := w.ids[i]
			topic := w.topic(filters, w.users[i], id)
			reads := w.IntN(2) == 0
			var answers [2]bool
			for k, b := range both {
				from, to := b.clients[id], b.root
				if reads {
					from, to = b.root, b.clients[id]
				}
				answers[k] = reaches(from, to, topic, fmt.Sprintf("%d-%d", round, n))
			}
			decisions++
			if answers[0] {
				allowed++
			}
			if answers[0] != answers[1] {
				t.Errorf("round %d: user %q, client %q, topic %q, read %v: mosquitto says %v, emanet %v, by this ACL:\n%s",
					round, w.users[i], id, topic, reads, answers[0], answers[1], text)
			}
		}
		if t.Failed() {
			return
		}
		decisions += w.compareLogins(t, mosquitto, emanet)
	}
	t.Logf("%d decisions, %d of them to allow", decisions, allowed)
	if decisions < 500 || allowed < decisions/6 || allowed > decisions*5/6 {
		t.Errorf("of %d decisions %d were to allow: that proves little", decisions, allowed)
	}
}

// compareLogins tries passwords, right and wrong.
func (w *aclWorld) compareLogins(t *testing.T, addresses ...string) (compared int) {
	for _, try := range []struct{ user, password string }{
		{"u0", "u0-secret"}, {"u0", "u1-secret"}, {"u1", "u1-secret"}, {"u1", "U1-secret"}, {"nobody", "x"}, {"u2", ""}, {"", ""},
	} {
		var in [2]bool
		for k, addr := range addresses {
			c := Dial(t, addr, 4)
			c.Write(Connect{Version: 4, Clean: true, ClientID: Name("login"), User: try.user, Password: try.password}.Bytes())
			in[k] = c.Expect(CONNACK).Code == 0
			c.Drop()
		}
		compared++
		if in[0] != in[1] {
			t.Errorf("user %q with %q: mosquitto lets in: %v, emanet: %v", try.user, try.password, in[0], in[1])
		}
	}
	return compared
}

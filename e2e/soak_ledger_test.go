package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// stamp names one message of a round: the n-th of a publisher on one of its topics.
type stamp struct {
	publisher, topic, n int
}

func (s stamp) String() string { return fmt.Sprintf("%d/%d/%d", s.publisher, s.topic, s.n) }

// stampOf reads a payload; ok is false for a payload that no publisher has written.
func stampOf(payload []byte) (s stamp, ok bool) {
	n, err := fmt.Sscanf(string(payload), "%d/%d/%d", &s.publisher, &s.topic, &s.n)
	return s, err == nil && n == 3
}

// ledger is the outside list: what the broker has acknowledged, and what was sent more than once because it had
// not. It also writes the story of the round.
type ledger struct {
	mu       sync.Mutex
	acked    map[stamp]bool
	resent   map[stamp]bool
	sent     map[stamp]bool
	story    []string
	faults   []string
	began    time.Time
	ackWatch map[int]chan struct{} // closed when so many messages are acknowledged
}

func newLedger() *ledger {
	return &ledger{acked: map[stamp]bool{}, resent: map[stamp]bool{}, sent: map[stamp]bool{}, began: time.Now(),
		ackWatch: map[int]chan struct{}{}}
}

func (l *ledger) tell(who, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tellLocked(who, format, args...)
}

func (l *ledger) tellLocked(who, format string, args ...any) {
	l.story = append(l.story, fmt.Sprintf("%9.3f %-14s %s", time.Since(l.began).Seconds(), who, fmt.Sprintf(format, args...)))
}

// fault notes a broken promise.
func (l *ledger) fault(who, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, who+": "+fmt.Sprintf(format, args...))
	l.tellLocked(who, "FAULT "+format, args...)
}

func (l *ledger) noteSent(s stamp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sent[s] {
		l.resent[s] = true
	}
	l.sent[s] = true
}

func (l *ledger) noteAcked(s stamp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[s] = true
	if c := l.ackWatch[len(l.acked)]; c != nil {
		close(c)
		delete(l.ackWatch, len(l.acked))
	}
}

// afterAcks is closed when that many more messages have been acknowledged.
func (l *ledger) afterAcks(more int) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := len(l.acked) + more
	if l.ackWatch[at] == nil {
		l.ackWatch[at] = make(chan struct{})
	}
	return l.ackWatch[at]
}

func (l *ledger) wasResent(s stamp) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.resent[s]
}

// missing lists what was acknowledged on the wanted topics and is not among what was received.
func (l *ledger) missing(wants func(stamp) bool, received map[stamp]int) (out []stamp) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.acked {
		if wants(s) && received[s] == 0 {
			out = append(out, s)
		}
	}
	return out
}

// save writes the story beside the data.
func (l *ledger) save(dir string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := os.Create(filepath.Join(dir, "story.txt"))
	if err != nil {
		return
	}
	defer f.Close()
	for _, line := range l.story {
		fmt.Fprintln(f, line)
	}
}

package peer

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of CPU times in /proc; Linux shows user space 100 a second on every machine.
const clockTick = time.Second / 100

// CPU is the time that all threads of the broker have spent, user and system.
func (b *Broker) CPU() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.Pid()))
	if err != nil {
		return 0, err
	}
	// The command in parentheses may hold spaces; utime and stime are the 14th and 15th field of the line.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// Memory is the resident memory now and at its highest, in bytes.
func (b *Broker) Memory() (now, peak int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.Pid()))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		name, rest, _ := strings.Cut(line, ":")
		if name != "VmRSS" && name != "VmHWM" {
			continue
		}
		kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		if err != nil {
			return 0, 0, err
		}
		if name == "VmRSS" {
			now = kib << 10
		} else {
			peak = kib << 10
		}
	}
	return now, peak, nil
}

// SettledMemory waits until the resident memory has changed by less than 1 % in a second, at most for the limit.
func (b *Broker) SettledMemory(limit time.Duration) (int64, error) {
	last := int64(0)
	for deadline := time.Now().Add(limit); ; time.Sleep(time.Second) {
		now, _, err := b.Memory()
		if err != nil {
			return 0, err
		}
		if diff := now - last; max(diff, -diff)*100 < now || time.Now().After(deadline) {
			return now, nil
		}
		last = now
	}
}

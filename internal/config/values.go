package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Off is the address of a listener that is not opened.
const Off Address = "off"

// Address is a TCP address to listen on, host:port, or Off. An empty host
// stands for every interface.
type Address string

// UnmarshalText checks the form, not whether the address can be bound.
func (a *Address) UnmarshalText(text []byte) error {
	if Address(text) == Off {
		*a = Off
		return nil
	}
	_, port, err := net.SplitHostPort(string(text))
	if err != nil {
		return fmt.Errorf("%q is neither HOST:PORT nor %q", text, Off)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q: the port must be a number from 0 to 65535", text)
	}
	*a = Address(text)
	return nil
}

// On reports whether there is a listener at all.
func (a Address) On() bool { return a != Off && a != "" }

// Loopback reports whether only this machine can reach the address. A host
// name counts as reachable from elsewhere, except localhost: what a name
// resolves to may change after the check.
func (a Address) Loopback() bool {
	if a == Off {
		return true
	}
	host, _, err := net.SplitHostPort(string(a))
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// Bytes is a size. Its text is a whole number with an optional unit: B, KiB,
// MiB or GiB.
type Bytes int64

var byteUnits = []struct {
	name  string
	bytes int64
}{ // the longest names first, because "B" ends all of them
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1},
}

// UnmarshalText reads a size; see Bytes for its form.
func (b *Bytes) UnmarshalText(text []byte) error {
	number, unit := string(text), int64(1)
	for _, u := range byteUnits {
		if rest, found := strings.CutSuffix(number, u.name); found {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && n > math.MaxInt64/unit:
		return fmt.Errorf("%q is larger than any size", text)
	case err != nil:
		return fmt.Errorf("%q is not a size such as 1048576, 64KiB or 16MiB", text)
	case n < 0:
		return fmt.Errorf("%q: a size cannot be negative", text)
	}
	*b = Bytes(n * unit)
	return nil
}

// String gives the size with the largest unit that divides it.
func (b Bytes) String() string {
	for i := 2; i >= 0; i-- {
		if u := byteUnits[i]; b != 0 && int64(b)%u.bytes == 0 {
			return strconv.FormatInt(int64(b)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// Never is the Expiry of what does not expire.
const Never Expiry = math.MaxInt64

// Expiry is a time after which something ends, or Never. Its text is a Go
// duration (90s, 36h), a number of days (30d) or "never".
type Expiry time.Duration

// UnmarshalText reads an expiry; see Expiry for its form.
func (e *Expiry) UnmarshalText(text []byte) error {
	if string(text) == "never" {
		*e = Never
		return nil
	}
	if number, found := strings.CutSuffix(string(text), "d"); found {
		days, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return fmt.Errorf("%q is not a number of days from 0d to 65535d", text)
		}
		*e = Expiry(time.Duration(days) * 24 * time.Hour)
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a time such as 90s, 36h, 30d or never", text)
	}
	*e = Expiry(d)
	return nil
}

// String gives the expiry as UnmarshalText reads it.
func (e Expiry) String() string {
	if e == Never {
		return "never"
	}
	return time.Duration(e).String()
}

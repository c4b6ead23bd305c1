package config

import (
	"fmt"
	"reflect"

	"github.com/alecthomas/kong"
)

// Change is a flag whose value is not the same in two configurations.
type Change struct {
	Flag     string // without dashes in front
	From, To string // for a log
	// Live: the value takes effect while the process runs. It is what the field's tag `live:""` says.
	Live bool
}

// Adopt compares the configuration that runs with one that was read later. It returns what is to run from
// now on, which is current with the live values of next, and every difference between the two. Both have
// passed Complete; merged has, or err says what of it does not go together.
func Adopt(current, next Serve) (merged Serve, changes []Change, err error) {
	merged = current
	was, now, out := flagsOf(&current), flagsOf(&next), flagsOf(&merged)
	for i, flag := range was {
		from, to := flag.Target.Interface(), now[i].Target.Interface()
		if reflect.DeepEqual(from, to) {
			continue
		}
		live := flag.Tag.Has("live")
		if live {
			out[i].Target.Set(now[i].Target)
		}
		changes = append(changes, Change{Flag: flag.Name, From: fmt.Sprint(from), To: fmt.Sprint(to), Live: live})
	}
	// A live value may have been checked against one that has to wait for the restart.
	return merged, changes, merged.Complete()
}

// Flag is a flag as the documentation has to tell of it.
type Flag struct {
	Name    string // without dashes in front
	Default string // as on the command line; "" for none
	Live    bool   // a reload changes it while the process runs
	Limit   bool   // a number, a size or a time: something that is bounded
}

// Flags lists all flags of serve.
func Flags() []Flag {
	var all []Flag
	for _, flag := range flagsOf(new(Serve)) {
		kind := flag.Target.Kind()
		_, isWord := flag.Target.Addr().Interface().(*LogLevel)
		all = append(all, Flag{
			Name: flag.Name, Default: flag.Default, Live: flag.Tag.Has("live"),
			Limit: (kind == reflect.Int || kind == reflect.Int64) && !isWord,
		})
	}
	return all
}

// flagsOf lists the flags of s, always in the same order, each with a hold on its field.
func flagsOf(s *Serve) []*kong.Flag {
	parser, err := kong.New(s, kong.NoDefaultHelp())
	if err != nil {
		panic(fmt.Sprintf("config: the grammar of Serve: %v", err))
	}
	return parser.Model.Flags
}

package config

import (
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/alecthomas/kong"
)

// Source gives kong the values that are not on the command line: those of the
// environment and, below it, those of the TOML file named by --config. It is
// made for one parse.
type Source struct {
	environ map[string]string
	file    map[string]any // nil until the first flag is resolved
	path    string
	origin  map[string]string // flag name -> where its value came from
	err     error             // what is wrong with the sources themselves
}

// NewSource takes the environment in the form of os.Environ.
func NewSource(environ []string) *Source {
	s := &Source{environ: map[string]string{}, origin: map[string]string{}}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, envPrefix) {
			s.environ[name] = value
		}
	}
	return s
}

var _ kong.Resolver = (*Source)(nil)

// Validate is part of kong.Resolver. It reports what is wrong with a source as
// a whole; Resolve could report it only in the name of the flag asked for.
func (s *Source) Validate(*kong.Application) error { return s.err }

// Resolve is part of kong.Resolver: it is asked for each flag that is not on
// the command line, and answers nil where it has no value.
func (s *Source) Resolve(ctx *kong.Context, parent *kong.Path, flag *kong.Flag) (any, error) {
	if parent.Command == nil || flag.Name == "help" {
		return nil, nil
	}
	if parent.Command.Name != serveCommand {
		return s.fromEnvironment(flag.Name)
	}
	if s.file == nil {
		s.file = map[string]any{}
		s.err = s.load(ctx, parent)
	}
	if value, err := s.fromEnvironment(flag.Name); value != nil {
		return value, err
	}
	if value, found := s.file[flag.Name]; found {
		s.origin[flag.Name] = s.path
		return value, nil
	}
	return nil, nil
}

// serveCommand alone has a file, and an environment that is its own: a tool may run beside it, with the same one.
const serveCommand = "serve"

func (s *Source) fromEnvironment(flag string) (any, error) {
	name := envName(flag)
	value, found := s.environ[name]
	if !found {
		return nil, nil
	}
	s.origin[flag] = name
	return value, nil
}

// load reads the file and checks the names in both sources against the flags
// of the chosen command.
func (s *Source) load(ctx *kong.Context, parent *kong.Path) error {
	var known []string
	lists := map[string]bool{}
	for _, flag := range parent.Flags {
		if flag.Name == "help" {
			continue
		}
		known = append(known, flag.Name)
		lists[flag.Name] = flag.Target.Kind() == reflect.Slice
		if flag.Name == "config" {
			s.path = s.environ[envName("config")]
			if path, _ := ctx.FlagValue(flag).(string); path != "" {
				s.path = path
			}
		}
	}
	if err := s.checkEnvironment(known); err != nil || s.path == "" {
		return err
	}
	text, err := os.ReadFile(s.path)
	if err != nil {
		return fmt.Errorf("reading the configuration file: %w", err)
	}
	values, err := parseFile(string(text), known, lists)
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	s.file = values
	return nil
}

// parseFile reads a TOML file of flat keys: the flag names without dashes in
// front. Values become the text that the command line would have had. Those of lists may be arrays.
func parseFile(text string, known []string, lists map[string]bool) (map[string]any, error) {
	var raw map[string]any
	if _, err := toml.Decode(text, &raw); err != nil {
		return nil, err
	}
	values := make(map[string]any, len(raw))
	for _, key := range sortedKeys(raw) {
		if key == "config" {
			return nil, fmt.Errorf("config: a configuration file cannot name another one")
		}
		if err := checkName(key, known, func(flag string) string { return flag }); err != nil {
			return nil, err
		}
		switch value := raw[key].(type) {
		case string, bool:
			values[key] = value
		case int64:
			// Text, because kong scans numbers by the type of the field and ours
			// may be sizes.
			values[key] = fmt.Sprint(value)
		case []any:
			if !lists[key] {
				return nil, fmt.Errorf("%s: it takes one value, not a list", key)
			}
			list, err := joined(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			values[key] = list
		default:
			return nil, fmt.Errorf("%s: a value must be a string, a whole number, a boolean or, where there can be more than one, a list of strings", key)
		}
	}
	return values, nil
}

// joined is a list as the command line has it.
func joined(list []any) (string, error) {
	words := make([]string, len(list))
	for i, value := range list {
		word, ok := value.(string)
		if !ok {
			return "", fmt.Errorf("a list must be one of strings")
		}
		if strings.Contains(word, ",") {
			return "", fmt.Errorf("%q: there is a comma within one string of a list", word)
		}
		words[i] = word
	}
	return strings.Join(words, ","), nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// Explain adds to an error that begins with a flag's name where the value came
// from, when it was not the command line.
func (s *Source) Explain(err error) error {
	name, found := strings.CutPrefix(err.Error(), "--")
	if !found {
		return err
	}
	end := strings.IndexAny(name, "=: ")
	if end < 0 {
		return err
	}
	if origin := s.origin[name[:end]]; origin != "" {
		return fmt.Errorf("%w (set by %s)", err, origin)
	}
	return err
}

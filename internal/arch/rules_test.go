package arch

import "slices"

// sees lists for every package of the product which of our packages it may
// import. The order is that of the layers, from the codecs up: a package sees
// only what stands above it in this list.
//
// mailbox and broker know the store by its contract; only app knows an engine.
// Protocol servers meet in broker and never see each other. A codec's types
// stop at its server.
var sees = []struct {
	pkg     string
	imports []string
	// inTests are imports that only the package's tests may have.
	inTests []string
}{
	{pkg: "internal/arch"},
	{pkg: "internal/conformance"},
	{pkg: "internal/spelling"},
	{pkg: "internal/config", imports: []string{"internal/spelling"}},
	{pkg: "internal/message"},
	{pkg: "internal/topic"},
	{pkg: "internal/mqttwire"},
	{pkg: "internal/handshake"},
	{pkg: "internal/disk"},
	{pkg: "internal/systemd"},
	{pkg: "internal/doctor", imports: []string{"internal/disk"}},
	{pkg: "internal/auth", imports: []string{"internal/disk", "internal/spelling", "internal/topic"}},
	{pkg: "internal/disk/powercut", imports: []string{"internal/disk"}},
	{pkg: "internal/disk/sqlitevfs", imports: []string{"internal/disk"}, inTests: []string{"internal/disk/powercut"}},
	{pkg: "internal/journal", imports: []string{"internal/disk"}, inTests: []string{"internal/disk/powercut"}},
	{pkg: "internal/store", imports: []string{"internal/journal", "internal/message"}},
	{pkg: "internal/store/storetest", imports: []string{"internal/disk", "internal/message", "internal/store"}},
	{pkg: "internal/store/local",
		imports: []string{"internal/disk", "internal/journal", "internal/message", "internal/store"},
		inTests: []string{"internal/disk/powercut", "internal/disk/sqlitevfs", "internal/store/storetest"}},
	{pkg: "internal/transport/certtest"},
	{pkg: "internal/transport", imports: []string{"internal/disk"}, inTests: []string{"internal/transport/certtest"}},
	{pkg: "internal/mailbox", imports: []string{"internal/message", "internal/store"}, inTests: engineInTests},
	{pkg: "internal/broker",
		imports: []string{"internal/auth", "internal/mailbox", "internal/message", "internal/store", "internal/topic"},
		inTests: engineInTests},
	{pkg: "internal/mqttserver",
		imports: []string{"internal/auth", "internal/broker", "internal/mailbox", "internal/message", "internal/mqttwire", "internal/store", "internal/topic"},
		inTests: append(slices.Clone(engineInTests), "internal/transport", "internal/transport/certtest")},
	{pkg: "internal/app",
		imports: []string{"internal/auth", "internal/broker", "internal/config", "internal/disk", "internal/doctor", "internal/journal", "internal/mailbox",
			"internal/mqttserver", "internal/store", "internal/store/local", "internal/systemd", "internal/transport"},
		inTests: []string{"internal/transport/certtest"}},
	{pkg: "cmd/emanet", imports: []string{"internal/app", "internal/auth", "internal/config"}, inTests: []string{"internal/transport/certtest"}},
}

// engineInTests lets the tests of what stands on the store run it on the real
// engine, and pull the plug.
var engineInTests = []string{"internal/disk", "internal/disk/powercut", "internal/disk/sqlitevfs", "internal/journal",
	"internal/store/local", "internal/store/storetest"}

// libraries lists who may import what of others. A library that one package
// wraps stays replaceable.
var libraries = map[string][]string{
	"github.com/alecthomas/kong":          {"cmd/emanet", "internal/config"},
	"github.com/BurntSushi/toml":          {"internal/auth", "internal/config"},
	"github.com/prometheus/client_golang": {"internal/app"},
	"github.com/ncruces/go-sqlite3":       {"internal/disk/sqlitevfs", "internal/store/local"},
	"github.com/gobwas/ws":                {"internal/transport"},
	"github.com/pires/go-proxyproto":      {"internal/transport"},
	"golang.org/x/sys":                    {"internal/disk", "internal/doctor", "internal/app", "internal/systemd"},
	"golang.org/x/term":                   {"cmd/emanet"},
	"go.uber.org/goleak":                  nil, // tests only, in any package
	"pgregory.net/rapid":                  nil,
}

// pure lists packages that do no I/O, and what they therefore do not import.
var (
	pure   = []string{"internal/message", "internal/topic", "internal/mqttwire", "internal/handshake"}
	impure = []string{"net", "net/http", "os", "os/exec", "syscall", "log", "log/slog"}
)

// forbiddenNames are packages that would hold whatever has found no home.
var forbiddenNames = []string{"util", "utils", "common", "helper", "helpers", "types", "misc", "shared", "interfaces"}

// The sizes a reader can hold in mind. A test file is read one test at a time,
// so only the hard limit counts for it.
const (
	fileLinesAim     = 300
	fileLinesMax     = 600
	functionLinesMax = 70
)

// checkImports says what is wrong with one file's imports.
func checkImports(f *file) []string {
	at := slices.IndexFunc(sees, func(s struct {
		pkg              string
		imports, inTests []string
	}) bool {
		return s.pkg == f.pkg
	})
	if at < 0 {
		return []string{"the package is not in the table of layers: add it to arch's rules with what it may see"}
	}
	var wrong []string
	for _, path := range f.imports {
		ours, library := internalPath(path), libraryOf(path)
		switch {
		case ours != "":
			if ours != f.pkg && !slices.Contains(sees[at].imports, ours) && !(f.isTest && slices.Contains(sees[at].inTests, ours)) {
				wrong = append(wrong, f.pkg+" may not see "+ours)
			}
		case library == "" && isLibrary(path):
			wrong = append(wrong, path+" is not in the list of libraries: add it there and to docs/dependencies.md")
		case library != "" && !f.isTest && !slices.Contains(libraries[library], f.pkg):
			wrong = append(wrong, f.pkg+" may not see "+library)
		case !f.isTest && slices.Contains(pure, f.pkg) && slices.Contains(impure, path):
			wrong = append(wrong, f.pkg+" does no I/O and so has no use for "+path)
		}
	}
	return wrong
}

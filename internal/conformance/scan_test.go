package conformance

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// place is a top-level declaration that carries a tag.
type place struct {
	pkg  string // folder, relative to the repository
	name string // of the function, type, variable or constant
	file string
	line int
}

// found is all that the tree says about one statement.
type found struct {
	code  []place // of the product
	tests []place // tests that carry the tag, or use what carries it
}

// scan is what the tree's Go files say.
type scan struct {
	statements map[string]*found
	wrong      []string // tags that are spelt in no known way
}

var (
	tagged = regexp.MustCompile(`\[(MQTT(?:311)?-\d+(?:\.\d+)+-\d+)\]`)
	// nearly is whatever looks as if a tag was meant.
	nearly = regexp.MustCompile(`MQTT[\w.]*-\d+[-.]\d+[-.\d]*|_MQTT(?:311)?_\d\w*`)
)

// scanTree reads the product, its tests and the test module.
func scanTree(t *testing.T) *scan {
	t.Helper()
	packages := map[string]map[string]string{}
	for _, top := range []string{"cmd", "internal", "e2e"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(name string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && slices.Contains([]string{"testdata", "node_modules", "conformance"}, entry.Name()) {
				return filepath.SkipDir
			}
			if entry.IsDir() || !strings.HasSuffix(name, ".go") {
				return nil
			}
			source, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			relative = filepath.ToSlash(relative)
			if packages[path.Dir(relative)] == nil {
				packages[path.Dir(relative)] = map[string]string{}
			}
			packages[path.Dir(relative)][relative] = string(source)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s := &scan{statements: map[string]*found{}}
	for pkg, files := range packages {
		if err := s.addPackage(pkg, files); err != nil {
			t.Fatal(err)
		}
	}
	s.sort()
	return s
}

// declaration is one top-level declaration of a test file with its tags and
// with the names that it uses.
type declaration struct {
	place
	tags []string
	uses map[string]bool
}

// addPackage reads the files of one folder. A tag in a test file counts for
// every test that reaches its declaration through names of this package.
func (s *scan) addPackage(pkg string, files map[string]string) error {
	declarations := map[string][]*declaration{} // methods of one name are one
	for name, source := range files {
		fset := token.NewFileSet()
		syntax, err := parser.ParseFile(fset, name, source, parser.ParseComments)
		if err != nil {
			return err
		}
		isTest := strings.HasSuffix(name, "_test.go")
		for _, span := range spans(fset, syntax) {
			text := source[span.from:span.to]
			tags := tagsOf(text)
			s.complain(name, text, tags)
			d := &declaration{place: place{pkg: pkg, name: span.name, file: name, line: span.line}, tags: tags}
			switch {
			case isTest:
				d.uses = namesIn(span.nodes)
				for _, name := range span.names {
					declarations[name] = append(declarations[name], d)
				}
			case len(tags) > 0:
				for _, tag := range tags {
					at := s.at(tag)
					at.code = append(at.code, d.place)
				}
			}
		}
	}
	for name, tests := range declarations {
		if isTestName(name) {
			for _, test := range tests {
				for tag := range reached(name, declarations) {
					at := s.at(tag)
					at.tests = append(at.tests, test.place)
				}
			}
		}
	}
	return nil
}

func isTestName(name string) bool {
	return strings.HasPrefix(name, "Test") && name != "TestMain" || strings.HasPrefix(name, "Fuzz")
}

// reached gives the tags of a declaration and of all that it uses.
func reached(name string, declarations map[string][]*declaration) map[string]bool {
	tags, seen, todo := map[string]bool{}, map[string]bool{name: true}, []string{name}
	for len(todo) > 0 {
		next := todo[0]
		todo = todo[1:]
		for _, d := range declarations[next] {
			for _, tag := range d.tags {
				tags[tag] = true
			}
			for use := range d.uses {
				if !seen[use] && !isTestName(use) {
					seen[use] = true
					todo = append(todo, use)
				}
			}
		}
	}
	return tags
}

func (s *scan) at(tag string) *found {
	if s.statements[tag] == nil {
		s.statements[tag] = &found{}
	}
	return s.statements[tag]
}

func tagsOf(text string) (tags []string) {
	for _, match := range tagged.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(tags, match[1]) {
			tags = append(tags, match[1])
		}
	}
	return tags
}

// complain notes what was meant as a tag and is none.
func (s *scan) complain(file, text string, tags []string) {
	for _, meant := range nearly.FindAllString(text, -1) {
		if !slices.Contains(tags, meant) {
			s.wrong = append(s.wrong, fmt.Sprintf("%s: %s is not spelt as a tag", file, meant))
		}
	}
}

// span is the text of one top-level declaration: from the end of the one before
// it, so that comments above it belong to it, to the end of its last line.
type span struct {
	name     string
	names    []string
	nodes    []ast.Node
	line     int
	from, to int
}

func spans(fset *token.FileSet, syntax *ast.File) (out []span) {
	file := fset.File(syntax.Pos())
	from := 0
	for i, decl := range syntax.Decls {
		to := file.Size()
		if i+1 < len(syntax.Decls) {
			if line := file.Line(decl.End()) + 1; line <= file.LineCount() {
				to = file.Offset(file.LineStart(line))
			}
		}
		s := span{line: file.Line(decl.Pos()), from: from, to: max(to, from), nodes: []ast.Node{decl}}
		switch d := decl.(type) {
		case *ast.FuncDecl:
			s.names = []string{d.Name.Name}
		case *ast.GenDecl:
			s.names = namesOf(d)
		}
		if len(s.names) > 0 {
			s.name = s.names[0]
		}
		from = s.to
		out = append(out, s)
	}
	return out
}

func namesOf(d *ast.GenDecl) (names []string) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			names = append(names, spec.Name.Name)
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// namesIn gives every identifier of a declaration, selected ones included.
func namesIn(nodes []ast.Node) map[string]bool {
	names := map[string]bool{}
	for _, node := range nodes {
		ast.Inspect(node, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				names[id.Name] = true
			}
			return true
		})
	}
	return names
}

func (s *scan) sort() {
	slices.Sort(s.wrong)
	for _, f := range s.statements {
		f.code, f.tests = merge(f.code, nil), merge(f.tests, nil)
	}
}

// merge gives the places of both lists in order, each once.
func merge(a, b []place) []place {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(a, b place) int { return strings.Compare(a.pkg+" "+a.name, b.pkg+" "+b.name) })
	return slices.CompactFunc(all, func(a, b place) bool { return a.pkg == b.pkg && a.name == b.name })
}

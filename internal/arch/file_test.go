package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// file is one Go file as the rules see it. Paths are relative to the
// repository and have forward slashes.
type file struct {
	path, pkg string
	isTest    bool
	generated bool
	lines     int
	imports   []string
	fset      *token.FileSet
	syntax    *ast.File
}

func parseFile(name, source string) (*file, error) {
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, name, source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	f := &file{
		path: name, pkg: path.Dir(name), isTest: strings.HasSuffix(name, "_test.go"), generated: ast.IsGenerated(syntax),
		lines: strings.Count(source, "\n"), fset: fset, syntax: syntax,
	}
	for _, spec := range syntax.Imports {
		f.imports = append(f.imports, strings.Trim(spec.Path.Value, "`\""))
	}
	return f, nil
}

// internalPath is the path inside the repository, or "" for what is not ours.
func internalPath(path string) string {
	ours, _ := strings.CutPrefix(path, "emanet/")
	if ours == path {
		return ""
	}
	return ours
}

// isLibrary tells a module of others from the standard library, whose first
// element has no dot.
func isLibrary(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return strings.Contains(first, ".")
}

func libraryOf(path string) string {
	for library := range libraries {
		if path == library || strings.HasPrefix(path, library+"/") {
			return library
		}
	}
	return ""
}

// checkPackageName says what is wrong with the name of the file's package.
func checkPackageName(f *file) []string {
	if name := strings.TrimSuffix(f.syntax.Name.Name, "_test"); slices.Contains(forbiddenNames, name) {
		return []string{"package " + name + " names no noun: find the one it owns"}
	}
	return nil
}

// checkFileSize compares the file with the aim and the limit.
func checkFileSize(f *file, exceptions map[string]string) []string {
	switch {
	case f.generated:
		return nil
	case f.lines > fileLinesMax:
		return []string{fmt.Sprintf("%d lines, the limit is %d", f.lines, fileLinesMax)}
	case f.lines > fileLinesAim && !f.isTest && exceptions[f.path] == "":
		return []string{fmt.Sprintf("%d lines, the aim is %d: split it, or list the reason in exceptions_test.go", f.lines, fileLinesAim)}
	}
	return nil
}

// checkFunctionSizes measures every function, its signature included.
func checkFunctionSizes(f *file, exceptions map[string]string) []string {
	var wrong []string
	for _, declaration := range f.syntax.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || f.generated {
			continue
		}
		lines := f.fset.Position(function.End()).Line - f.fset.Position(function.Pos()).Line + 1
		if name := function.Name.Name; lines > functionLinesMax && exceptions[f.path+": "+name] == "" {
			wrong = append(wrong, fmt.Sprintf("%s has %d lines, the limit is %d", name, lines, functionLinesMax))
		}
	}
	return wrong
}

var unfinished = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)

// checkComments finds work that was written down instead of done.
func checkComments(f *file) []string {
	var wrong []string
	for _, group := range f.syntax.Comments {
		for _, comment := range group.List {
			if word := unfinished.FindString(comment.Text); word != "" {
				line := f.fset.Position(comment.Pos()).Line
				wrong = append(wrong, fmt.Sprintf("line %d: a %s comment: do it, or file an issue", line, word))
			}
		}
	}
	return wrong
}

// checkSleep finds tests that guess how long something takes. Benchmarks are
// not tests: they measure it.
func checkSleep(f *file, exceptions map[string]string) []string {
	if !f.isTest || strings.HasSuffix(f.path, "bench_test.go") || exceptions[f.path] != "" {
		return nil
	}
	var wrong []string
	cases := map[ast.Node]bool{} // what a select waits for beside others
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		if c, ok := node.(*ast.CommClause); ok {
			if receive, ok := c.Comm.(*ast.ExprStmt); ok {
				cases[receive.X] = true
			}
		}
		if isOfTime(node, "Sleep") || isReceiveOfAfter(node) && !cases[node] {
			line := f.fset.Position(node.Pos()).Line
			wrong = append(wrong, fmt.Sprintf("line %d: a test that sleeps: wait for a signal, or poll with a deadline", line))
		}
		return true
	})
	return wrong
}

// isReceiveOfAfter finds <-time.After(…), which is time.Sleep by another name.
func isReceiveOfAfter(node ast.Node) bool {
	receive, ok := node.(*ast.UnaryExpr)
	if !ok || receive.Op != token.ARROW {
		return false
	}
	call, ok := receive.X.(*ast.CallExpr)
	return ok && isOfTime(call.Fun, "After")
}

// isOfTime tells whether the node is that name of package time.
func isOfTime(node ast.Node, name string) bool {
	selector, ok := node.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != name {
		return false
	}
	of, ok := selector.X.(*ast.Ident)
	return ok && of.Name == "time"
}

// startsGoroutines reports whether the file has a go statement.
func startsGoroutines(f *file) bool {
	found := false
	ast.Inspect(f.syntax, func(node ast.Node) bool {
		_, isGo := node.(*ast.GoStmt)
		found = found || isGo
		return !found
	})
	return found
}

// looksForLeaks reports whether the file's TestMain ends in goleak's check.
func looksForLeaks(f *file) bool {
	for _, declaration := range f.syntax.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Name.Name != "TestMain" {
			continue
		}
		found := false
		ast.Inspect(function, func(node ast.Node) bool {
			selector, ok := node.(*ast.SelectorExpr)
			if ok && strings.HasPrefix(selector.Sel.Name, "Verify") {
				name, isName := selector.X.(*ast.Ident)
				found = found || isName && name.Name == "goleak"
			}
			return !found
		})
		return found
	}
	return false
}

// checkLeaks wants a check for leaks in every package that starts goroutines. A
// package for tests (one that imports testing) is checked by those who use it.
func checkLeaks(files []*file) []string {
	starts, looks := map[string]bool{}, map[string]bool{}
	for _, f := range files {
		if f.isTest {
			looks[f.pkg] = looks[f.pkg] || looksForLeaks(f)
		} else {
			starts[f.pkg] = starts[f.pkg] || startsGoroutines(f)
			looks[f.pkg] = looks[f.pkg] || slices.Contains(f.imports, "testing")
		}
	}
	var wrong []string
	for pkg, does := range starts {
		if does && !looks[pkg] {
			wrong = append(wrong, pkg+": starts goroutines and has no TestMain with goleak.VerifyTestMain")
		}
	}
	slices.Sort(wrong)
	return wrong
}

package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the repository as seen from this package's folder, where go test
// runs its tests.
const root = "../.."

// loadTree reads every Go file of the repository, the test and benchmark
// modules included.
func loadTree(t *testing.T) []*file {
	t.Helper()
	var files []*file
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if base := entry.Name(); name != root && (strings.HasPrefix(base, ".") || base == "node_modules" || base == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
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
		f, err := parseFile(filepath.ToSlash(relative), string(source))
		files = append(files, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("only %d files found under %s: the rules would pass for nothing", len(files), root)
	}
	return files
}

// ofProduct reports whether the file is part of the product's own module.
func ofProduct(f *file) bool {
	return strings.HasPrefix(f.pkg, "internal/") || strings.HasPrefix(f.pkg, "cmd/")
}

func TestTheTreeKeepsTheHouseRules(t *testing.T) {
	t.Parallel()
	files := loadTree(t)
	rules := []struct {
		name  string
		check func(*file) []string
	}{
		{"packages see only the layers they stand on", func(f *file) []string {
			if !ofProduct(f) {
				return nil
			}
			return checkImports(f)
		}},
		{"packages are named after a noun", checkPackageName},
		{"files stay short", func(f *file) []string { return checkFileSize(f, longFiles) }},
		{"functions stay short", func(f *file) []string { return checkFunctionSizes(f, longFunctions) }},
		{"nothing is left to do later", checkComments},
		{"tests do not sleep", func(f *file) []string { return checkSleep(f, sleepingTests) }},
	}
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			for _, f := range files {
				for _, wrong := range rule.check(f) {
					t.Errorf("%s: %s", f.path, wrong)
				}
			}
		})
	}
	t.Run("packages that start goroutines look for leaks", func(t *testing.T) {
		t.Parallel()
		for _, wrong := range checkLeaks(slices.DeleteFunc(slices.Clone(files), func(f *file) bool { return !ofProduct(f) })) {
			t.Error(wrong)
		}
	})
}

func TestEveryExceptionIsStillNeeded(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	none := map[string]string{}
	for _, f := range loadTree(t) {
		found[f.path] = len(checkFileSize(f, none)) > 0 || len(checkSleep(f, none)) > 0
		for _, wrong := range checkFunctionSizes(f, none) {
			name, _, _ := strings.Cut(wrong, " ")
			found[f.path+": "+name] = true
		}
	}
	for _, list := range []map[string]string{longFiles, longFunctions, sleepingTests} {
		for name := range list {
			if !found[name] {
				t.Errorf("%s needs no exception any more", name)
			}
		}
	}
}

func TestTheTableOfLayersHasNoCycle(t *testing.T) {
	t.Parallel()
	above := map[string]bool{}
	for _, layer := range sees {
		for _, pkg := range layer.imports {
			if !above[pkg] {
				t.Errorf("%s may see %s, which does not stand above it in the table", layer.pkg, pkg)
			}
		}
		above[layer.pkg] = true
	}
}

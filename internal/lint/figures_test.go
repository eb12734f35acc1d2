package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// core are the packages that perfbuf is made of.
var core = []string{"cpulist", "engine", "grace", "host", "kernel", "perfevent", "quantile", "raw", "ringbuf", "stream"}

// The table of CONTRIBUTING.md says how large the house is. It must be true, so that growth is seen
// and argued for.
func TestFigures(t *testing.T) {
	types, functions, methods, fields := exported(t, "../../perfbuf")
	between := 0
	for _, room := range []string{"raw", "stream", "engine"} {
		types, _, methods, fields := exported(t, filepath.Join("../../internal", room))
		between += types + methods + fields
	}
	files, err := filepath.Glob("../../perfbuf/*.go")
	require.NoError(t, err)
	is := map[string]int{
		"exported types of perfbuf": types, "exported functions and methods": functions + methods, "exported fields": fields, "files in its folder": len(files),
		"packages in the core": len(core), "types, methods and fields that raw, stream and engine show": between,
	}
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	require.NoError(t, err)
	said := map[string]int{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| ([0-9]+) \|$`).FindAllStringSubmatch(string(text), -1) {
		said[row[1]], _ = strconv.Atoi(row[2])
	}
	require.Equal(t, is, said)
}

// exported counts what a package shows: types, functions, methods, and fields of structs.
func exported(t *testing.T, directory string) (types, functions, methods, fields int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(directory, "*.go"))
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, "_other.go") || strings.HasSuffix(file, "_be.go") || strings.HasSuffix(file, "_off.go") {
			continue // what these have stands in another file, too
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				switch {
				case !n.Name.IsExported():
				case n.Recv == nil:
					functions++
				case ast.IsExported(receiver(n.Recv.List[0].Type)):
					methods++
				}
				return false
			case *ast.TypeSpec:
				if !n.Name.IsExported() {
					return false
				}
				types++
				if s, ok := n.Type.(*ast.StructType); ok {
					for _, field := range s.Fields.List {
						for _, name := range field.Names {
							if name.IsExported() {
								fields++
							}
						}
					}
				}
				if i, ok := n.Type.(*ast.InterfaceType); ok {
					methods += len(i.Methods.List)
				}
				return false
			}
			return true
		})
	}
	return types, functions, methods, fields
}

// receiver is the name of a receiver's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// Comments of the library and of what proves it fit into 100 columns.
func TestCommentWidth(t *testing.T) {
	for _, file := range goFiles(t) {
		if top, _, _ := strings.Cut(file, "/"); !slices.Contains([]string{"perfbuf", "dropin", "internal", "cgo", "lab"}, top) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		for n, line := range strings.Split(string(b), "\n") {
			comment := strings.TrimLeft(line, "\t")
			width := 4*(len(line)-len(comment)) + utf8.RuneCountInString(comment)
			if strings.HasPrefix(comment, "// ") && width > 100 {
				t.Errorf("%s:%d: a comment of %d columns", file, n+1, width)
			}
		}
	}
}

// Package lint holds the house rules that no ready-made linter knows, as tests.
package lint

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/ringfold/ringfold/"

// root is the module's directory.
const root = "../.."

// mayImport says which packages beyond the standard library the code of a
// directory may import, tests aside.
var mayImport = map[string][]string{
	"cgo":                    {"C", module + "internal/bpf", "golang.org/x/sys/unix"},
	"internal/bpf":           {"golang.org/x/sys/unix"},
	"internal/raw":           {},
	"internal/newfile":       {},
	"internal/engine":        {module + "internal/grace", module + "internal/host", module + "internal/kernel", module + "internal/raw", module + "internal/stream"},
	"internal/stream":        {module + "internal/grace", module + "internal/raw"},
	"internal/kernel":        {module + "internal/grace", module + "internal/raw"},
	"internal/host":          {module + "internal/bpf", module + "internal/cpulist", module + "internal/kernel", module + "internal/raw", "golang.org/x/sys/unix"},
	"internal/perfevent":     {module + "cgo", module + "internal/bpf", module + "internal/cpulist", module + "internal/grace", module + "internal/host", module + "internal/kernel", module + "internal/raw", "golang.org/x/sys/unix"},
	"internal/ringbuf":       {module + "internal/bpf", module + "internal/cpulist", module + "internal/grace", module + "internal/host", module + "internal/kernel", module + "internal/raw", "golang.org/x/sys/unix"},
	"internal/ringtest":      {module + "internal/grace", module + "internal/kernel", module + "internal/raw"},
	"internal/kerneltest":    {module + "internal/bpf", module + "internal/cpulist", module + "internal/workload", "github.com/aquasecurity/libbpfgo", "golang.org/x/sys/unix"},
	"internal/cpulist":       {},
	"internal/leak":          {},
	"internal/libbpftest":    {},
	"internal/grace":         {module + "internal/bpf", module + "internal/cpulist", module + "internal/quantile", "golang.org/x/sys/unix"},
	"internal/lint":          {},
	"internal/version":       {},
	"internal/quantile":      {},
	"internal/zstd":          {},
	"internal/statmetrics":   {module + "perfbuf"},
	"internal/recordingtest": {module + "perfbuf", module + "perfbuf/perfbuftest", module + "perfbuf/perfdata", "github.com/stretchr/testify/require"},
	"internal/simulate":      {module + "perfbuf", module + "internal/grace", module + "internal/kernel", module + "internal/raw", module + "internal/ringtest", module + "internal/workload"},
	"internal/workload":      {module + "cgo", module + "internal/bpf", "github.com/aquasecurity/libbpfgo", "golang.org/x/sys/unix"},
	"internal/soak":          {module + "perfbuf", module + "internal/cpulist", module + "internal/kerneltest", module + "internal/quantile", module + "internal/workload", "golang.org/x/sys/unix"},
	"perfbuf":                {module + "cgo", module + "internal/engine", module + "internal/grace", module + "internal/host", module + "internal/kernel", module + "internal/perfevent", module + "internal/raw", module + "internal/ringbuf", module + "internal/stream", module + "internal/version"},
	"perfbuf/perfchan":       {module + "perfbuf"},
	"perfbuf/flight":         {module + "perfbuf", module + "perfbuf/perfdata", module + "internal/cpulist", module + "internal/engine", module + "internal/grace", module + "internal/kernel", module + "internal/perfevent", module + "internal/raw", module + "internal/ringbuf"},
	"perfbuf/promperf":       {module + "perfbuf", module + "internal/statmetrics", "github.com/prometheus/client_golang/prometheus"},
	"perfbuf/otelperf":       {module + "perfbuf", module + "internal/statmetrics", "go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/metric"},
	"perfbuf/perfdata":       {module + "perfbuf", module + "internal/grace", module + "internal/kernel", module + "internal/newfile", module + "internal/raw"},
	"perfbuf/perfbuftest":    {module + "perfbuf", module + "internal/kernel", module + "internal/ringtest"},
	"internal/cilium/agent":  {"github.com/cilium/ebpf", "github.com/cilium/ebpf/perf", "github.com/cilium/ebpf/ringbuf"},
	"dropin/internal/pull":   {module + "perfbuf"},
	"dropin/perf":            {module + "perfbuf", module + "dropin/internal/pull"},
	"dropin/ringbuf":         {module + "perfbuf", module + "dropin/internal/pull"},
}

// free to import anything: nothing imports them.
var free = []string{"bench", "cmd", "conformance", "deploy", "docs", "examples", "scripts"}

func TestDependencies(t *testing.T) {
	for _, file := range goFiles(t) {
		dir := filepath.ToSlash(filepath.Dir(file))
		allowed, ruled := mayImport[dir]
		if first, _, _ := strings.Cut(dir, "/"); strings.HasSuffix(file, "_test.go") || slices.Contains(free, first) {
			continue
		}
		require.Truef(t, ruled, "%s: say in mayImport what package %s may import", file, dir)
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range f.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			if first, _, _ := strings.Cut(path, "/"); path != "C" && !strings.Contains(first, ".") {
				continue // standard library
			}
			require.Containsf(t, allowed, path, "%s imports what package %s may not", file, dir)
		}
	}
}

func TestDirectRequirements(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	allowed := map[string]bool{"github.com/aquasecurity/libbpfgo": true, "github.com/stretchr/testify": true, "golang.org/x/sys": true}
	for line := range strings.Lines(string(mod)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) < 2 || !strings.Contains(fields[0], ".") || strings.Contains(line, "// indirect") {
			continue
		}
		require.Truef(t, allowed[fields[0]], "go.mod requires %s: what only examples or tools need lives in modules of their own", fields[0])
	}
}

func TestFileLength(t *testing.T) {
	for _, file := range goFiles(t) {
		b, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		most := 350
		if strings.HasSuffix(file, "_test.go") || bytes.Contains(b, []byte("\n// Code generated")) {
			most = 500
		}
		require.LessOrEqualf(t, bytes.Count(b, []byte("\n")), most, "%s: one idea per file, %d lines at most", file, most)
	}
}

// goFiles lists the module's Go files, as paths below root.
func goFiles(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch rel {
			case ".git", "build", "libbpf":
				return filepath.SkipDir
			}
		} else if strings.HasSuffix(path, ".go") {
			files = append(files, rel)
		}
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// In a time namespace, CLOCK_MONOTONIC differs from the clock of events. So only perfbuf.Now reads
// it.
func TestOneReadsTheClock(t *testing.T) {
	for _, file := range goFiles(t) {
		switch {
		case strings.HasSuffix(file, "_test.go"), file == "internal/host/clock_linux.go":
		case file == "conformance/suite/common.go": // is independent of perfbuf
		default:
			text, err := os.ReadFile(filepath.Join(root, file))
			require.NoError(t, err)
			require.NotContainsf(t, string(text), "ClockGettime", "%s: use perfbuf.Now, which knows of time namespaces", file)
		}
	}
}

// Users of the library build neither libbpfgo nor testify: only its tests and examples do. make
// demo fetches none of the modules of the tool's other commands.
func TestWithout(t *testing.T) {
	for _, c := range []struct {
		module, packages string
		without          []string
	}{
		{".", module + "perfbuf/...", []string{"libbpfgo", "testify"}},
		{".", module + "dropin/...", []string{"cilium", "libbpfgo", "testify"}},
		{"cmd/ringfold", "./internal/demo/alone", []string{"bubbletea", "libbpfgo", "nats", "opentelemetry", "prometheus", "testify"}},
	} {
		out, err := exec.Command("go", "-C", filepath.Join(root, c.module), "list", "-deps", c.packages).CombinedOutput()
		require.NoErrorf(t, err, "%s", out)
		require.Contains(t, string(out), module+"internal/raw\n")
		for _, name := range c.without {
			require.NotContains(t, string(out), name, c.packages)
		}
	}
}

// A 32-bit program gets an error instead of a Reader. This test needs no C compiler, but a
// processor and a kernel that run 32-bit programs.
func TestRefuses32Bit(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("386 programs run on amd64")
	}
	cmd := exec.Command("go", "test", "-count=1", "-run", "^TestOpen32Bit$", module+"perfbuf")
	cmd.Env = append(os.Environ(), "GOARCH=386", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "exec format error") {
		t.Skip("this kernel does not run 386 programs")
	}
	require.NoErrorf(t, err, "%s", out)
	require.NotContains(t, string(out), "no tests to run")
}

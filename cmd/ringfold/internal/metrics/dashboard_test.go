package metrics

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/clitest"
	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

type panel struct {
	Title   string
	Targets []struct{ Expr, LegendFormat string }
}

// board is what ringfold metrics --dashboard prints.
func board(t *testing.T) []panel {
	t.Helper()
	status, text, _ := clitest.Run(t, Command, "--dashboard")
	require.Zero(t, status)
	var d struct{ Panels []panel }
	require.NoError(t, json.Unmarshal([]byte(text), &d))
	return d.Panels
}

// startPrometheus scrapes that address until the test ends, and returns its own.
func startPrometheus(t *testing.T, program, scraped string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil,
		"{global: {scrape_interval: 200ms, scrape_timeout: 200ms}, scrape_configs: [{job_name: ringfold, static_configs: [{targets: ['%s']}]}]}", scraped), 0o644))
	cmd := exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	var log strings.Builder
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait(), log.String())
	})
	return address
}

type series struct{ Metric map[string]string }

// ask returns the series of a query, none while Prometheus starts.
func ask(t *testing.T, prometheus, query string) []series {
	t.Helper()
	answer, err := http.Get("http://" + prometheus + "/api/v1/query?" + url.Values{"query": {query}}.Encode())
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusServiceUnavailable {
		return nil
	}
	var found struct {
		Status, Error string
		Data          struct{ Result []series }
	}
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&found))
	require.Equal(t, "success", found.Status, "%s: %s", query, found.Error)
	return found.Data.Result
}

// Every query of the dashboard has a series for each ring or map, with the labels of its legend.
func TestDashboardOnPrometheus(t *testing.T) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("no prometheus in PATH: Debian's package of that name has it")
	}
	e := kerneltest.Load(t)
	label := regexp.MustCompile(`\{\{(\w+)\}\}`)
	for _, cpus := range []string{"all", "each"} {
		t.Run(cpus, func(t *testing.T) {
			served, end := serving(t, "id", clitest.MapID(t, e.MapFD()), "--steal", fmt.Sprintf("--per-cpu=%t", cpus == "each"))
			defer end()
			scraped := strings.TrimSuffix(strings.TrimPrefix(served, "http://"), "/metrics")
			prometheus := startPrometheus(t, program, scraped)
			variables := strings.NewReplacer("$instance", scraped, "$__rate_interval", "5s")
			queries := 0
			for _, panel := range board(t) {
				for _, target := range panel.Targets {
					queries++
					found := ask(t, prometheus, variables.Replace(target.Expr))
					for len(found) == 0 && !strings.Contains(target.Expr, "ringfold_outputs_refused_total") { // which takes Options.LanesFD
						e.Emit(0, 10, 64)
						found = ask(t, prometheus, variables.Replace(target.Expr))
					}
					legends := map[string]bool{}
					for _, one := range found {
						legend := label.ReplaceAllStringFunc(target.LegendFormat, func(name string) string {
							value := one.Metric[strings.Trim(name, "{}")]
							require.NotEmpty(t, value, "%s: no %s in %v", target.Expr, name, one.Metric)
							return value
						})
						require.False(t, legends[legend], "%s: two series are %s", target.Expr, legend)
						legends[legend] = true
						if strings.Contains(legend, "CPU ") {
							require.Equal(t, cpus == "all", strings.Contains(legend, "CPU all"), legend)
						}
					}
				}
			}
			require.Greater(t, queries, 15)
		})
	}
}

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ringfold/ringfold/internal/kerneltest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { kerneltest.Main(m, main) }

// It prints processes of all kinds of events, in order of time, until Ctrl-C, and then counts them.
func TestStream(t *testing.T) {
	for name, args := range map[string][]string{"exact": nil, "slack": {"-slack", "1ms"}} {
		t.Run(name, func(t *testing.T) {
			kerneltest.Require(t)
			kerneltest.Processes(t)
			missing := []string{" fork ", " exec ", " exit "}
			lines := kerneltest.Until(t, kerneltest.Program(t, args...), func(line string) bool {
				missing = slices.DeleteFunc(missing, func(kind string) bool { return strings.Contains(line, kind) })
				return len(missing) == 0
			})
			samples, behind, last := 0, 0, uint64(0)
			for _, line := range lines[:len(lines)-1] {
				require.Regexp(t, `^\d+\.\d{9}  CPU \d+ +((fork|exec|exit) +\d+  \S|lost)`, line)
				var s, ns uint64
				_, err := fmt.Sscanf(line, "%d.%d", &s, &ns)
				require.NoError(t, err)
				if time := s*1e9 + ns; time < last {
					behind++
				} else {
					last = time
				}
				if !strings.Contains(line, " lost") {
					samples++
				}
			}
			var counted, lost, unread, late, outOfOrder int
			_, err := fmt.Sscanf(lines[len(lines)-1], "%d samples, %d lost, %d unread, %d late, %d out of order", &counted, &lost, &unread, &late, &outOfOrder)
			require.NoError(t, err)
			require.Equal(t, []int{samples, 0, behind, 0}, []int{counted, unread, late, outOfOrder})
			require.True(t, name == "slack" || late == 0)
		})
	}
}

func TestNoPrivilege(t *testing.T) { kerneltest.Unprivileged(t) }

package grace

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

type stub struct {
	Provider
	name  string
	wait  error
	calls *[]string
}

func (s stub) Wait() error  { *s.calls = append(*s.calls, "wait "+s.name); return s.wait }
func (s stub) Close() error { *s.calls = append(*s.calls, "close "+s.name); return nil }

// The first that works is taken, and what was tried before it is closed. Working means to have waited.
func TestProbe(t *testing.T) {
	var calls []string
	make := func(name string, open, wait error) candidate {
		return candidate{name, func() (Provider, error) {
			calls = append(calls, "open "+name)
			if open != nil {
				return nil, open
			}
			return stub{name: name, wait: wait, calls: &calls}, nil
		}}
	}
	p, err := probe([]candidate{make("a", unix.EPERM, nil), make("b", nil, errOneCPU), make("c", nil, nil), make("d", nil, nil)})
	require.NoError(t, err)
	require.Equal(t, "c", p.(stub).name)
	require.Equal(t, []string{"open a", "open b", "wait b", "close b", "open c", "wait c"}, calls)

	calls = nil
	_, err = probe([]candidate{make("a", unix.EPERM, nil), make("b", nil, errOneCPU), make("c", errNotAllowed, nil)})
	t.Log(err)
	require.Equal(t, []string{"open a", "open b", "wait b", "close b", "open c"}, calls)
	for _, cause := range []error{unix.EPERM, fs.ErrPermission, errOneCPU, errors.ErrUnsupported} {
		require.ErrorIs(t, err, cause)
	}
	for _, text := range []string{"a: operation not permitted", "b: " + errOneCPU.Error(), "c: opt-in", "CAP_BPF", "CPU sweep"} {
		require.ErrorContains(t, err, text)
	}

	_, err = probe([]candidate{make("a", unix.EMFILE, nil), make("b", errOneCPU, nil)})
	require.ErrorContains(t, err, "Raise the limit on open files")
	require.NotContains(t, err.Error(), "CAP_BPF")

	_, err = probe(nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "Linux")
}

func TestCandidates(t *testing.T) {
	for _, sweep := range []bool{false, true} {
		c := candidates(Options{Sweep: sweep})
		require.Len(t, c, 3)
		require.Equal(t, []string{mapInMapName, membarrierName, sweepName}, []string{c[0].name, c[1].name, c[2].name})
		_, err := c[2].open()
		require.Error(t, err, "no CPUs")
		require.Equal(t, !sweep, errors.Is(err, errNotAllowed))
	}
}

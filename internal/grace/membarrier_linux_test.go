package grace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// cpus imitates sysfs's CPU directory with ordinary files.
type cpus struct {
	t   *testing.T
	dir string
}

func newCPUs(t *testing.T, n int) cpus {
	c := cpus{t, t.TempDir() + "/"}
	for i := range n {
		c.add(i)
	}
	return c
}

func (c cpus) file(cpu int) string {
	return filepath.Join(c.dir, "cpu"+strconv.Itoa(cpu), "topology", "physical_package_id")
}

func (c cpus) online(list string) {
	require.NoError(c.t, os.WriteFile(c.dir+"online", []byte(list+"\n"), 0o600))
}

// add brings a CPU online.
func (c cpus) add(cpu int) {
	require.NoError(c.t, os.MkdirAll(filepath.Dir(c.file(cpu)), 0o700))
	require.NoError(c.t, os.WriteFile(c.file(cpu), []byte("0\n"), 0o600))
}

// remove takes a CPU offline. Open files then become unreadable; here, empty.
func (c cpus) remove(cpu int) {
	require.NoError(c.t, os.Truncate(c.file(cpu), 0))
	require.NoError(c.t, os.Remove(c.file(cpu)))
}

// membarrier makes a membarrier on c's CPUs whose n-th wait (from 1) calls f.
func (c cpus) membarrier(f func(n int) error) (Provider, *int) {
	n := new(int)
	p, err := newMembarrier(c.dir, func(cmd int) (int, error) {
		if cmd == membarrierQuery {
			return 1<<9 | membarrierGlobal, nil
		}
		*n++
		return 0, f(*n)
	})
	require.NoError(c.t, err)
	return p, n
}

func TestMembarrierOneCPU(t *testing.T) {
	c := newCPUs(t, 8)
	p, waits := c.membarrier(func(int) error { return nil })
	for _, list := range []string{"0", "3"} {
		c.online(list)
		require.ErrorIs(t, p.Wait(), errOneCPU)
		require.Zero(t, *waits)
	}
	for i, list := range []string{"0-1", "0,7", "2-7"} {
		c.online(list)
		require.NoError(t, p.Wait())
		require.Equal(t, i+1, *waits)
	}
}

// A wait during which a CPU went offline may have been none, so Wait repeats it or fails.
func TestMembarrierHotplug(t *testing.T) {
	for name, test := range map[string]struct {
		during func(c cpus)
		waits  int
		err    error
	}{
		"nothing":            {func(cpus) {}, 1, nil},
		"down to one":        {func(c cpus) { c.remove(1); c.remove(2); c.online("0") }, 1, errOneCPU},
		"first down":         {func(c cpus) { c.online("1-2"); c.remove(0) }, 2, nil},
		"second down":        {func(c cpus) { c.online("0,2"); c.remove(1) }, 2, nil},
		"down, file is late": {func(c cpus) { c.online("0,2") }, 2, nil},
		"down and up again":  {func(c cpus) { c.remove(1); c.add(1) }, 2, nil},
		"another one":        {func(c cpus) { c.online("0-1"); c.remove(2) }, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCPUs(t, 3)
			c.online("0-2")
			before := descriptors(t)
			p, waits := c.membarrier(func(n int) error {
				if n == 1 {
					test.during(c)
				}
				return nil
			})
			require.ErrorIs(t, p.Wait(), test.err)
			require.Equal(t, test.waits, *waits)
			require.Equal(t, before, descriptors(t))
		})
	}
}

func TestMembarrierErrors(t *testing.T) {
	c := newCPUs(t, 2)
	c.online("0-1")
	p, waits := c.membarrier(func(int) error { return unix.EINVAL })
	err := p.Wait()
	require.ErrorIs(t, err, unix.EINVAL)
	require.ErrorContains(t, err, "nohz_full")
	require.Equal(t, 1, *waits)

	require.NoError(t, os.Remove(c.file(1)))
	before := descriptors(t)
	err = p.Wait()
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "cannot watch")
	require.Equal(t, before, descriptors(t))
	require.NoError(t, os.Remove(c.dir+"online"))
	require.ErrorIs(t, p.Wait(), fs.ErrNotExist)
	require.Equal(t, 1, *waits, "a wait that nothing can be said of")

	_, err = newMembarrier(c.dir, func(int) (int, error) { return 0, unix.ENOSYS })
	require.ErrorIs(t, err, unix.ENOSYS)
	_, err = newMembarrier(c.dir, func(int) (int, error) { return 1 << 3, nil })
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func descriptors(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(fds)
}

package grace

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// stub is a provider with a set duration and error that records its calls.
type stub struct {
	is    Set
	takes time.Duration
	err   *error
	calls *[]string
}

func (s stub) Name() string { return s.is.String() }

func (s stub) Wait() error {
	*s.calls = append(*s.calls, "wait "+s.Name())
	time.Sleep(s.takes)
	return *s.err
}

func (s stub) Guard() uint64 { return uint64(s.is) }

func (s stub) Close() error { *s.calls = append(*s.calls, "close "+s.Name()); return nil }

// stubs is a machine with stub providers: the results of their waits, and why opening them fails.
type stubs struct {
	chooser
	calls   []string
	waits   map[Set]*error
	refused map[Set]error
}

func newStubs(takes map[Set]time.Duration) *stubs {
	m := &stubs{waits: map[Set]*error{}, refused: map[Set]error{}}
	m.costs = map[Set]time.Duration{}
	for _, is := range []Set{NestLevels, BindMount, MapInMap, Membarrier} {
		m.waits[is] = new(error)
		m.candidates = append(m.candidates, candidate{is, func() (Provider, error) {
			if _, is := m.refused[is]; is {
				m.calls = append(m.calls, "refuse")
			}
			if err := m.refused[is]; err != nil {
				return nil, err
			}
			return stub{is, takes[is], m.waits[is], &m.calls}, nil
		}})
	}
	return m
}

const us = time.Microsecond

var old = map[Set]time.Duration{NestLevels: 300 * us, BindMount: 10 * us, MapInMap: 8000 * us, Membarrier: 8000 * us}

// NestLevels comes first, as it interrupts nobody, then the fastest. The options must allow each
// provider, and it must cover programs if they require that.
func TestChoice(t *testing.T) {
	recent := map[Set]time.Duration{NestLevels: 300 * us, BindMount: 335 * us, MapInMap: 149 * us, Membarrier: 16000 * us}
	for name, c := range map[string]struct {
		takes map[Set]time.Duration
		o     Options
		want  string
	}{
		"outputs":                  {old, Options{}, "nest-levels"},
		"programs":                 {old, Options{Programs: true}, "bind-mount"},
		"programs, Linux 6.19":     {recent, Options{Programs: true}, "map-in-map"},
		"all but one":              {recent, Options{Allow: All &^ NestLevels}, "map-in-map"},
		"slower":                   {recent, Options{Allow: BindMount | Membarrier}, "bind-mount"},
		"gentle":                   {old, Options{Allow: MapInMap | Membarrier}, "map-in-map"},
		"last":                     {old, Options{Allow: Membarrier}, "membarrier"},
		"last, and the other none": {old, Options{Allow: Membarrier | NestLevels, Programs: true}, "membarrier"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newStubs(c.takes)
				p, err := m.open(c.o)
				require.NoError(t, err)
				require.Equal(t, c.want, p.Name())
				require.Equal(t, "wait "+c.want, m.calls[len(m.calls)-1], "it has waited")
				for _, err := range p.(*choice).refusals() {
					t.Log(err)
				}
				require.Len(t, p.(*choice).refusals(), 3)
			})
		})
	}
}

// Measuring happens once per provider: several waits of quick ones, one of slow ones, none of the
// last resort.
func TestCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newStubs(old)
		p, err := m.open(Options{Programs: true})
		require.NoError(t, err)
		require.Equal(t, 10*us, p.(*choice).first().cost)
		require.EqualValues(t, Membarrier, p.(*choice).Guard(), "enough for all")
		require.Equal(t, strings.Repeat("wait bind-mount,", 10)+"wait map-in-map,wait bind-mount", strings.Join(m.calls, ","))
		m.calls = nil
		p, err = m.open(Options{Programs: true})
		require.NoError(t, err)
		require.Equal(t, "wait bind-mount", strings.Join(m.calls, ","))
		require.Equal(t, "[nest-levels: waits for outputs, not for whole programs: unsupported operation map-in-map: in reserve, because a wait took 8ms membarrier: in reserve]",
			strings.ReplaceAll(strings.TrimSpace(errorsText(p.(*choice).refusals())), "\n", " "))
		m.calls = nil
		require.NoError(t, p.Close())
		require.Equal(t, "close bind-mount,close map-in-map,close membarrier", strings.Join(m.calls, ","))
	})
}

func errorsText(errs []error) string {
	var texts []string
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	return "[" + strings.Join(texts, " ") + "]"
}

// A single wait needs no proof, measurement or reserve.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newStubs(old)
		once := func() string {
			m.calls = nil
			p, err := m.open(Options{Programs: true, Once: true})
			require.NoError(t, err)
			require.NoError(t, p.Close())
			return strings.Join(m.calls, ",")
		}
		require.Equal(t, "wait map-in-map,close map-in-map", once())
		*m.waits[MapInMap] = unix.EPERM
		require.Equal(t, "wait map-in-map,close map-in-map,wait membarrier,close membarrier", once())
		*m.waits[Membarrier] = errOneCPU
		require.Contains(t, once(), "wait bind-mount", "where nothing else works, it is worth a proof")
		require.Equal(t, "wait bind-mount,close bind-mount", once())
		require.NoError(t, m.refused[BindMount])
		m.refused[BindMount] = unix.EPERM
		_, err := m.open(Options{Programs: true, Once: true})
		require.ErrorIs(t, err, errOneCPU)
	})
}

// If one fails later, the next takes over: for good if privileges are missing, else for that wait.
func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newStubs(old)
		p, err := m.open(Options{Programs: true})
		require.NoError(t, err)
		waits := func() string {
			m.calls = nil
			require.NoError(t, p.Wait())
			return strings.Join(m.calls, ",")
		}
		*m.waits[BindMount] = unix.ENFILE
		require.Equal(t, "wait bind-mount,wait map-in-map", waits())
		*m.waits[BindMount] = nil
		require.Equal(t, "wait bind-mount", waits())
		require.Equal(t, "bind-mount", p.Name())

		*m.waits[BindMount] = unix.EPERM
		require.Equal(t, "wait bind-mount,wait map-in-map", waits())
		require.Equal(t, "wait map-in-map", waits())
		require.Equal(t, "map-in-map", p.Name())
		require.Contains(t, errorsText(p.(*choice).refusals()), "bind-mount: operation not permitted")

		*m.waits[MapInMap] = unix.ENOSYS
		require.Equal(t, "wait map-in-map,wait membarrier", waits())
		require.Equal(t, "membarrier", p.Name())
		*m.waits[Membarrier] = unix.EPERM
		require.Equal(t, unix.EPERM, p.Wait())
		require.Equal(t, unix.EPERM, p.Wait())
		require.Equal(t, "membarrier", p.Name())
		*m.waits[Membarrier] = nil
		require.Equal(t, "wait membarrier", waits(), "the last is tried again")
	})
}

// If none works, the error names each with its reason, and open closes all that it opened.
func TestNoChoice(t *testing.T) {
	m := newStubs(nil)
	m.refused[BindMount], *m.waits[MapInMap], *m.waits[Membarrier] = unix.EPERM, unix.EIO, errOneCPU
	_, err := m.open(Options{Programs: true})
	t.Log(err)
	for _, cause := range []error{unix.EPERM, fs.ErrPermission, errOneCPU, errors.ErrUnsupported} {
		require.ErrorIs(t, err, cause)
	}
	for _, text := range []string{"bind-mount: operation not permitted", "membarrier: " + errOneCPU.Error(), "CAP_BPF", "nest-levels: waits for outputs"} {
		require.ErrorContains(t, err, text)
	}
	require.Equal(t, []string{"refuse", "wait map-in-map", "close map-in-map", "wait membarrier", "close membarrier"}, m.calls)

	m.refused[MapInMap] = unix.EMFILE
	_, err = m.open(Options{Allow: MapInMap})
	require.ErrorContains(t, err, "Raise the limit on open files")
	require.ErrorContains(t, err, "bind-mount: not allowed by the options")
	require.NotContains(t, err.Error(), "CAP_BPF")

	_, err = (&chooser{}).open(Options{})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorContains(t, err, "Linux")
}

// A barrier proves that programs ended only if it waits for whole programs, not just their outputs.
func TestProgramsEndedByABarrier(t *testing.T) {
	for _, allow := range []Set{NestLevels | MapInMap, MapInMap} {
		t.Run(allow.String(), func(t *testing.T) {
			m := newStubs(nil)
			p, err := m.open(Options{Allow: allow})
			require.NoError(t, err)
			b := New(p, func() uint64 { return 1 }, BarrierOptions{})
			m.calls = nil
			cannot := func(o Options) (Provider, error) { return nil, unix.EPERM }
			err = <-ProgramsEnded(cannot, allow, b)
			if allow == MapInMap {
				require.NoError(t, err)
				require.Equal(t, []string{"wait map-in-map"}, m.calls)
				return
			}
			require.Equal(t, unix.EPERM, err)
			require.Empty(t, m.calls)
			require.Equal(t, unix.EPERM, <-ProgramsEnded(cannot, allow, nil))
		})
	}
}

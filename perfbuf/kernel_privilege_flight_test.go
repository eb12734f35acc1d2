//go:build linux && cgo

package perfbuf_test

import (
	"testing"

	"github.com/ringfold/ringfold/perfbuf/flight"
	"github.com/stretchr/testify/require"
)

// The two capabilities are enough for a flight recorder too, also for one that pauses its rings.
func TestKernelPrivilegedFlightRecorder(t *testing.T) {
	relax(t)
	for _, pause := range []bool{false, true} {
		t.Run(map[bool]string{false: "live", true: "pause"}[pause], func(t *testing.T) {
			asSomebody(t, identity{caps: justEnough}, func(t *testing.T, e *remote) {
				r, err := flight.Open(childFD, flight.Options{Pause: pause})
				require.NoError(t, err)
				defer r.Close()
				require.Equal(t, "map-in-map", r.Stats().Barrier)
				for i := range 3 {
					s, err := r.Snapshot(t.Context())
					require.NoError(t, err)
					require.Equal(t, 5*i*len(s.Rings()), s.Len())
					for _, ring := range s.Rings() {
						require.NoError(t, ring.Err)
						e.emit(ring.CPU, 5)
					}
					s.Release()
				}
			})
		})
	}
	t.Run("without", func(t *testing.T) {
		asSomebody(t, identity{}, func(t *testing.T, _ *remote) {
			_, err := flight.Open(childFD, flight.Options{})
			require.ErrorContains(t, err, "CAP_PERFMON")
		})
	})
}

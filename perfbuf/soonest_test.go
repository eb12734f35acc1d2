package perfbuf

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// SoonestFull's comparison is a strict weak order, or what sorting makes of it is left to chance.
func TestSoonestFullIsAnOrder(t *testing.T) {
	const size = 64
	var loads []Load
	for _, used := range []int{0, 1, 32, 55, 56, 57, 60, 63, 64} {
		for _, grown := range []int{0, 1, 2, 31, 64, 1<<31 - 1} {
			loads = append(loads, Load{Size: size, Used: used, Grown: grown})
		}
	}
	for _, a := range loads {
		require.Zero(t, sooner(a, a))
		for _, b := range loads {
			if sooner(a, b) != -sooner(b, a) {
				t.Fatalf("%+v and %+v", a, b)
			}
			for _, c := range loads {
				if sooner(a, b) <= 0 && sooner(b, c) <= 0 && (sooner(a, c) > 0 || sooner(a, c) == 0 && sooner(a, b)+sooner(b, c) < 0) {
					t.Fatalf("%+v, %+v, %+v", a, b, c)
				}
			}
		}
	}
}

// A ring takes no output any more before it is full to the last byte, and then does not grow. It is read first.
func TestSoonestFullReadsAFullRingFirst(t *testing.T) {
	k := newFake(t, 2, Options{Schedule: SoonestFull()})
	k.fill(1, 1)
	require.NoError(t, k.ForEach(func(Event) error { return ErrStop })) // looks, and frees little
	k.output(0, 9999)
	var first int
	require.NoError(t, k.ForEach(func(ev Event) error { first = ev.CPU(); return ErrStop }))
	require.Equal(t, firstCPU+1, first)
}

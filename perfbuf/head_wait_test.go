package perfbuf

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A head that goes back or far ahead, as only damage makes it, is not believed. A waiter then goes
// on waiting, and reads on when the head is right again.
func TestWaitWithADamagedHead(t *testing.T) {
	for name, wakeup := range map[string]Wakeup{"each": {Events: 1}, "bytes": {Bytes: recordSize, PollInterval: 5 * time.Millisecond}} {
		for source, of := range map[string]func(k *fake) *Stream{
			"ring":      func(k *fake) *Stream { return sourceKinds["ring"](k) },
			"unordered": func(k *fake) *Stream { return k.unordered() },
			"ordered":   func(k *fake) *Stream { return k.stream() },
		} {
			for jump, believed := range map[uint64]bool{
				1 << 20: true, 1<<62 - 8 - recordSize: true, 1 << 62: source != "ordered", 1<<63 - 8 - recordSize: source != "ordered",
				1 << 63: false, ^uint64(7) - 2*recordSize: false, ^uint64(7) - 1<<20: false,
			} {
				t.Run(name+", "+source, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						k := newFake(t, 1, Options{Wakeup: wakeup})
						w := of(k)
						k.output(0, 10)
						head := k.w[0].Head()
						k.w[0].SetHead(head + jump)
						k.w[0].Publish()
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						defer cancel()
						n := 0
						require.ErrorIs(t, w.Run(ctx, func(ev Event) error { n++; return nil }), context.DeadlineExceeded)
						require.Equal(t, believed, n > 0, "%#x ahead", jump)
						if !believed {
							k.w[0].SetHead(head)
							k.w[0].Publish()
							k.output(0, 11)
							require.Equal(t, []uint64{10, 11}, ids(t, w))
						}
					})
				})
			}
		}
	}
}

package top

import (
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

func TestClock(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0:00", 61 * time.Second: "1:01", 3661 * time.Second: "1:01:01"} {
		require.Equal(t, want, clock(d))
	}
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		used, high, width int
		want              string
	}{
		{0, 0, 8, "········"},
		{1, 0, 8, "▏·······"}, // something is something
		{100, 100, 8, "████████"},
		{50, 75, 8, "████··│·"},
		{50, 50, 8, "████│···"},
		{50, 100, 8, "████···│"},
		{53, 53, 8, "████▎···"}, // the tick would hide it
		{80, 50, 8, "██████▍·"}, // used now, and no pass has seen it yet
		{0, 100, 1, "│"},
		{50, 50, 0, ""},
	} {
		got := ansi.Strip(bar(row{RingStats: perfbuf.RingStats{Size: 100, Used: c.used, HighWater: c.high}}, c.width))
		require.Equal(t, c.want, got, "%+v", c)
	}
	require.Equal(t, "   ", bar(row{}, 3), "a ring without a size")
}

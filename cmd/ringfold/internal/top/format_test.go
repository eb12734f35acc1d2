package top

import (
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/ringfold/ringfold/perfbuf"
	"github.com/stretchr/testify/require"
)

func TestFormats(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 12345678: "12,345,678", 1<<64 - 1: "18,446,744,073,709,551,615"} {
		require.Equal(t, want, count(n))
	}
	for f, want := range map[float64]string{0: "0", 0.2: "0.2", 3: "3", 9.94: "9.9", 9.96: "10", 1234.5: "1,235"} {
		require.Equal(t, want, perSecond(f))
	}
	for f, want := range map[float64]string{0: "0 B", 1023: "1023 B", 1023.97: "1.0 KiB", 1024: "1.0 KiB", 1536: "1.5 KiB", 1024*1024 - 1: "1.0 MiB", 5 << 40: "5.0 TiB"} {
		require.Equal(t, want, size(f))
	}
	for f, want := range map[float64]string{0: "0%", 0.0001: "1%", 0.5: "50%", 0.9999: "99%", 1: "100%"} {
		require.Equal(t, want, percent(f))
	}
	for d, want := range map[time.Duration]string{0: "0.0", 7649 * time.Microsecond: "7.6", 99960 * time.Microsecond: "100", 65 * time.Second: "65000"} {
		require.Equal(t, want, milliseconds(d))
	}
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
	require.Empty(t, bar(row{}, 0), "a ring without a size")
}
